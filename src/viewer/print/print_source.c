/*
 * --source: per kernel the causes of its waiting, then its lines with samples, share and frequent
 * stall reasons. A line counts the samples of the code that is inlined there.
 */
#include "viewer/print/printers.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/message.h"
#include "model/samples.h"
#include "viewer/numbers/source_causes.h"
#include "viewer/numbers/source_code.h"
#include "viewer/print/printable_text.h"
#include "viewer/query/input.h"

#define KERNELS_DEFAULT 10 /* unless --rows is given */
#define WAITS_OF_KERNEL 3u /* maximum number that is printed */
#define WAITS_OF_LINE 3u   /* maximum number that is printed */
#define CAUSES_OF_WAIT 3u  /* maximum number that is printed */
#define CAUSES_IN_JSON 16u
#define LITTLE_PERCENT 5.0     /* less frequent reasons are not printed */
#define REASON_COLUMNS_MAX 64u /* for the reasons of a line */
#define ROW_COLUMNS 30u        /* the other columns before the source text */
#define CAUSED_COLUMNS 10u
#define SOURCE_COLUMNS_MIN 20u /* on a terminal of any width */
#define TAB_COLUMNS 4u
#define CSV_FIELDS 6u    /* before the reasons */
#define CONTEXT_LINES 3u /* lines without samples that are printed around those with some */

struct printer {
	const struct source_report *report;
	const struct options *options;
	const struct source_kernel *kernel;
	struct source_texts texts;
	struct source_code code; /* empty without --sass */
	struct source_causes causes;
	struct report_field fields[CSV_FIELDS + SOURCE_REASONS_MAX]; /* the fields of CSV */
	struct term term;
	size_t reason_columns;
	struct out *out;
	struct out text;
};

/* Printable text, until the next one. */
static const char *clean(struct printer *printer, const char *text)
{
	printer->text.length = 0;
	text_clean(&printer->text, text, strlen(text));
	out_byte(&printer->text, '\0');
	return printer->text.errnum ? "" : printer->text.bytes;
}

static double percent_of(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

static void put_kernel_name(struct printer *printer, const struct source_kernel *kernel)
{
	struct out *text = &printer->text;

	text->length = 0;
	name_write_shown(text, printer->report->profile, kernel->frame,
			 printer->options->style.format, printer->options->style.names);
	text_clean(printer->out, text->bytes, text->length);
}

static const char *file_name(const struct source_report *report, const struct source_line *line)
{
	return profile_text(report->profile, line->file);
}

/* ", caused by a.py:43 (80 %), a.py:44 (20 %), shared out", unless it is the line itself. */
static void put_causes(struct printer *printer, uint32_t reason, const struct source_line *hottest)
{
	struct source_cause causes[CAUSES_OF_WAIT];
	uint64_t all;
	size_t count =
		source_causes_of_reason(&printer->causes, reason, causes, CAUSES_OF_WAIT, &all);
	uint64_t shared = 0;

	if (!count || (hottest && causes[0].samples == all && causes[0].file == hottest->file &&
		       causes[0].line == hottest->line))
		return;
	for (size_t i = 0; i < count; i++) {
		const char *file = basename(profile_text(printer->report->profile, causes[i].file));
		double percent = percent_of(causes[i].samples, all);

		if (i && percent < LITTLE_PERCENT)
			break;
		out_text(printer->out, i ? ", " : ", caused by ");
		if (causes[i].file)
			out_printf(printer->out, "%s:%u", clean(printer, file), causes[i].line);
		else
			out_text(printer->out, "code without a line");
		out_printf(printer->out, " (%.0f %%)", percent);
		shared += causes[i].shared;
	}
	if (shared)
		out_text(printer->out, ", shared out");
}

/* "long_scoreboard 61 %: global loads at matmul.py:41" */
static void put_wait(struct printer *printer, const struct source_kernel *kernel, uint32_t reason)
{
	const struct source_reason *row = &printer->report->reasons[reason];
	const struct source_line *line = source_hottest(kernel, reason);

	out_printf(printer->out, "%s %.0f %%%s%s%s", clean(printer, row->name),
		   percent_of(kernel->samples.by_reason[reason], kernel->samples.all),
		   row->known || line ? ":" : "", row->known ? " " : "",
		   row->known ? row->known->words : "");
	if (line)
		out_printf(printer->out, " at %s:%u",
			   clean(printer, basename(file_name(printer->report, line))), line->line);
	put_causes(printer, reason, line);
}

static void print_waits(struct printer *printer, const struct source_kernel *kernel)
{
	uint32_t waits[SOURCE_REASONS_MAX];
	size_t count = source_waits(printer->report, &kernel->samples, waits);

	if (!count)
		out_text(printer->out, "no stall reasons were recorded\n");
	for (size_t i = 0; i < count && i < WAITS_OF_KERNEL; i++) {
		if (i && percent_of(kernel->samples.by_reason[waits[i]], kernel->samples.all) <
				 LITTLE_PERCENT)
			break;
		put_wait(printer, kernel, waits[i]);
		out_byte(printer->out, '\n');
	}
}

/* "long_scoreboard 88 %, wait 7 %" */
static void write_reasons(const struct source_report *report, const struct source_samples *samples,
			  struct out *out)
{
	uint32_t waits[SOURCE_REASONS_MAX];
	size_t count = source_waits(report, samples, waits);

	out->length = 0;
	for (size_t i = 0; i < count && i < WAITS_OF_LINE; i++) {
		double percent = percent_of(samples->by_reason[waits[i]], samples->all);
		const char *name = report->reasons[waits[i]].name;

		if (percent < LITTLE_PERCENT)
			break;
		out_text(out, i ? ", " : "");
		text_clean(out, name, strlen(name));
		out_printf(out, " %.0f %%", percent);
	}
	if (!out->length)
		out_byte(out, '-');
}

static size_t columns_of_reasons(struct printer *printer, const struct source_kernel *kernel)
{
	size_t columns = strlen("stall reasons");

	for (size_t i = 0; i < kernel->line_count + printer->code.count; i++) {
		write_reasons(printer->report,
			      i < kernel->line_count
				      ? &kernel->lines[i].samples
				      : &printer->code.items[i - kernel->line_count].samples,
			      &printer->text);
		if (printer->text.length > columns)
			columns = printer->text.length;
	}
	return columns < REASON_COLUMNS_MAX ? columns : REASON_COLUMNS_MAX;
}

/*
 * Samples, share and reasons; only the columns for a line without samples (NULL). `caused`: the
 * share that it causes.
 */
static void put_samples(struct printer *printer, const struct source_samples *samples,
			double caused)
{
	size_t used = 0;

	if (samples)
		out_printf(printer->out, "%10" PRIu64 "  %6.2f  ", samples->all,
			   percent_of(samples->all, printer->kernel->samples.all));
	else
		out_printf(printer->out, "%10s  %6s  ", "", "");
	if (printer->causes.samples && caused > 0)
		out_printf(printer->out, "%8.2f  ", caused);
	else if (printer->causes.samples)
		out_printf(printer->out, "%8s  ", "");
	if (samples) {
		write_reasons(printer->report, samples, &printer->text);
		out_bytes(printer->out, printer->text.bytes, printer->text.length);
		used = printer->text.length;
	}
	if (used < printer->reason_columns)
		text_pad(printer->out, printer->reason_columns - used);
}

/* A line of source text: tabs as spaces, cut at the end of a terminal. */
static void put_source(struct printer *printer, const char *text, size_t length)
{
	size_t used = ROW_COLUMNS + printer->reason_columns +
		      (printer->causes.samples ? CAUSED_COLUMNS : 0);
	size_t columns = printer->term.columns ? printer->term.columns - used : SIZE_MAX;
	AT_END(out_fini) struct out spaced;
	struct out *clean = &printer->text;

	if (printer->term.columns && printer->term.columns < used + SOURCE_COLUMNS_MIN)
		columns = SOURCE_COLUMNS_MIN;
	out_init(&spaced, -1);
	for (size_t i = 0; i < length; i++) {
		if (text[i] == '\t')
			text_pad(&spaced, TAB_COLUMNS - spaced.length % TAB_COLUMNS);
		else
			out_byte(&spaced, text[i]);
	}
	clean->length = 0;
	if (spaced.length)
		text_clean(clean, spaced.bytes, spaced.length);
	while (clean->length && clean->bytes[clean->length - 1] == ' ')
		clean->length--;
	if (clean->length) {
		out_text(printer->out, "  ");
		text_shorten(printer->out, clean->bytes, clean->length, columns,
			     printer->term.has_utf8 ? "…" : "...", false);
	}
}

/* Percentage of the kernel's samples that are caused there. */
static double caused_by(const struct printer *printer, uint32_t file, uint32_t line)
{
	return percent_of(source_causes_of_line(&printer->causes, file, line),
			  printer->causes.samples);
}

/* `line` NULL: a line of the file without samples. */
static void print_line(struct printer *printer, uint32_t file, const struct source_text *text,
		       uint32_t number, const struct source_line *line)
{
	const char *source = NULL;
	size_t length;

	put_samples(printer, line && line->samples.all ? &line->samples : NULL,
		    caused_by(printer, file, number));
	if (!number)
		out_text(printer->out, "  not known");
	else
		out_printf(printer->out, "  %6u", number);
	if (text)
		source = source_text_line(text, number, &length);
	if (source)
		put_source(printer, source, length);
	if (line && line->is_inlined)
		out_text(printer->out, "  (inlined)");
	out_byte(printer->out, '\n');
}

static void print_code(struct printer *printer, const struct source_line *line)
{
	size_t count;
	const struct source_instruction *item = source_code_of(&printer->code, line, &count);

	for (size_t i = 0; i < count; i++, item++) {
		put_samples(printer, &item->samples, 0);
		if (printer->code.variant_count > 1)
			out_printf(printer->out, "  %6s  %u:0x%04x", "", item->variant,
				   item->offset);
		else
			out_printf(printer->out, "  %6s    0x%04x", "", item->offset);
		if (item->text)
			out_printf(printer->out, "  %s", clean(printer, item->text));
		out_byte(printer->out, '\n');
	}
}

/* Lines of text from `from` to `to`; if they are many, only some at both ends. */
static void print_between(struct printer *printer, uint32_t file, const struct source_text *text,
			  uint32_t from, uint32_t to)
{
	if (!text || from > to)
		return;
	if (to - from < 2 * CONTEXT_LINES + 1) {
		for (; from <= to && from <= text->line_count; from++)
			print_line(printer, file, text, from, NULL);
		return;
	}
	print_between(printer, file, text, from, from + CONTEXT_LINES - 1);
	put_samples(printer, NULL, 0);
	out_text(printer->out, "     ...\n");
	print_between(printer, file, text, to - CONTEXT_LINES + 1, to);
}

/* The lines of one file; returns the index of the first line of the next one. */
static size_t print_file(struct printer *printer, size_t first)
{
	const struct source_kernel *kernel = printer->kernel;
	const struct source_line *lines = kernel->lines;
	uint32_t file = lines[first].file;
	const struct source_text *text = source_texts_find(&printer->texts, file);
	const struct profile_source *source = source_of_file(printer->report->profile, file);
	const char *name = file_name(printer->report, &lines[first]);
	uint32_t before = lines[first].line > CONTEXT_LINES ? lines[first].line - CONTEXT_LINES : 1;
	size_t i;

	if (file) {
		if (printer->options->style.format != NAME_FULL)
			name = basename(name);
		out_printf(printer->out, "\n%s%s\n", clean(printer, name),
			   source && source->is_left_out
				   ? ": the file was too large for its text to be kept"
				   : "");
	}
	for (i = first; i < kernel->line_count && lines[i].file == file; i++) {
		if (printer->out->errnum)
			break;
		if (file && lines[i].line)
			print_between(printer, file, text, before, lines[i].line - 1);
		print_line(printer, file, text, lines[i].line, &lines[i]);
		print_code(printer, &lines[i]);
		before = lines[i].line + 1;
	}
	if (file)
		print_between(printer, file, text, before, before + CONTEXT_LINES - 1);
	return i;
}

/* The sampled function with most samples of the kernel's name; NULL: none. */
static const struct profile_function *function_of(const struct profile *profile,
						  const struct source_kernel *kernel)
{
	const struct profile_samples *samples = profile->samples;
	uint32_t name = profile->frames[kernel->frame].name;

	for (size_t i = 0; samples && i < samples->function_count; i++)
		if (samples->functions[i].name == name)
			return &samples->functions[i];
	return NULL;
}

/* Why no line of a kernel is known, and what to do. */
static void print_missing(struct printer *printer, const struct source_kernel *kernel)
{
	const struct profile *profile = printer->report->profile;
	const struct profile_function *function = function_of(profile, kernel);
	const struct profile_code_object *code =
		function && function->code_object
			? &profile->samples->code_objects[function->code_object - 1]
			: NULL;
	const char *why;

	if (kernel->line_count != 1 || kernel->lines[0].file)
		return;
	if (code && code->length)
		why = "its machine code has no line information; compile it with -lineinfo";
	else if (code && code->is_left_out)
		why = "its machine code was too large to be kept";
	else if (function)
		why = "its machine code was not recorded; start profiling before it is loaded";
	else
		why = "its machine code has no line information (-lineinfo), or was not recorded";
	out_printf(printer->out, "no source lines: %s\n", why);
}

static void print_kernel(struct printer *printer, const struct source_kernel *kernel)
{
	put_kernel_name(printer, kernel);
	out_printf(printer->out, ": %" PRIu64 " samples, %.2f %%", kernel->samples.all,
		   percent_of(kernel->samples.all, printer->report->samples));
	if (kernel->apportioned)
		out_printf(printer->out, "; %" PRIu64 " divided between contexts by kernel time",
			   kernel->apportioned);
	out_byte(printer->out, '\n');
	print_waits(printer, kernel);
	print_missing(printer, kernel);
	printer->reason_columns = columns_of_reasons(printer, kernel);
	out_printf(printer->out, "\n%10s  %6s  %s%-*s  %6s\n", "samples", "%",
		   printer->causes.samples ? "caused %  " : "", (int)printer->reason_columns,
		   "stall reasons", "line");
	for (size_t i = 0; i < kernel->line_count && !printer->out->errnum;)
		i = print_file(printer, i);
}

/* ------------------------------------------------------------------ for programs */

static struct report_value name_of(struct printer *printer, const struct source_kernel *kernel)
{
	struct out *text = &printer->text;

	text->length = 0;
	name_write_styled(text, printer->report->profile, kernel->frame,
			  printer->options->style.format,
			  style_stored_names(&printer->options->style));
	return report_string(text->bytes, text->length);
}

static void begin_csv(struct printer *printer, struct report *report)
{
	static const struct report_field first[CSV_FIELDS] = {
		{.name = "kernel"},  {.name = "file"},    {.name = "line"},
		{.name = "inlined"}, {.name = "samples"}, {.name = "caused"}};

	memcpy(printer->fields, first, sizeof(first));
	for (size_t r = 0; r < printer->report->reason_count; r++)
		printer->fields[CSV_FIELDS + r].name = printer->report->reasons[r].name;
	report_begin(report, NULL, printer->fields, CSV_FIELDS + printer->report->reason_count);
}

static void csv_kernel(struct printer *printer, const struct source_kernel *kernel,
		       struct report *report)
{
	struct report_value values[CSV_FIELDS + SOURCE_REASONS_MAX] = {name_of(printer, kernel)};

	for (size_t i = 0; i < kernel->line_count && !printer->out->errnum; i++) {
		const struct source_line *line = &kernel->lines[i];

		values[1] = VALUE_TEXT(file_name(printer->report, line));
		values[2] = VALUE_COUNT(line->line);
		values[3] = VALUE_COUNT(line->is_inlined);
		values[4] = VALUE_COUNT(line->samples.all);
		values[5] = printer->causes.samples
				    ? VALUE_NUMBER(caused_by(printer, line->file, line->line))
				    : VALUE_NONE;
		for (size_t r = 0; r < printer->report->reason_count; r++)
			values[CSV_FIELDS + r] = VALUE_COUNT(line->samples.by_reason[r]);
		report_row(report, values);
	}
}

static void json_samples(struct json_writer *json, const struct source_report *report,
			 const struct source_samples *samples)
{
	json_key_uint64(json, "samples", samples->all);
	json_key_object(json, "reasons");
	for (size_t r = 0; r < report->reason_count; r++)
		if (samples->by_reason[r])
			json_key_uint64(json, report->reasons[r].name, samples->by_reason[r]);
	json_end_object(json);
}

static void json_file(struct json_writer *json, const struct source_report *report,
		      const struct source_line *line)
{
	const char *file = line ? file_name(report, line) : "";

	json_key_text(json, "file", file);
	json_key_uint64(json, "line", line ? line->line : 0);
}

static void json_source(struct json_writer *json, const struct source_texts *texts,
			const struct source_line *line)
{
	const struct source_text *text = source_texts_find(texts, line->file);
	size_t length;
	const char *source = text ? source_text_line(text, line->line, &length) : NULL;

	if (source)
		json_key_string(json, "source", source, length);
}

static void json_code(struct json_writer *json, const struct printer *printer,
		      const struct source_line *line)
{
	size_t count;
	const struct source_instruction *item = source_code_of(&printer->code, line, &count);

	if (!count)
		return;
	json_key_array(json, "instructions");
	for (size_t i = 0; i < count; i++, item++) {
		json_begin_object(json);
		json_key_uint64(json, "variant", item->variant);
		json_key_uint64(json, "offset", item->offset);
		if (item->text)
			json_key_text(json, "sass", item->text);
		json_samples(json, printer->report, &item->samples);
		json_end_object(json);
	}
	json_end_array(json);
}

/* The lines that cause the samples with a reason, in percent of these. */
static void json_causes(struct json_writer *json, const struct printer *printer, uint32_t reason)
{
	struct source_cause causes[CAUSES_IN_JSON];
	uint64_t all;
	size_t count =
		source_causes_of_reason(&printer->causes, reason, causes, CAUSES_IN_JSON, &all);

	if (!count)
		return;
	json_key_array(json, "causes");
	for (size_t i = 0; i < count; i++) {
		json_begin_object(json);
		json_key_text(json, "file", profile_text(printer->report->profile, causes[i].file));
		json_key_uint64(json, "line", causes[i].line);
		json_key_double(json, "percent", percent_of(causes[i].samples, all));
		json_key_double(json, "shared", percent_of(causes[i].shared, all));
		json_end_object(json);
	}
	json_end_array(json);
}

static void json_waits(struct json_writer *json, const struct printer *printer,
		       const struct source_kernel *kernel)
{
	const struct source_report *report = printer->report;
	uint32_t waits[SOURCE_REASONS_MAX];
	size_t count = source_waits(report, &kernel->samples, waits);

	json_key_array(json, "waits");
	for (size_t i = 0; i < count; i++) {
		const struct source_reason *reason = &report->reasons[waits[i]];
		const char *words = reason->known ? reason->known->words : "";

		json_begin_object(json);
		json_key_text(json, "reason", reason->name);
		json_key_double(json, "percent",
				percent_of(kernel->samples.by_reason[waits[i]],
					   kernel->samples.all));
		json_key_text(json, "for", words);
		json_file(json, report, source_hottest(kernel, waits[i]));
		json_causes(json, printer, waits[i]);
		json_end_object(json);
	}
	json_end_array(json);
}

static void json_kernel(struct json_writer *json, struct printer *printer,
			const struct source_kernel *kernel)
{
	const struct source_report *report = printer->report;
	struct report_value name = name_of(printer, kernel);

	json_line_break(json);
	json_begin_object(json);
	json_key_string(json, "kernel", name.as.string.bytes, name.as.string.length);
	json_samples(json, report, &kernel->samples);
	json_key_uint64(json, "apportioned", kernel->apportioned);
	json_waits(json, printer, kernel);
	json_key_array(json, "lines");
	for (size_t i = 0; i < kernel->line_count; i++) {
		json_begin_object(json);
		json_file(json, report, &kernel->lines[i]);
		json_source(json, &printer->texts, &kernel->lines[i]);
		json_key_bool(json, "inlined", kernel->lines[i].is_inlined);
		if (printer->causes.samples)
			json_key_double(json, "caused",
					caused_by(printer, kernel->lines[i].file,
						  kernel->lines[i].line));
		json_samples(json, report, &kernel->lines[i].samples);
		json_code(json, printer, &kernel->lines[i]);
		json_end_object(json);
	}
	json_end_array(json);
	json_end_object(json);
}

/* ------------------------------------------------------------------ all kernels */

static void write_kernel(struct printer *printer, struct source_kernel *kernel,
			 struct report *report)
{
	printer->kernel = kernel;
	source_code_init(&printer->code, printer->report,
			 printer->options->query.sass ? kernel : NULL);
	source_causes_init(&printer->causes, printer->report, kernel, &printer->code);
	source_causes_add_lines(&printer->causes, kernel);
	if (report->format == REPORT_TEXT)
		print_kernel(printer, kernel);
	else if (report->format == REPORT_CSV)
		csv_kernel(printer, kernel, report);
	else
		json_kernel(&report->json, printer, kernel);
	source_code_fini(&printer->code);
	free(printer->causes.items);
	printer->causes = (struct source_causes){0};
}

void source_write(const void *context, struct report *report)
{
	const struct source_report *source = context;
	struct printer printer = {
		.report = source,
		.options = report->options,
		.term = term_probe(report->options->style.color),
		.out = report->out,
	};
	size_t count = source->kernel_count;
	size_t max = report_rows(report, KERNELS_DEFAULT);

	report->is_partial = profile_is_partial(source->profile);
	out_init(&printer.text, -1);
	source_texts_init(&printer.texts, source->profile);
	if (report->format == REPORT_CSV)
		begin_csv(&printer, report);
	if (report->format == REPORT_JSON) {
		json_key_bool(&report->json, "partial", report->is_partial);
		json_key_uint64(&report->json, "samples", source->samples);
		json_key_array(&report->json, "kernels");
	}
	for (size_t k = 0; k < count && k < max && !report->out->errnum; k++) {
		if (k && report->format == REPORT_TEXT)
			out_byte(report->out, '\n');
		write_kernel(&printer, &source->kernels[k], report);
	}
	if (count > max && report->format == REPORT_TEXT)
		out_printf(report->out, "\n(%zu more kernel%s)\n", count - max,
			   count - max > 1 ? "s" : "");
	if (report->format == REPORT_JSON)
		json_end_array(&report->json);
	source_texts_fini(&printer.texts);
	out_fini(&printer.text);
}

void source_report_nothing(const struct options *options)
{
	const char *name = input_display_name(options->query.paths[0]);

	if (options->query.kernel)
		message("no kernel with samples in %s matches \"%s\"", name, options->query.kernel);
	else if (options->query.include || options->query.exclude)
		message("no selected kernel in %s has samples", name);
	else
		message("%s has no PC samples; record with mode pcsampling", name);
}
