/*
 * Source page of the HTML report. Numbers are those of --source. A kernel's lines are arrays:
 * [file, line, inlined, samples, reasons, instructions]; reasons are pairs of an index and a count,
 * and an instruction is [variant, offset, text, samples, reasons]. Its causes are
 * [file, line, file and line where it waits, reason, samples, shared].
 */
#include "base/array.h"
#include "viewer/export/report_pages.h"

#include "format/json_write.h"
#include "viewer/numbers/source_causes.h"
#include "viewer/numbers/source_code.h"
#include "viewer/print/xalloc.h"
#include "viewer/query/filter.h"
#include "viewer/query/frame_names.h"
#include "viewer/query/select.h"

#define CAUSES_OF_KERNELS 10u /* those with most samples: it takes a disassembler for each */

struct page {
	const struct source_report *report;
	const struct options *options;
	struct json_writer json;
	uint32_t *files; /* strings: the paths of lines, in order of appearance */
	size_t file_count;
	uint32_t *number_of_file; /* index of files + 1, by string */
	size_t string_capacity;
	struct out text;
};

/* ------------------------------------------------------------------ kernels */

static uint32_t number_of(struct page *page, uint32_t file)
{
	size_t before = page->string_capacity;

	xreserve(&page->number_of_file, &page->string_capacity, file + 1, sizeof(uint32_t));
	memset(page->number_of_file + before, 0,
	       (page->string_capacity - before) * sizeof(uint32_t));
	if (!page->number_of_file[file]) {
		XADD(page->files, page->file_count, file);
		page->number_of_file[file] = (uint32_t)page->file_count;
	}
	return page->number_of_file[file] - 1;
}

/* The number of samples, and [reason, count, reason, count, ...]. */
static void write_samples(struct page *page, const struct source_samples *samples)
{
	struct json_writer *json = &page->json;

	json_uint64(json, samples->all);
	json_begin_array(json);
	for (size_t r = 0; r < page->report->reason_count; r++) {
		if (!samples->by_reason[r])
			continue;
		json_uint64(json, r);
		json_uint64(json, samples->by_reason[r]);
	}
	json_end_array(json);
}

static void write_code(struct page *page, const struct source_code *code,
		       const struct source_line *line)
{
	struct json_writer *json = &page->json;
	size_t count;
	const struct source_instruction *item = source_code_of(code, line, &count);

	json_begin_array(json);
	for (size_t i = 0; i < count; i++, item++) {
		json_begin_array(json);
		json_uint64(json, code->variant_count > 1 ? item->variant : 0);
		json_uint64(json, item->offset);
		json_text(json, item->text ? item->text : "");
		write_samples(page, &item->samples);
		json_end_array(json);
	}
	json_end_array(json);
}

static void write_place(struct page *page, uint32_t file, uint32_t line)
{
	json_int64(&page->json, file ? (int64_t)number_of(page, file) : -1);
	json_uint64(&page->json, line);
}

static void write_causes(struct page *page, const struct source_causes *causes)
{
	struct json_writer *json = &page->json;

	json_key_uint64(json, "caused", causes->samples);
	json_key_array(json, "causes");
	for (size_t i = 0; i < causes->count; i++) {
		const struct source_cause *item = &causes->items[i];

		json_begin_array(json);
		write_place(page, item->file, item->line);
		write_place(page, item->at_file, item->at_line);
		json_uint64(json, item->reason);
		json_uint64(json, item->samples);
		json_uint64(json, item->shared);
		json_end_array(json);
	}
	json_end_array(json);
}

static void write_lines(struct page *page, const struct source_kernel *kernel,
			const struct source_code *code)
{
	struct json_writer *json = &page->json;

	json_key_array(json, "lines");
	ARRAY_EACH(line, kernel->lines, kernel->line_count) {
		json_line_break(json);
		json_begin_array(json);
		write_place(page, line->file, line->line);
		json_uint64(json, line->is_inlined);
		write_samples(page, &line->samples);
		if (page->options->query.sass)
			write_code(page, code, line);
		json_end_array(json);
	}
	json_end_array(json);
}

/* [reason, index of the line where it is most frequent, or -1], the most frequent reason first. */
static void write_waits(struct page *page, const struct source_kernel *kernel)
{
	struct json_writer *json = &page->json;
	uint32_t waits[SOURCE_REASONS_MAX];
	size_t count = source_waits(page->report, &kernel->samples, waits);

	json_key_array(json, "waits");
	for (size_t i = 0; i < count; i++) {
		const struct source_line *line = source_hottest(kernel, waits[i]);

		json_begin_array(json);
		json_uint64(json, waits[i]);
		json_int64(json, line ? line - kernel->lines : -1);
		json_end_array(json);
	}
	json_end_array(json);
}

static void write_kernel(struct page *page, struct source_kernel *kernel)
{
	struct json_writer *json = &page->json;
	struct out *text = &page->text;
	struct source_causes causes = {0};
	AT_END(source_code_fini) struct source_code code;

	source_code_init(&code, page->report, page->options->query.sass ? kernel : NULL);
	if (kernel < page->report->kernels + CAUSES_OF_KERNELS)
		source_causes_init(&causes, page->report, kernel, &code);
	source_causes_add_lines(&causes, kernel);

	text->length = 0;
	name_write_shown(text, page->report->profile, kernel->frame, page->options->style.format,
			 page->options->style.names);
	json_line_break(json);
	json_begin_object(json);
	json_key_string(json, "name", text->bytes, text->length);
	json_key_uint64(json, "apportioned", kernel->apportioned);
	json_key_array(json, "samples");
	write_samples(page, &kernel->samples);
	json_end_array(json);
	write_waits(page, kernel);
	write_lines(page, kernel, &code);
	write_causes(page, &causes);
	json_end_object(json);
	free(causes.items);
}

/* ------------------------------------------------------------------ files */

/* [path, text, whether the file was too large to be kept] */
static void write_files(struct page *page)
{
	struct json_writer *json = &page->json;

	json_key_array(json, "files");
	for (size_t i = 0; i < page->file_count; i++) {
		const struct profile_source *source =
			source_of_file(page->report->profile, page->files[i]);

		json_line_break(json);
		json_begin_array(json);
		json_text(json, profile_text(page->report->profile, page->files[i]));
		if (source && source->length)
			json_string(json, source->text, source->length);
		else
			json_string(json, "", 0);
		json_bool(json, source && source->is_left_out);
		json_end_array(json);
	}
	json_end_array(json);
}

static void write_reasons(struct page *page)
{
	struct json_writer *json = &page->json;

	json_key_array(json, "reasons");
	for (size_t r = 0; r < page->report->reason_count; r++) {
		const struct source_reason *reason = &page->report->reasons[r];

		json_begin_array(json);
		json_text(json, reason->name);
		json_text(json, reason->known ? reason->known->words : "");
		json_bool(json, reason->known && reason->known->is_ready);
		json_end_array(json);
	}
	json_end_array(json);
}

int report_source_write(struct profile *profile, const struct options *options, struct out *out,
			struct proton_error *err)
{
	uint8_t *state = filter_prune(profile);
	AT_END(source_report_fini) struct source_report report = {0};
	struct page page = {.report = &report, .options = options, .text = OUT_IN_MEMORY};
	int status = select_paths(options, profile, state, err);

	if (status == PROTON_OK)
		status = source_report_init(&report, profile, state, NULL, err);
	if (status == PROTON_OK && report.kernel_count) {
		json_writer_init(&page.json, out, false);
		json_begin_object(&page.json);
		json_key_uint64(&page.json, "samples", report.samples);
		json_key_bool(&page.json, "code", options->query.sass);
		write_reasons(&page);
		json_key_array(&page.json, "kernels");
		for (size_t k = 0; k < report.kernel_count; k++)
			write_kernel(&page, &report.kernels[k]);
		json_end_array(&page.json);
		write_files(&page);
		json_end_object(&page.json);
		out_fini(&page.text);
	}
	FREE_ALL(page.files, page.number_of_file, state);
	return status;
}
