/*
 * --source: per kernel the causes of its waiting, then its lines with samples, share and frequent
 * stall reasons. A line counts the samples of the code that is inlined there.
 */
#include "viewer/print/print_source.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/message.h"
#include "format/csv_write.h"
#include "format/json_write.h"
#include "viewer/print/printable_text.h"
#include "viewer/query/input.h"

#define KERNELS_DEFAULT 10     /* unless --rows is given */
#define WAITS_OF_KERNEL 3u     /* maximum number that is printed */
#define WAITS_OF_LINE 3u       /* maximum number that is printed */
#define LITTLE_PERCENT 5.0     /* less frequent reasons are not printed */
#define REASON_COLUMNS_MAX 64u /* of the reasons of a line */

struct printer {
	const struct source_report *report;
	const struct options *options;
	struct out *out;
	struct out text;
};

/* The number of kernels to write. */
static size_t kernels_of(const struct source_report *report, const struct options *options,
			 size_t standard)
{
	size_t max = options->query.rows ? options->query.rows : standard;

	return report->kernel_count < max ? report->kernel_count : max;
}

static double percent_of(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

static void put_kernel_name(struct printer *printer, const struct source_kernel *kernel)
{
	struct out *text = &printer->text;

	text->length = 0;
	name_write_styled(text, printer->report->profile, kernel->frame,
			  printer->options->style.format, printer->options->style.names);
	if (text->length)
		text_clean(printer->out, text->bytes, text->length);
	else
		out_text(printer->out, "<unnamed>");
}

static const char *file_name(const struct source_report *report, const struct source_line *line)
{
	return profile_text(report->profile, line->file);
}

static const char *without_directory(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* "long_scoreboard 61 %: global loads at matmul.py:41" */
static void put_wait(struct printer *printer, const struct source_kernel *kernel, uint32_t reason)
{
	const struct source_reason *row = &printer->report->reasons[reason];
	const struct source_line *line = source_hottest(kernel, reason);

	text_clean(printer->out, row->name, strlen(row->name));
	out_printf(printer->out, " %.0f %%",
		   percent_of(kernel->samples.by_reason[reason], kernel->samples.all));
	if (row->known || line)
		out_text(printer->out, ":");
	if (row->known)
		out_printf(printer->out, " %s", row->known->words);
	if (line) {
		const char *file = without_directory(file_name(printer->report, line));

		out_text(printer->out, " at ");
		text_clean(printer->out, file, strlen(file));
		out_printf(printer->out, ":%u", line->line);
	}
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

	for (size_t i = 0; i < kernel->line_count; i++) {
		write_reasons(printer->report, &kernel->lines[i].samples, &printer->text);
		if (printer->text.length > columns)
			columns = printer->text.length;
	}
	return columns < REASON_COLUMNS_MAX ? columns : REASON_COLUMNS_MAX;
}

static void print_file(struct printer *printer, const struct source_line *line)
{
	const char *file = file_name(printer->report, line);

	if (!line->file)
		return;
	if (printer->options->style.format != NAME_FULL)
		file = without_directory(file);
	out_byte(printer->out, '\n');
	text_clean(printer->out, file, strlen(file));
	out_text(printer->out, "\n");
}

static void print_lines(struct printer *printer, const struct source_kernel *kernel)
{
	size_t columns = columns_of_reasons(printer, kernel);

	out_printf(printer->out, "\n%10s  %6s  %-*s  %6s\n", "samples", "%", (int)columns,
		   "stall reasons", "line");
	for (size_t i = 0; i < kernel->line_count && !printer->out->errnum; i++) {
		const struct source_line *line = &kernel->lines[i];

		if (i == 0 || line->file != line[-1].file)
			print_file(printer, line);
		write_reasons(printer->report, &line->samples, &printer->text);
		out_printf(printer->out, "%10" PRIu64 "  %6.2f  ", line->samples.all,
			   percent_of(line->samples.all, kernel->samples.all));
		out_bytes(printer->out, printer->text.bytes, printer->text.length);
		if (printer->text.length < columns)
			text_pad(printer->out, columns - printer->text.length);
		if (line->file)
			out_printf(printer->out, "  %6u", line->line);
		else
			out_text(printer->out, "  not known");
		out_text(printer->out, line->is_inlined ? "  (inlined)\n" : "\n");
	}
}

void source_print(const struct source_report *report, const struct options *options,
		  struct out *out)
{
	struct printer printer = {.report = report, .options = options, .out = out};
	size_t max = kernels_of(report, options, KERNELS_DEFAULT);

	out_init(&printer.text, -1);
	for (size_t i = 0; i < max && !out->errnum; i++) {
		const struct source_kernel *kernel = &report->kernels[i];

		if (i)
			out_byte(out, '\n');
		put_kernel_name(&printer, kernel);
		out_printf(out, ": %" PRIu64 " samples, %.2f %%\n", kernel->samples.all,
			   percent_of(kernel->samples.all, report->samples));
		print_waits(&printer, kernel);
		print_lines(&printer, kernel);
	}
	if (report->kernel_count > max)
		out_printf(out, "\n(%zu more kernels)\n", report->kernel_count - max);
	out_fini(&printer.text);
}

/* ------------------------------------------------------------------ for programs */

static void read_name(struct printer *printer, const struct source_kernel *kernel)
{
	printer->text.length = 0;
	name_write_styled(&printer->text, printer->report->profile, kernel->frame,
			  printer->options->style.format,
			  style_stored_names(&printer->options->style));
}

void source_csv(const struct source_report *report, const struct options *options, struct out *out)
{
	struct printer printer = {.report = report, .options = options, .out = out};
	bool is_partial = profile_is_partial(report->profile);

	out_init(&printer.text, -1);
	out_text(out, "kernel,file,line,inlined,samples");
	for (size_t r = 0; r < report->reason_count; r++) {
		out_byte(out, ',');
		csv_text(out, report->reasons[r].name, strlen(report->reasons[r].name));
	}
	out_text(out, is_partial ? ",partial\n" : "\n");
	for (size_t k = 0; k < kernels_of(report, options, SIZE_MAX); k++) {
		const struct source_kernel *kernel = &report->kernels[k];

		read_name(&printer, kernel);
		for (size_t i = 0; i < kernel->line_count && !out->errnum; i++) {
			const struct source_line *line = &kernel->lines[i];
			const char *file = file_name(report, line);

			csv_text(out, printer.text.bytes, printer.text.length);
			out_byte(out, ',');
			csv_text(out, file, strlen(file));
			out_printf(out, ",%u,%d,%" PRIu64, line->line, line->is_inlined,
				   line->samples.all);
			for (size_t r = 0; r < report->reason_count; r++)
				out_printf(out, ",%" PRIu64, line->samples.by_reason[r]);
			out_text(out, is_partial ? ",1\n" : "\n");
		}
	}
	out_fini(&printer.text);
}

static void json_samples(struct json_writer *json, const struct source_report *report,
			 const struct source_samples *samples)
{
	json_key(json, "samples");
	json_uint64(json, samples->all);
	json_key(json, "reasons");
	json_begin_object(json);
	for (size_t r = 0; r < report->reason_count; r++) {
		if (!samples->by_reason[r])
			continue;
		json_key(json, report->reasons[r].name);
		json_uint64(json, samples->by_reason[r]);
	}
	json_end_object(json);
}

static void json_file(struct json_writer *json, const struct source_report *report,
		      const struct source_line *line)
{
	const char *file = line ? file_name(report, line) : "";

	json_key(json, "file");
	json_string(json, file, strlen(file));
	json_key(json, "line");
	json_uint64(json, line ? line->line : 0);
}

static void json_waits(struct json_writer *json, const struct source_report *report,
		       const struct source_kernel *kernel)
{
	uint32_t waits[SOURCE_REASONS_MAX];
	size_t count = source_waits(report, &kernel->samples, waits);

	json_key(json, "waits");
	json_begin_array(json);
	for (size_t i = 0; i < count; i++) {
		const struct source_reason *reason = &report->reasons[waits[i]];
		const char *words = reason->known ? reason->known->words : "";

		json_begin_object(json);
		json_key(json, "reason");
		json_string(json, reason->name, strlen(reason->name));
		json_key(json, "percent");
		json_double(json,
			    percent_of(kernel->samples.by_reason[waits[i]], kernel->samples.all));
		json_key(json, "for");
		json_string(json, words, strlen(words));
		json_file(json, report, source_hottest(kernel, waits[i]));
		json_end_object(json);
	}
	json_end_array(json);
}

void source_json(const struct source_report *report, const struct options *options, struct out *out)
{
	struct printer printer = {.report = report, .options = options, .out = out};
	struct json_writer json;

	out_init(&printer.text, -1);
	json_writer_init(&json, out, false);
	json_begin_object(&json);
	json_key(&json, "partial");
	json_bool(&json, profile_is_partial(report->profile));
	json_key(&json, "samples");
	json_uint64(&json, report->samples);
	json_key(&json, "kernels");
	json_begin_array(&json);
	for (size_t k = 0; k < kernels_of(report, options, SIZE_MAX) && !out->errnum; k++) {
		const struct source_kernel *kernel = &report->kernels[k];

		read_name(&printer, kernel);
		json_line_break(&json);
		json_begin_object(&json);
		json_key(&json, "kernel");
		json_string(&json, printer.text.bytes ? printer.text.bytes : "",
			    printer.text.length);
		json_samples(&json, report, &kernel->samples);
		json_waits(&json, report, kernel);
		json_key(&json, "lines");
		json_begin_array(&json);
		for (size_t i = 0; i < kernel->line_count; i++) {
			json_begin_object(&json);
			json_file(&json, report, &kernel->lines[i]);
			json_key(&json, "inlined");
			json_bool(&json, kernel->lines[i].is_inlined);
			json_samples(&json, report, &kernel->lines[i].samples);
			json_end_object(&json);
		}
		json_end_array(&json);
		json_end_object(&json);
	}
	json_end_array(&json);
	json_end_object(&json);
	out_byte(out, '\n');
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
