/* --brief: claims as text or Markdown of at most 40 lines, and as CSV and JSON for programs. */
#include <inttypes.h>
#include <math.h>

#include "base/array.h"
#include "viewer/print/printable_text.h"
#include "viewer/print/printers.h"

#define CLAIMS_MAX 8u /* four lines each */

static const char *const confidences[] = {
	[BRIEF_LOW] = "low", [BRIEF_MEDIUM] = "medium", [BRIEF_HIGH] = "high"};

/* Names are not Markdown. */
static void put_text(struct report *report, const char *text)
{
	AT_END(out_fini) struct out clean;

	out_init(&clean, -1);
	text_clean(&clean, text, strlen(text));
	for (size_t i = 0; i < clean.length; i++) {
		if (report->options->query.markdown && strchr("\\`*_[]<>#|~", clean.bytes[i]))
			out_byte(report->out, '\\');
		out_byte(report->out, clean.bytes[i]);
	}
}

/* ------------------------------------------------------------------ text */

static void put_number(struct report *report, const char *before, double number)
{
	out_printf(report->out, number < 1e4 ? "%s%.4g" : "%s%.0f", before, number);
}

static void put_claim(struct report *report, const struct brief_claim *claim, size_t number)
{
	bool is_markdown = report->options->query.markdown;
	const char *item = is_markdown ? "   - " : "   ";
	const struct brief_rule *rule = claim->rule;

	out_printf(report->out, "%zu. ", number);
	put_text(report, claim->text);
	out_printf(report->out, " (confidence: %s)\n", confidences[claim->confidence]);
	put_number(report, item, claim->number);
	out_printf(report->out, " %s", rule->unit);
	if (isnan(claim->half))
		out_text(report->out, " (interval not known)");
	else if (claim->half > 0) {
		put_number(report, " (", fmax(0, claim->number - claim->half));
		put_number(report, " to ", claim->number + claim->half);
		out_byte(report->out, ')');
	}
	out_printf(report->out, ", from %s (%s: %" PRIu64 ")\n%s", rule->record, rule->counted,
		   claim->count, item);
	if (isnan(claim->gain_ns))
		out_text(report->out, "its gain is not known without kernel times\n");
	else
		out_printf(report->out, "gains at most %.3f ms, %s\n", claim->gain_ns / 1e6,
			   rule->assumption);
	out_text(report->out, is_markdown ? "   - `` " : "   $ ");
	text_clean(report->out, claim->command, strlen(claim->command));
	out_text(report->out, is_markdown ? " ``\n" : "\n");
}

static void write_text(const struct brief *brief, struct report *report)
{
	size_t rows = report_rows(report, CLAIMS_MAX);
	bool is_markdown = report->options->query.markdown;
	const char *bold = is_markdown ? "**" : "";
	const char *end = is_markdown ? "\n\n" : "\n";

	out_printf(report->out, "kernel time: %.3f ms; launches: %" PRIu64 "; kernels: %zu%s%s",
		   brief->total_ns / 1e6, brief->launches, brief->item_count, end, bold);
	put_text(report, brief->verdict_text);
	out_printf(report->out, "%s%s", bold, end);
	for (size_t i = 0; i < brief->claim_count && i < rows && i < CLAIMS_MAX; i++)
		put_claim(report, &brief->claims[i], i + 1);
	if (is_markdown && brief->claim_count && brief->unknown[0])
		out_byte(report->out, '\n');
	for (size_t i = 0; brief->unknown[i]; i++)
		out_printf(report->out, "%s%s%s", i ? ", " : "Not recorded: ", brief->unknown[i],
			   brief->unknown[i + 1] ? "" : "\n");
}

/* ------------------------------------------------------------------ for programs */

static const struct report_field fields[] = {
	{.name = "kind"},       {.name = "claim", .is_quoted = true},
	{.name = "kernel"},     {.name = "number"},
	{.name = "low"},        {.name = "high"},
	{.name = "unit"},       {.name = "record"},
	{.name = "count"},      {.name = "counted"},
	{.name = "gain_ms"},    {.name = "assumption"},
	{.name = "confidence"}, {.name = "command"},
};

static void write_claim(const struct brief_claim *claim, struct report *report)
{
	const struct report_value values[ARRAY_LENGTH(fields)] = {
		VALUE_TEXT(claim->rule->kind),
		VALUE_TEXT(claim->text),
		claim->kernel ? VALUE_TEXT(claim->kernel->stored) : VALUE_NONE,
		VALUE_NUMBER(claim->number),
		VALUE_NUMBER(isnan(claim->half) ? NAN : fmax(0, claim->number - claim->half)),
		VALUE_NUMBER(claim->number + claim->half),
		VALUE_TEXT(claim->rule->unit),
		VALUE_TEXT(claim->rule->record),
		VALUE_COUNT(claim->count),
		VALUE_TEXT(claim->rule->counted),
		VALUE_NUMBER(claim->gain_ns / 1e6),
		VALUE_TEXT(claim->rule->assumption),
		VALUE_TEXT(confidences[claim->confidence]),
		VALUE_TEXT(claim->command),
	};

	report_row(report, values);
}

static void write_members(const struct brief *brief, struct json_writer *json)
{
	json_key_uint64(json, "brief_version", BRIEF_VERSION);
	json_key_bool(json, "partial", profile_is_partial(brief->profile));
	json_key_double(json, "kernel_ms", brief->total_ns / 1e6);
	json_key_uint64(json, "launches", brief->launches);
	json_key_uint64(json, "kernels", brief->item_count);
	json_key_text(json, "verdict", brief->verdict);
	json_key_text(json, "verdict_text", brief->verdict_text);
	json_key_array(json, "not_recorded");
	for (size_t i = 0; brief->unknown[i]; i++)
		json_text(json, brief->unknown[i]);
	json_end_array(json);
}

void brief_write(const void *context, struct report *report)
{
	const struct brief *brief = context;

	if (report->format == REPORT_TEXT) {
		write_text(brief, report);
		return;
	}
	report->is_partial = profile_is_partial(brief->profile);
	if (report->format == REPORT_JSON)
		write_members(brief, &report->json);
	report_begin(report, "claims", fields, ARRAY_LENGTH(fields));
	for (size_t i = 0; i < brief->claim_count && i < report_rows(report, SIZE_MAX); i++)
		write_claim(&brief->claims[i], report);
	report_end(report);
}
