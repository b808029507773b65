/*
 * --warps: in text tables per kernel of its roles, critical path and asynchronous work, and a
 * one-line summary; the stored sums as data for programs.
 */
#include "viewer/print/printers.h"

#include <math.h>

#include "base/array.h"
#include "model/rollup.h"
#include "model/warp_metrics.h"
#include "viewer/print/printable_text.h"
#include "viewer/print/xalloc.h"
#include "viewer/query/frame_names.h"

#define PATH_ROWS 8         /* unless --rows is given */
#define NAME_COLUMNS_MIN 24 /* at any terminal width */
#define LITTLE_PERCENT 1.0  /* waiting below this is not mentioned */

struct printer {
	const struct warps_report *report;
	const struct options *options;
	const struct warps_kernel *kernel;
	struct term term;
	struct out *out;
	struct out stored; /* a name */
	struct out names[2];
	struct out line; /* its end */
};

/* ------------------------------------------------------------------ words and numbers */

static double percent(double part, double whole)
{
	return whole > 0 ? 100 * part / whole : NAN;
}

/* A name as printable text, until the next one in the same place. */
static const char *name_of(struct printer *printer, int place, uint32_t frame)
{
	struct out *name = &printer->names[place];

	printer->stored.length = 0;
	name_write_styled(&printer->stored, printer->report->profile, frame,
			  printer->options->style.format, printer->options->style.names);
	name->length = 0;
	text_clean(name, printer->stored.bytes, printer->stored.length);
	out_byte(name, '\0');
	return name->errnum ? "" : name->bytes;
}

/* Right-aligned; "-" for unknown. */
static void put_number(struct printer *printer, int columns, int decimals, double value)
{
	if (isnan(value))
		out_printf(printer->out, "%*s", columns, "-");
	else
		out_printf(printer->out, "%*.*f", columns, decimals, value);
}

/* Prints the end of a line that has `used` columns. */
static void end_line(struct printer *printer, size_t used)
{
	size_t space = SIZE_MAX;

	if (printer->term.columns)
		space = printer->term.columns > used + NAME_COLUMNS_MIN
				? printer->term.columns - used
				: NAME_COLUMNS_MIN;
	text_shorten(printer->out, printer->line.bytes, printer->line.length, space,
		     printer->term.has_utf8 ? "…" : "...", false);
	out_byte(printer->out, '\n');
	printer->line.length = 0;
}

/* ------------------------------------------------------------------ the tables */

static void print_head(struct printer *printer)
{
	const double *number = printer->kernel->rows[0].number;
	double ctas = number[WARPS_NUMBER_SAMPLED_CTAS];
	double unseen = number[WARPS_NUMBER_UNSEEN];
	double cycles = number[WARPS_NUMBER_CTA_CYCLES];

	out_printf(printer->out, "%s: %.0f of %.0f CTAs, %.0f cycles each\n",
		   name_of(printer, 0, printer->kernel->rows[0].kernel), ctas,
		   number[WARPS_NUMBER_RECORDED_CTAS], cycles / ctas);
	if (unseen > 0)
		out_printf(printer->out,
			   "The first %.0f %% of these CTAs is missing because records were "
			   "overwritten; increase buffer_size to keep more.\n",
			   percent(unseen, unseen + cycles));
}

/* The price of the automatic scopes, in the first context that has it. */
static void print_price(struct printer *printer)
{
	const struct profile *profile = printer->report->profile;
	const char *text = NULL;

	for (size_t i = 0; i < profile->node_count && !text; i++) {
		const struct profile_node *node = &profile->nodes[i];

		if (node->frame != printer->kernel->rows[0].kernel)
			continue;
		for (uint32_t v = node->first_value; v && !text; v = profile->values[v].next) {
			const struct profile_value *value = &profile->values[v];
			const struct row_metric *metric = &profile->metrics[value->metric];

			if (metric->type == PROTON_METRIC_STRING &&
			    !strcmp(profile_text(profile, metric->name), SCOPE_PRICE))
				text = profile_text(profile, value->as.string);
		}
	}
	if (!text)
		return;
	out_text(printer->out, "Price of its automatic scopes: ");
	text_clean(printer->out, text, strlen(text));
	out_text(printer->out, ".\n");
}

static void print_roles(struct printer *printer)
{
	const struct warps_kernel *kernel = printer->kernel;
	double ctas = kernel->rows[0].number[WARPS_NUMBER_SAMPLED_CTAS];
	double all = kernel->rows[0].number[WARPS_NUMBER_CTA_CYCLES];

	out_text(printer->out, "\n  busy/%  waiting/%  idle/%  path/%  warps  role\n");
	ARRAY_EACH(role, kernel->rows, kernel->count) {
		double cycles = role->number[WARPS_NUMBER_WARP_CYCLES];
		double busy = warps_of_role(kernel, role, WARPS_NUMBER_BUSY);
		double waits = warps_of_role(kernel, role, WARPS_NUMBER_WAIT);

		if (role->role == WARPS_NO_FRAME || role->scope != WARPS_NO_FRAME || role->is_async)
			continue;
		if (isnan(waits) && kernel->has_waits)
			waits = 0;
		put_number(printer, 8, 1, percent(isnan(busy) ? 0 : busy, cycles));
		put_number(printer, 11, 1, percent(waits, cycles));
		put_number(printer, 8, 1, percent(role->number[WARPS_NUMBER_IDLE], cycles));
		put_number(printer, 8, 1,
			   percent(warps_of_role(kernel, role, WARPS_NUMBER_PATH), all));
		put_number(printer, 7, 0, role->number[WARPS_NUMBER_WARPS] / ctas);
		out_text(printer->out, "  ");
		out_text(&printer->line, name_of(printer, 0, role->role));
		end_line(printer, 44);
	}
}

ARRAY_ORDER(by_path, struct warps_row,
	    ORDER_OF(b->number[WARPS_NUMBER_PATH], a->number[WARPS_NUMBER_PATH])
	    ?: ORDER_OF(a->role, b->role) ?: ORDER_OF(a->scope, b->scope))

/* The rows of the critical path, largest first; malloc'd. */
static struct warps_row *path_rows(const struct warps_kernel *kernel, size_t *count_out)
{
	struct warps_row *rows = xcalloc(kernel->count, sizeof(*rows));
	size_t count = 0;

	for (size_t i = 0; i < kernel->count; i++)
		if (kernel->rows[i].number[WARPS_NUMBER_PATH] > 0)
			rows[count++] = kernel->rows[i];
	ARRAY_SORT(rows, count, by_path);
	*count_out = count;
	return rows;
}

static bool is_wait(const struct warps_row *row)
{
	return !isnan(row->number[WARPS_NUMBER_WAIT]);
}

/* True if the role is named after this scope, for example after its partition. */
static bool is_namesake(const struct printer *printer, const struct warps_row *row)
{
	const struct profile *profile = printer->report->profile;
	const char *scope = profile_text(profile, profile->frames[row->scope].name);
	const char *role = profile_text(profile, profile->frames[row->role].name);
	size_t length = strlen(scope);

	return strncmp(role, scope, length) == 0 && strncmp(role + length, " (warp", 6) == 0;
}

/* "wait_barrier@mm.py:33, waiting in partition0@mm.py:20 (warps 0-3)" */
static void put_path_name(struct printer *printer, const struct warps_row *row)
{
	struct out *out = &printer->line;
	bool has_scope = row->scope != WARPS_NO_FRAME;
	const char *role = name_of(printer, 0, row->role);
	const char *scope = has_scope ? name_of(printer, 1, row->scope) : NULL;

	if (!has_scope)
		out_printf(out, "(no warp active), %s", role);
	else if (row->is_async)
		out_printf(out, "%s, asynchronous", scope);
	else if (is_namesake(printer, row))
		out_printf(out, "%s, %s", role,
			   is_wait(row) ? "waiting" : "outside of other scopes");
	else
		out_printf(out, "%s%s in %s", scope, is_wait(row) ? ", waiting" : "", role);
}

static void print_path(struct printer *printer)
{
	double all = printer->kernel->rows[0].number[WARPS_NUMBER_CTA_CYCLES];
	double ctas = printer->kernel->rows[0].number[WARPS_NUMBER_SAMPLED_CTAS];
	size_t max = printer->options->query.rows ? printer->options->query.rows : PATH_ROWS;
	double shown = 0;
	size_t count;
	AUTO_FREE struct warps_row *rows = path_rows(printer->kernel, &count);

	if (count) /* a kernel with sums has no path */
		out_text(printer->out, "\n  path/%    cycles  critical path\n");
	for (size_t i = 0; i < count && i < max; i++) {
		double path = rows[i].number[WARPS_NUMBER_PATH];

		shown += path;
		put_number(printer, 8, 1, percent(path, all));
		put_number(printer, 10, 0, path / ctas);
		out_text(printer->out, "  ");
		put_path_name(printer, &rows[i]);
		end_line(printer, 20);
	}
	if (count > max) {
		put_number(printer, 8, 1, percent(all - shown, all));
		put_number(printer, 10, 0, (all - shown) / ctas);
		out_printf(printer->out, "  (%zu more)\n", count - max);
	}
}

static bool print_asyncs(struct printer *printer)
{
	const struct warps_kernel *kernel = printer->kernel;
	double all = kernel->rows[0].number[WARPS_NUMBER_CTA_CYCLES];
	double ctas = kernel->rows[0].number[WARPS_NUMBER_SAMPLED_CTAS];
	bool has_any = false;

	ARRAY_EACH(row, kernel->rows, kernel->count) {
		double cycles = row->number[WARPS_NUMBER_ASYNC];

		if (!row->is_async)
			continue;
		if (!has_any)
			out_text(printer->out,
				 "\n  overlapped/%  path/%    cycles  asynchronous work\n");
		has_any = true;
		put_number(printer, 14, 1, percent(row->number[WARPS_NUMBER_OVERLAPPED], cycles));
		put_number(printer, 8, 1, percent(row->number[WARPS_NUMBER_PATH], all));
		put_number(printer, 10, 0, cycles / ctas);
		out_text(printer->out, "  ");
		out_text(&printer->line, name_of(printer, 0, row->scope));
		end_line(printer, 34);
	}
	return has_any;
}

/* ------------------------------------------------------------------ what it comes to */

/*
 * The role with the longest total waiting time, and the waiting share of its warp cycles; NULL if
 * none waits.
 */
static const struct warps_row *find_waiting(const struct warps_kernel *kernel, double *percent_out)
{
	const struct warps_row *found = NULL;
	double max = 0;

	*percent_out = 0;
	ARRAY_EACH(role, kernel->rows, kernel->count) {
		if (role->role == WARPS_NO_FRAME || role->scope != WARPS_NO_FRAME || role->is_async)
			continue;
		double waits = warps_of_role(kernel, role, WARPS_NUMBER_WAIT);
		if (waits > max) {
			max = waits;
			found = role;
			*percent_out = percent(waits, role->number[WARPS_NUMBER_WARP_CYCLES]);
		}
	}
	return found;
}

/* The longest wait of a role that waits. */
static const struct warps_row *find_wait(const struct warps_kernel *kernel,
					 const struct warps_row *role)
{
	const struct warps_row *end = kernel->rows + kernel->count;
	const struct warps_row *found = NULL;

	for (const struct warps_row *row = role; row < end && row->role == role->role; row++)
		if (is_wait(row) &&
		    (!found || row->number[WARPS_NUMBER_WAIT] > found->number[WARPS_NUMBER_WAIT]))
			found = row;
	return found;
}

static void put_waiting(struct printer *printer)
{
	double waits;
	const struct warps_row *role = find_waiting(printer->kernel, &waits);
	const struct warps_row *wait = role ? find_wait(printer->kernel, role) : NULL;

	if (!printer->kernel->has_waits)
		out_text(printer->out, "No waits were recorded (use mode default:auto=waits); ");
	else if (!wait || !(waits >= LITTLE_PERCENT))
		out_text(printer->out, "The warps wait for less than 1 % of their time; ");
	else
		out_printf(printer->out, "%s waits %.0f %% of its time, mostly in %s; ",
			   name_of(printer, 0, role->role), waits,
			   name_of(printer, 1, wait->scope));
}

enum bound {
	BOUND_MEMORY,
	BOUND_DOTS,
	BOUNDS
};

/* The resource that a scope's operation uses, by the words before its '@'; BOUNDS: unknown. */
static enum bound bound_of(const char *name)
{
	static const struct {
		const char *part;
		enum bound bound;
	} words[] = {
		{"local_", BOUNDS},           {"tmem_", BOUNDS}, /* memory of the multiprocessor */
		{"load", BOUND_MEMORY},       {"gather", BOUND_MEMORY}, {"copy", BOUND_MEMORY},
		{"async_wait", BOUND_MEMORY}, {"tdm", BOUND_MEMORY},    {"store", BOUND_MEMORY},
		{"atomic", BOUND_MEMORY},     {"dot", BOUND_DOTS},      {"mma", BOUND_DOTS},
	};
	size_t length = strcspn(name, "@");

	for (size_t i = 0; i < ARRAY_LENGTH(words); i++)
		if (memmem(name, length, words[i].part, strlen(words[i].part)))
			return words[i].bound;
	return BOUNDS;
}

/* ": bound by memory (64 % of it)", if at least half of the path uses one resource. */
static void put_bound(struct printer *printer, const struct warps_row *rows, size_t count)
{
	static const char *const words[BOUNDS] = {"memory", "multiplication"};
	const struct profile *profile = printer->report->profile;
	double all = printer->kernel->rows[0].number[WARPS_NUMBER_CTA_CYCLES];
	double sums[BOUNDS] = {0};

	for (size_t i = 0; i < count; i++) {
		enum bound bound = BOUNDS;

		if (rows[i].scope != WARPS_NO_FRAME)
			bound = bound_of(
				profile_text(profile, profile->frames[rows[i].scope].name));
		if (bound < BOUNDS)
			sums[bound] += rows[i].number[WARPS_NUMBER_PATH];
	}
	for (int i = 0; i < BOUNDS; i++) {
		if (sums[i] * 2 < all)
			continue;
		out_printf(printer->out, ": bound by %s (%.0f %% of the path)", words[i],
			   percent(sums[i], all));
		return;
	}
}

static void put_path(struct printer *printer)
{
	double all = printer->kernel->rows[0].number[WARPS_NUMBER_CTA_CYCLES];
	size_t count;
	AUTO_FREE struct warps_row *rows = path_rows(printer->kernel, &count);

	if (count) {
		out_printf(printer->out, "%.0f %% of the critical path is in ",
			   percent(rows[0].number[WARPS_NUMBER_PATH], all));
		put_path_name(printer, &rows[0]);
		out_bytes(printer->out, printer->line.bytes, printer->line.length);
		printer->line.length = 0;
	} else {
		out_text(printer->out, "sums have no critical path (use mode "
				       "default:tree=records)");
	}
	put_bound(printer, rows, count);
	out_text(printer->out, ".\n");
}

static void print_warps_kernels(const struct warps_report *warps, struct report *report)
{
	struct out *out = report->out;
	struct printer printer = {
		.report = warps,
		.options = report->options,
		.term = report->is_page ? (struct term){.has_utf8 = true}
					: term_probe(report->options->style.color),
		.out = out,
	};

	out_init(&printer.stored, -1);
	out_init(&printer.names[0], -1);
	out_init(&printer.names[1], -1);
	out_init(&printer.line, -1);
	for (size_t i = 0; i < warps->kernel_count && !out->errnum; i++) {
		printer.kernel = &warps->kernels[i];
		if (i)
			out_byte(out, '\n');
		print_head(&printer);
		print_price(&printer);
		print_roles(&printer);
		print_path(&printer);
		if (!print_asyncs(&printer))
			out_text(out, "\nNo asynchronous work was recorded (use pl.start_event and "
				      "pl.end_event).");
		out_byte(out, '\n');
		put_waiting(&printer);
		put_path(&printer);
	}
	out_fini(&printer.stored);
	out_fini(&printer.names[0]);
	out_fini(&printer.names[1]);
	out_fini(&printer.line);
}

/* ------------------------------------------------------------------ data for programs */

/*
 * CSV has one line per kernel, role, scope of a role, and asynchronous work; JSON
 * one object per kernel with the same rows as lists.
 */

enum name {
	KERNEL,
	ROLE,
	SCOPE,
	NAMES
};

struct data {
	const struct warps_report *warps;
	struct report *report;
	struct report_field fields[NAMES + WARPS_NUMBERS];
	struct report_value values[NAMES + WARPS_NUMBERS];
	struct out names[NAMES];
};

/* Stored names, unless --names is given. */
static void read_name(struct data *data, enum name which, uint32_t frame)
{
	const struct style_options *style = &data->report->options->style;
	struct out *name = &data->names[which];

	name->length = 0;
	if (frame != WARPS_NO_FRAME)
		name_write_styled(name, data->warps->profile, frame, style->format,
				  style_stored_names(style));
	data->values[which] = report_string(name->bytes, name->length);
}

/* Sums of cycles are integers, but a file may contain anything. */
static void read_numbers(struct data *data, const struct warps_row *row)
{
	for (size_t n = 0; n < WARPS_NUMBERS; n++) {
		double value = row->number[n];
		bool is_whole = value >= -0x1p53 && value <= 0x1p53 && value == floor(value);

		data->values[NAMES + n] = isnan(value) ? VALUE_NONE
					  : is_whole   ? VALUE_INTEGER((int64_t)value)
						       : VALUE_NUMBER(value);
	}
}

static void csv_kernel(struct data *data, const struct warps_kernel *kernel)
{
	for (size_t i = 0; i < kernel->count; i++) {
		read_name(data, KERNEL, kernel->rows[i].kernel);
		read_name(data, ROLE, kernel->rows[i].role);
		read_name(data, SCOPE, kernel->rows[i].scope);
		read_numbers(data, &kernel->rows[i]);
		report_row(data->report, data->values);
	}
}

/* ------------------------------------------------------------------ JSON */

/* The members of a row, which is named by one of its frames. */
static void json_row(struct data *data, enum name which, const struct warps_row *row)
{
	const uint32_t frames[NAMES] = {row->kernel, row->role, row->scope};

	for (int i = 0; i < NAMES; i++)
		data->values[i] = VALUE_NONE;
	read_name(data, which, frames[which]);
	read_numbers(data, row);
	report_members(data->report, data->values);
}

static void json_scope(struct data *data, const struct warps_row *row)
{
	json_begin_object(&data->report->json);
	json_row(data, SCOPE, row);
	json_end_object(&data->report->json);
}

/* Writes a role until the end of its object; returns the row after it. */
static size_t json_role(struct data *data, const struct warps_kernel *kernel, size_t at)
{
	struct json_writer *json = &data->report->json;
	const struct warps_row *role = &kernel->rows[at];

	json_line_break(json);
	json_begin_object(json);
	json_row(data, ROLE, role);
	json_key_array(json, "scopes");
	for (at++; at < kernel->count && kernel->rows[at].role == role->role; at++)
		json_scope(data, &kernel->rows[at]);
	json_end_array(json);
	json_end_object(json);
	return at;
}

static void json_kernel(struct data *data, const struct warps_kernel *kernel)
{
	struct json_writer *json = &data->report->json;
	size_t at = 1;

	json_line_break(json);
	json_begin_object(json);
	json_row(data, KERNEL, &kernel->rows[0]);
	json_key_array(json, "roles");
	while (at < kernel->count) {
		if (kernel->rows[at].is_async)
			at++;
		else
			at = json_role(data, kernel, at);
	}
	json_end_array(json);
	json_key_array(json, "asynchronous");
	for (size_t i = 1; i < kernel->count; i++)
		if (kernel->rows[i].is_async)
			json_scope(data, &kernel->rows[i]);
	json_end_array(json);
	json_end_object(json);
}

static void write_data(const struct warps_report *warps, struct report *report)
{
	struct data data = {
		.warps = warps,
		.report = report,
		.fields = {{.name = "kernel", .is_quoted = true},
			   {.name = "role", .is_quoted = true},
			   {.name = "scope", .is_quoted = true}},
	};

	for (size_t n = 0; n < WARPS_NUMBERS; n++)
		data.fields[NAMES + n].name = warps_metrics[n];
	for (int i = 0; i < NAMES; i++)
		out_init(&data.names[i], -1);
	report->is_partial = profile_is_partial(warps->profile);
	if (report->format == REPORT_JSON)
		json_key_bool(&report->json, "partial", report->is_partial);
	report_begin(report, "kernels", data.fields, NAMES + WARPS_NUMBERS);
	for (size_t k = 0; k < warps->kernel_count; k++)
		(report->format == REPORT_JSON ? json_kernel : csv_kernel)(&data,
									   &warps->kernels[k]);
	report_end(report);
	for (int i = 0; i < NAMES; i++)
		out_fini(&data.names[i]);
}

void warps_write(const void *context, struct report *report)
{
	if (report->format == REPORT_TEXT)
		print_warps_kernels(context, report);
	else
		write_data(context, report);
}
