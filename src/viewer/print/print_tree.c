/*
 * Tree view: numbers in columns on the left, where they can be compared, and the tree on the right,
 * where its width does not matter.
 *
 *   time/ms  time/%  count  frame
 *   0.01645  100.00      4  ROOT
 *   0.00653   39.69      2  ├─ outer
 *   0.00506   30.73      1  │  └─ inner
 *
 * On a terminal, names are shortened in the middle to fit the line, and deep levels share the last
 * indentation, with "+N" before the name. A file or a pipe gets complete names.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/array.h"
#include "viewer/print/number_format.h"
#include "viewer/print/printable_text.h"
#include "viewer/print/printers.h"
#include "viewer/print/xalloc.h"
#include "viewer/query/filter.h"
#include "viewer/query/hiding.h"
#include "viewer/query/walk.h"

#define GAP_COLUMNS 2
#define LEVEL_COLUMNS 3
#define LEVELS_WITHOUT_TERMINAL 100 /* a tree 100 000 deep must not make lines of 300 000 bytes */
#define NAME_COLUMNS_MIN 24         /* reserved for the name on a terminal */
#define MORE_BYTES 32
#define TEXT_COLUMNS_MAX 32 /* of a text column on a terminal */

/*
 * Colors by share of the first column, which highlight the hot path. Only the terminal's own
 * sixteen colors are used, because they suit its background.
 */
enum paint {
	PAINT_BANDS = 5, /* the colors before it, the largest share first */
	PAINT_HEADER = PAINT_BANDS,
	PAINT_FAINT,
	PAINT_NONE,
};

static const char *const escapes[] = {
	"\033[1;31m", /* bold red */
	"\033[33m",   /* yellow */
	"\033[32m",   /* green */
	"",
	"\033[2m", /* faint */
	[PAINT_HEADER] = "\033[1m",
	[PAINT_FAINT] = "\033[2m",
	[PAINT_NONE] = "",
};
static const double min_percents[PAINT_BANDS] = {50, 25, 10, 1, -INFINITY};

struct printer {
	const struct view *view;
	struct view fitted; /* target of `view`: only the columns that fit */
	size_t dropped;     /* columns omitted */
	struct out *out;
	struct number_format *styles; /* per column */
	size_t *widths;
	size_t numbers_columns; /* all columns with their gaps */
	size_t levels;          /* maximum indentation */
	double whole;           /* 100 % of the bands */
	bool is_of_root;        /* the whole is the value of the root; else the largest value */
	bool is_of_sum;         /* the whole is the sum over all nodes */
	struct out scratch;     /* a stored name, then its cleaned text */
	struct out cleaned;
	bool *continues; /* per level: a sibling follows below */
};

struct drawing {
	const char *through; /* passes this level */
	const char *branch;
	const char *last;
	const char *ellipsis;
	const char *separator;
};

static const struct drawing drawings[2] = {
	{"|  ", "|- ", "`- ", "...", "; "},
	{"│  ", "├─ ", "└─ ", "…", " · "},
};

static const struct drawing *drawing_of(const struct printer *printer)
{
	return &drawings[printer->view->term.has_utf8];
}

/* ------------------------------------------------------------------ colors */

/* Text until unpaint() is painted; without color both do nothing. */
static void paint(struct printer *printer, size_t paint)
{
	out_text(printer->out, printer->view->term.has_color ? escapes[paint] : "");
}

static void unpaint(struct printer *printer, size_t paint)
{
	out_text(printer->out, printer->view->term.has_color && *escapes[paint] ? "\033[0m" : "");
}

static void find_whole(struct printer *printer)
{
	const struct metric_column *column = &printer->view->columns[0];
	size_t count = printer->view->profile->node_count;

	if (!column->values)
		return;
	printer->is_of_root = column->is_additive && column->is_inclusive;
	printer->is_of_sum = column->is_additive && !column->is_inclusive;
	if (column->is_additive)
		printer->whole = metric_column_whole(column, count);
	for (size_t i = 0; !column->is_additive && i < count; i++)
		if (isfinite(column->values[i]) && column->values[i] > printer->whole)
			printer->whole = column->values[i];
}

static size_t band_of(const struct printer *printer, double value)
{
	size_t band = 0;

	/* A share of zero is neither hot nor cold. */
	if (!isfinite(value) || !(printer->whole > 0))
		return PAINT_BANDS - 2;
	while (band < PAINT_BANDS - 1 && 100 * value / printer->whole < min_percents[band])
		band++;
	return band;
}

/* ------------------------------------------------------------------ columns */

/* The value of a text metric, cleaned; "-" if the node has none. */
static void value_text(struct printer *printer, const struct metric_column *column, uint32_t node)
{
	printer->scratch.length = 0;
	printer->cleaned.length = 0;
	table_text(&printer->scratch, printer->view, column, node);
	text_clean(&printer->cleaned, printer->scratch.bytes, printer->scratch.length);
	if (printer->cleaned.length == 0)
		out_byte(&printer->cleaned, column->words ? ' ' : '-');
}

static size_t text_column_width(struct printer *printer, const struct metric_column *column)
{
	const struct view *view = printer->view;
	size_t widest = 1;

	for (size_t i = 0; i < view->profile->node_count; i++) {
		if (view->state[i] != NODE_SHOWN)
			continue;
		value_text(printer, column, (uint32_t)i);
		size_t columns = text_columns(printer->cleaned.bytes, printer->cleaned.length);
		if (columns > widest)
			widest = columns;
	}
	if (view->term.is_tty && widest > TEXT_COLUMNS_MAX)
		widest = TEXT_COLUMNS_MAX;
	return widest;
}

static size_t number_column_width(const struct printer *printer, const struct metric_column *column,
				  struct number_format *style_out)
{
	const struct view *view = printer->view;
	char text[NUMBER_FORMAT_BYTES];
	double largest = 0, smallest = 0;
	size_t widest = 1;
	bool has_tiny = false;

	for (size_t i = 0; i < view->profile->node_count; i++) {
		double value = column->values[i];

		if (view->state[i] != NODE_SHOWN || !isfinite(value))
			continue;
		if (value > largest)
			largest = value;
		if (value < smallest)
			smallest = value;
	}
	*style_out =
		number_format_for(largest > -smallest ? largest : -smallest, column->exact != NULL);
	for (size_t i = 0; i < view->profile->node_count && !has_tiny; i++)
		has_tiny = view->state[i] == NODE_SHOWN && column->values[i] != 0 &&
			   fabs(column->values[i]) < style_out->tiny;
	if (has_tiny)
		widest = number_format_write(text, *style_out, smallest < 0 ? -1e-100 : 1e-100);
	for (int i = 0; i < 2; i++) {
		size_t width = number_format_write(text, *style_out, i == 0 ? largest : smallest);

		if (width > widest)
			widest = width;
	}
	return widest;
}

/* With default columns: omits the last ones if they would leave no space for names. */
static void drop_columns(struct printer *printer)
{
	struct view *view = &printer->fitted;
	size_t space = view->term.columns;

	while (view->is_default && view->term.is_tty && view->shown_count > 1 &&
	       printer->numbers_columns + NAME_COLUMNS_MIN > space) {
		view->shown_count--;
		printer->dropped++;
		printer->numbers_columns -= printer->widths[view->shown_count] + GAP_COLUMNS;
	}
}

static void lay_out(struct printer *printer)
{
	const struct view *view = printer->view;

	printer->styles = xcalloc(view->shown_count, sizeof(*printer->styles));
	printer->widths = xcalloc(view->shown_count, sizeof(*printer->widths));
	for (size_t c = 0; c < view->shown_count; c++) {
		const struct metric_column *column = &view->columns[c];
		size_t header = text_columns(column->name, strlen(column->name));

		printer->widths[c] =
			column->values ? number_column_width(printer, column, &printer->styles[c])
				       : text_column_width(printer, column);
		if (printer->widths[c] < header)
			printer->widths[c] = header;
		printer->numbers_columns += printer->widths[c] + GAP_COLUMNS;
	}
	drop_columns(printer);
	printer->levels = LEVELS_WITHOUT_TERMINAL;
	if (view->term.is_tty) {
		size_t space = printer->numbers_columns + NAME_COLUMNS_MIN;
		space = view->term.columns > space ? view->term.columns - space : 0;
		printer->levels = space / LEVEL_COLUMNS + 1;
	}
}

static void print_cell(struct printer *printer, size_t c, const char *text, size_t length)
{
	size_t width = printer->widths[c];
	size_t columns = text_columns(text, length);

	if (columns <= width)
		text_pad(printer->out, width - columns);
	text_shorten(printer->out, text, length, width, drawing_of(printer)->ellipsis, false);
}

static void print_header(struct printer *printer)
{
	const struct view *view = printer->view;

	paint(printer, PAINT_HEADER);
	for (size_t c = 0; c < view->shown_count; c++) {
		const char *name = view->columns[c].name;

		printer->cleaned.length = 0;
		text_clean(&printer->cleaned, name, strlen(name));
		print_cell(printer, c, printer->cleaned.bytes, printer->cleaned.length);
		text_pad(printer->out, GAP_COLUMNS);
	}
	out_text(printer->out, "frame");
	unpaint(printer, PAINT_HEADER);
	out_byte(printer->out, '\n');
}

static void print_numbers(struct printer *printer, uint32_t node, size_t band)
{
	const struct view *view = printer->view;
	char text[NUMBER_FORMAT_BYTES];

	for (size_t c = 0; c < view->shown_count; c++) {
		const struct metric_column *column = &view->columns[c];

		if (c == 0)
			paint(printer, band);
		if (column->values) {
			size_t length =
				number_format_write(text, printer->styles[c], column->values[node]);
			print_cell(printer, c, text, length);
		} else {
			value_text(printer, column, node);
			print_cell(printer, c, printer->cleaned.bytes, printer->cleaned.length);
		}
		if (c == 0)
			unpaint(printer, band);
		text_pad(printer->out, GAP_COLUMNS);
	}
}

/* Prints the branch lines before a node; returns their width in columns. */
static size_t print_branches(struct printer *printer, const struct walk_step *step)
{
	const struct drawing *drawing = drawing_of(printer);
	size_t levels = step->level < printer->levels ? step->level : printer->levels;
	size_t columns = levels * LEVEL_COLUMNS;

	if (step->level == 0 || printer->view->is_flat)
		return 0;
	paint(printer, PAINT_FAINT);
	for (size_t i = 1; i < levels; i++)
		out_text(printer->out, printer->continues[i] ? drawing->through : "   ");
	out_text(printer->out, step->is_last ? drawing->last : drawing->branch);
	if (step->level > levels) {
		char depth[32];
		size_t length =
			(size_t)snprintf(depth, sizeof(depth), "+%zu", step->level - levels);

		out_bytes(printer->out, depth, length);
		out_byte(printer->out, ' ');
		columns += length + 1;
	}
	unpaint(printer, PAINT_FAINT);
	if (step->level < printer->levels)
		printer->continues[step->level] = !step->is_last;
	return columns;
}

/* "(12 more)": frames that are not printed. */
static size_t more_text(char text[MORE_BYTES], uint32_t more)
{
	return (size_t)snprintf(text, MORE_BYTES, "(%" PRIu32 " more)", more);
}

static void print_more(struct printer *printer, uint32_t more)
{
	char text[MORE_BYTES];
	size_t length = more_text(text, more);

	paint(printer, PAINT_FAINT);
	out_bytes(printer->out, text, length);
	unpaint(printer, PAINT_FAINT);
}

/* Columns left for a name on a terminal. */
static size_t name_columns(const struct printer *printer, const struct walk_step *step,
			   size_t branches)
{
	size_t columns = printer->view->term.columns;
	size_t taken = printer->numbers_columns + branches;
	char text[MORE_BYTES];

	if (columns == 0)
		return SIZE_MAX;
	if (step->more)
		taken += 1 + more_text(text, step->more);
	return columns > taken + NAME_COLUMNS_MIN / 2 ? columns - taken : NAME_COLUMNS_MIN / 2;
}

/* Prints the name of a node, which stays in `cleaned`. */
static void put_name(struct printer *printer, uint32_t node, size_t columns)
{
	const struct view *view = printer->view;
	uint32_t frame = view->profile->nodes[node].frame;

	printer->scratch.length = 0;
	printer->cleaned.length = 0;
	name_write_styled(&printer->scratch, view->profile, frame, view->format, view->names);
	text_clean(&printer->cleaned, printer->scratch.bytes, printer->scratch.length);
	text_shorten(printer->out, printer->cleaned.bytes, printer->cleaned.length, columns,
		     drawing_of(printer)->ellipsis,
		     view->profile->frames[frame].kind == FRAME_SOURCE);
}

static void print_name(struct printer *printer, const struct walk_step *step, size_t columns,
		       size_t band)
{
	paint(printer, band);
	put_name(printer, step->node, name_columns(printer, step, columns));
	unpaint(printer, band);
	if (step->more) {
		out_byte(printer->out, ' ');
		print_more(printer, step->more);
	}
}

static void print_step(struct printer *printer, const struct walk_step *step)
{
	const struct metric_column *first = &printer->view->columns[0];
	size_t band = first->values ? band_of(printer, first->values[step->node]) : PAINT_NONE;

	if (step->is_more) {
		text_pad(printer->out, printer->numbers_columns);
		print_branches(printer, step);
		print_more(printer, step->more);
	} else {
		print_numbers(printer, step->node, band);
		print_name(printer, step, print_branches(printer, step), band);
	}
	out_byte(printer->out, '\n');
}

/* "inclusive: a, b" if there are any. */
static bool print_scope(struct printer *printer, bool is_inclusive)
{
	const struct view *view = printer->view;
	bool has_any = false;

	for (size_t c = 0; c < view->shown_count; c++) {
		if (view->columns[c].is_inclusive != is_inclusive)
			continue;
		out_text(printer->out, has_any        ? ", "
				       : is_inclusive ? "inclusive: "
						      : "exclusive: ");
		text_clean(printer->out, view->columns[c].name, strlen(view->columns[c].name));
		has_any = true;
	}
	return has_any;
}

/* The legend of the colors. */
static void print_shares(struct printer *printer)
{
	paint(printer, PAINT_FAINT);
	out_text(printer->out, printer->is_of_root  ? "share of the root:"
			       : printer->is_of_sum ? "share of the sum:"
						    : "share of the largest:");
	unpaint(printer, PAINT_FAINT);
	for (size_t band = 0; band < PAINT_BANDS; band++) {
		out_byte(printer->out, ' ');
		paint(printer, band);
		if (band + 1 < PAINT_BANDS)
			out_printf(printer->out, ">=%g%%", min_percents[band]);
		else
			out_printf(printer->out, "<%g%%", min_percents[band - 1]);
		unpaint(printer, band);
	}
	out_byte(printer->out, '\n');
}

/* "1234 more frames, 5.6 % of time/ms; show them with --all" */
static void print_cut(struct printer *printer)
{
	const struct view *view = printer->view;
	const struct view_cut *cut = &view->cut;

	out_printf(printer->out, "%zu more frame%s", cut->frames, cut->frames > 1 ? "s" : "");
	if (!isnan(cut->percent)) {
		const char *name = view->columns[view->sort_column].name;
		char text[NUMBER_FORMAT_BYTES];
		size_t length = number_format_write(
			text, (struct number_format){.decimals = 2, .tiny = 0.005}, cut->percent);

		out_text(printer->out, ", ");
		out_bytes(printer->out, text, length);
		out_text(printer->out, " % of ");
		text_clean(printer->out, name, strlen(name));
	}
	out_text(printer->out, "; show them with --all\n");
}

static void print_legend(struct printer *printer)
{
	const struct view *view = printer->view;
	const struct metric_column *first = &view->columns[view->sort_column];
	const char *separator = drawing_of(printer)->separator;

	out_byte(printer->out, '\n');
	paint(printer, PAINT_FAINT);
	if (print_scope(printer, true))
		out_text(printer->out, separator);
	if (print_scope(printer, false))
		out_text(printer->out, separator);
	if (first->values) {
		out_text(printer->out,
			 view->by_magnitude ? "sorted by the magnitude of " : "sorted by ");
		text_clean(printer->out, first->name, strlen(first->name));
	} else {
		out_text(printer->out, "in file order");
	}
	if (view->base_runs > 1 || view->runs > 1)
		out_printf(printer->out, "%smeans of %zu and %zu runs", separator, view->base_runs,
			   view->runs);
	if (printer->dropped)
		out_printf(printer->out, "%s%zu more columns with a wider terminal or -m",
			   separator, printer->dropped);
	if (hiding_is_unasked())
		out_printf(printer->out, "%slines of libraries hidden (--frames all)", separator);
	unpaint(printer, PAINT_FAINT);
	out_byte(printer->out, '\n');
	if (view->term.has_color && view->columns[0].values)
		print_shares(printer);
	if (view->cut.frames)
		print_cut(printer);
}

typedef void print_step_fn(struct printer *printer, const struct walk_step *step);

static void print_rows(struct printer *printer, print_step_fn *print)
{
	struct walk_step step;
	AT_END(walk_fini) struct walk walk;

	walk_init(&walk, printer->view);
	while (!printer->out->errnum && walk_next(&walk, &step))
		print(printer, &step);
}

static void printer_init(struct printer *printer, const struct view *view, struct out *out)
{
	*printer = (struct printer){.fitted = *view, .out = out};
	printer->view = &printer->fitted;
	out_init(&printer->scratch, -1);
	out_init(&printer->cleaned, -1);
	find_whole(printer);
	lay_out(printer);
	printer->continues = xcalloc(printer->levels + 1, sizeof(*printer->continues));
}

static void printer_fini(struct printer *printer)
{
	FREE_ALL(printer->continues, printer->styles, printer->widths);
	out_fini(&printer->scratch);
	out_fini(&printer->cleaned);
}

static void print_run(struct printer *printer)
{
	printer->scratch.length = 0;
	header_write(&printer->scratch, printer->view->profile, printer->view->term.has_utf8);
	if (!printer->scratch.length)
		return;
	paint(printer, PAINT_FAINT);
	out_bytes(printer->out, printer->scratch.bytes, printer->scratch.length);
	unpaint(printer, PAINT_FAINT);
	out_byte(printer->out, '\n');
}

void tree_print(const struct view *view, struct out *out)
{
	AT_END(printer_fini) struct printer printer;

	printer_init(&printer, view, out);
	print_run(&printer);
	print_header(&printer);
	print_rows(&printer, print_step);
	print_legend(&printer);
	if (view->why) {
		text_clean(out, view->why, strlen(view->why));
		out_byte(out, '\n');
	}
}

/* ------------------------------------------------------------------ Markdown */

/* Punctuation that Markdown or HTML has a meaning for gets a backslash. */
static void markdown_text(struct printer *printer, const char *text, size_t length)
{
	printer->cleaned.length = 0;
	text_clean(&printer->cleaned, text, length);
	for (size_t i = 0; i < printer->cleaned.length; i++) {
		if (strchr("\\`*_[]<>|&~#", printer->cleaned.bytes[i]))
			out_byte(printer->out, '\\');
		out_byte(printer->out, printer->cleaned.bytes[i]);
	}
}

static void markdown_cell(struct printer *printer, const struct walk_step *step, size_t c)
{
	const struct metric_column *column = &printer->view->columns[c];
	char text[NUMBER_FORMAT_BYTES];

	if (step->is_more)
		return;
	if (column->values) {
		out_bytes(printer->out, text,
			  number_format_write(text, printer->styles[c],
					      column->values[step->node]));
		return;
	}
	printer->scratch.length = 0;
	table_text(&printer->scratch, printer->view, column, step->node);
	markdown_text(printer, printer->scratch.bytes, printer->scratch.length);
}

static void markdown_row(struct printer *printer, const struct walk_step *step)
{
	const struct view *view = printer->view;

	for (size_t c = 0; c < view->shown_count; c++) {
		out_text(printer->out, "| ");
		markdown_cell(printer, step, c);
		out_byte(printer->out, ' ');
	}
	out_text(printer->out, "| ");
	for (size_t level = view->is_flat ? step->level : 0; level < step->level; level++)
		out_text(printer->out, "&emsp;");
	printer->scratch.length = 0;
	if (!step->is_more)
		name_write_styled(&printer->scratch, view->profile,
				  view->profile->nodes[step->node].frame, view->format,
				  view->names);
	markdown_text(printer, printer->scratch.bytes, printer->scratch.length);
	if (step->more)
		out_printf(printer->out, "%s(%" PRIu32 " more)", step->is_more ? "" : " ",
			   step->more);
	out_text(printer->out, " |\n");
}

void tree_print_markdown(const struct view *view, struct out *out)
{
	struct view plain = *view;
	AT_END(printer_fini) struct printer printer;

	plain.term = (struct term){.has_utf8 = true};
	printer_init(&printer, &plain, out);
	for (size_t c = 0; c < plain.shown_count; c++) {
		out_text(out, "| ");
		markdown_text(&printer, plain.columns[c].name, strlen(plain.columns[c].name));
		out_byte(out, ' ');
	}
	out_text(out, "| frame |\n");
	for (size_t c = 0; c < plain.shown_count; c++)
		out_text(out, plain.columns[c].values ? "| ---: " : "| :--- ");
	out_text(out, "| :--- |\n");
	print_rows(&printer, markdown_row);
	if (plain.base_runs > 1 || plain.runs > 1)
		out_printf(out, "\nMeans of %zu and %zu runs.\n", plain.base_runs, plain.runs);
	if (plain.why) {
		out_byte(out, '\n');
		markdown_text(&printer, plain.why, strlen(plain.why));
		out_byte(out, '\n');
	}
}

/* ------------------------------------------------------------------ --print-sorted */

/* All frames with their values of the first metric, largest first, without the tree. */

#define SORTED_NAME_COLUMNS 105
#define SORTED_VALUE_COLUMNS 12

struct sorted_frame {
	double value;
	uint32_t node;
};

ARRAY_ORDER(compare_sorted, struct sorted_frame,
	    ORDER_OF(b->value, a->value) ?: ORDER_OF(a->node, b->node))

/* Omits the root, which would always be first. */
static struct sorted_frame *collect(const struct view *view, size_t *count_out)
{
	const double *values = view->columns[view->sort_column].values;
	size_t nodes = view->profile->node_count;
	struct sorted_frame *entries = xcalloc(nodes, sizeof(*entries));
	size_t count = 0;

	for (size_t i = 1; values && i < nodes; i++) {
		if (view->state[i] == NODE_SHOWN && isfinite(values[i]))
			entries[count++] = (struct sorted_frame){values[i], (uint32_t)i};
	}
	ARRAY_SORT(entries, count, compare_sorted);
	*count_out = count;
	return entries;
}

void sorted_print(const struct view *view, struct out *out)
{
	const struct metric_column *sorted_by = &view->columns[view->sort_column];
	size_t name_columns = SORTED_NAME_COLUMNS;
	AT_END(printer_fini) struct printer printer;
	size_t count;
	AUTO_FREE struct sorted_frame *entries = collect(view, &count);

	if (view->term.columns && view->term.columns < SORTED_NAME_COLUMNS + SORTED_VALUE_COLUMNS)
		name_columns = view->term.columns - SORTED_VALUE_COLUMNS;
	printer_init(&printer, view, out);
	out_text(out, "\nSorted kernels by metric ");
	text_clean(out, sorted_by->name, strlen(sorted_by->name));
	out_byte(out, '\n');
	for (size_t i = 0; i < count && !out->errnum; i++) {
		put_name(&printer, entries[i].node, view->term.columns ? name_columns : SIZE_MAX);
		size_t columns = text_columns(printer.cleaned.bytes, printer.cleaned.length);
		text_pad(out, columns < name_columns ? name_columns - columns : 0);
		out_printf(out, " %.4g\n", entries[i].value);
	}
}
