/*
 * HTML report: one self-contained file, the page of src/export/html/ with the profile as JSON. The
 * page only draws: every number is computed here, or divided there like in the viewer. It has all
 * frames (html_tree.h), and a table that needs no script.
 */
#include <inttypes.h>
#include <math.h>

#include "base/array.h"
#include "base/buf.h"
#include "export/export_view.h"
#include "export/html_timeline.h"
#include "export/html_tree.h"
#include "format/json_write.h"
#include "model/warp_metrics.h"

#define TOP_ROWS 20

struct html {
	const struct export_view *view;
	struct html_tree tree;
	struct json_writer json;
};

/* ------------------------------------------------------------------ texts */

/* The same text without '<'. */
static void out_replaced(struct out *out, const struct out *text, const char *other)
{
	for (const char *at = text->bytes, *end = at + text->length; at < end && !out->errnum;) {
		const char *found = memchr(at, '<', (size_t)(end - at));

		out_bytes(out, at, (size_t)((found ? found : end) - at));
		if (found)
			out_text(out, other);
		at = found ? found + 1 : end;
	}
}

static void write_string(struct html *html, uint32_t string)
{
	const struct strings *strings = &html->view->profile->strings;

	json_string(&html->json, string_text(strings, string), string_length(strings, string));
}

/* Short notation: most numbers are integers. */
static void write_number(struct html *html, double value)
{
	if (value == floor(value) && fabs(value) < 9e15)
		json_int64(&html->json, (int64_t)value);
	else
		json_double(&html->json, value); /* NAN: null */
}

static void key_number(struct html *html, const char *key, double value)
{
	json_key(&html->json, key);
	write_number(html, value);
}

/* ------------------------------------------------------------------ what was run */

static void write_info(struct html *html)
{
	const struct profile *profile = html->view->profile;
	struct json_writer *json = &html->json;

	json_key_array(json, "info");
	for (size_t i = 0; i < profile->info_count; i++) {
		json_begin_array(json);
		write_string(html, profile->info[i].key);
		write_string(html, profile->info[i].value);
		json_end_array(json);
	}
	json_end_array(json);
	json_key_array(json, "losses");
	ARRAY_EACH(counter, profile->counters, profile->counter_count) {
		if (!counter->is_loss || !counter->value)
			continue;
		json_begin_array(json);
		write_string(html, counter->name);
		json_uint64(json, counter->value);
		json_end_array(json);
	}
	json_end_array(json);
}

static void write_devices(struct html *html)
{
	const struct export_report *report = html->view->report;
	const struct profile *profile = html->view->profile;
	struct json_writer *json = &html->json;

	json_key_array(json, "devices");
	ARRAY_EACH(device, report->devices, report->device_count) {
		const struct row_device *row = &profile->devices[device->device];

		json_begin_object(json);
		json_key(json, "type");
		write_string(html, row->type);
		key_number(html, "id", row->id);
		json_key(json, "name");
		write_string(html, row->name);
		json_key(json, "arch");
		write_string(html, row->arch);
		key_number(html, "time", (double)device->total_ns);
		if (device->has_peaks) {
			json_key_array(json, "flops");
			for (size_t w = 0; w < REPORT_WIDTHS; w++)
				write_number(html,
					     report->uses_width[w] ? device->flop_per_s[w] : NAN);
			json_end_array(json);
			key_number(html, "bytes", device->byte_per_s);
		}
		json_end_object(json);
	}
	json_end_array(json);
}

static void write_head(struct html *html)
{
	const struct profile *profile = html->view->profile;
	struct json_writer *json = &html->json;
	uint64_t start_ms = profile->start_ns / 1000000;

	json_key_text(json, "title", html->view->title);
	write_info(html);
	key_number(html, "start", (double)start_ms);
	key_number(html, "duration",
		   profile->end_ns > profile->start_ns && profile->start_ns
			   ? (double)(profile->end_ns - profile->start_ns)
			   : NAN);
	json_key_bool(json, "unfinished", profile->is_unfinished);
	json_key_bool(json, "damaged", profile->is_damaged);
	if (html->view->report->hidden_count) {
		json_key_uint64(json, "hidden", html->view->report->hidden_count);
		json_key_text(json, "hiddenBy", html->view->report->hidden_by);
	}
	write_devices(html);
}

/* ------------------------------------------------------------------ kernels */

static double known_time(uint64_t ns)
{
	return ns == KERNEL_TIME_UNKNOWN ? NAN : (double)ns;
}

/* [shortest duration of the bucket in ns, runs] for each bucket that is not empty. */
static void write_histogram(struct html *html, const struct report_kernel *kernel)
{
	struct json_writer *json = &html->json;

	json_begin_array(json);
	for (uint32_t i = 0; kernel->has_histogram && i < HISTOGRAM_BUCKETS; i++) {
		if (!kernel->bucket[i])
			continue;
		json_begin_array(json);
		json_uint64(json, i);
		json_uint64(json, kernel->bucket[i]);
		json_end_array(json);
	}
	json_end_array(json);
}

static void write_kernels(struct html *html)
{
	const struct export_report *report = html->view->report;
	struct json_writer *json = &html->json;

	json_key_array(json, "kernels");
	ARRAY_EACH(kernel, report->kernels, report->kernel_count) {
		json_line_break(json);
		json_begin_array(json);
		json_uint64(json, html->tree.number_of_frame[kernel->frame]);
		json_uint64(json, kernel->count);
		json_uint64(json, kernel->total_ns);
		write_number(html, known_time(kernel->min_ns));
		write_number(html, known_time(kernel->max_ns));
		write_number(html, kernel->flops);
		write_number(html, kernel->bytes);
		write_number(html, kernel->util);
		write_histogram(html, kernel);
		json_end_array(json);
	}
	json_end_array(json);
}

/* Names of kernels with scopes inside: without a time, if only these were recorded. */
static void write_instrumented(struct html *html)
{
	const struct profile *profile = html->view->profile;

	json_key_array(&html->json, "instrumented");
	for (size_t i = 0; i < html->tree.count; i++) {
		const struct profile_node *node = &profile->nodes[html->tree.nodes[i]];
		const char *name = profile_text(profile, profile->frames[node->frame].name);
		uint32_t parent = profile->nodes[node->parent].frame;

		if (strcmp(name, WARPS_FRAME) == 0)
			json_uint64(&html->json, html->tree.number_of_frame[parent]);
	}
	json_end_array(&html->json);
}

/* ------------------------------------------------------------------ without scripts */

static void write_cell(struct out *out, const struct out *text)
{
	AT_END(out_fini) struct out valid = OUT_IN_MEMORY;

	text_write_utf8(&valid, text->bytes, text->length);
	out_fail(out, text->errnum ? text->errnum : valid.errnum);
	out_text(out, "<td>");
	for (size_t i = 0; i < valid.length; i++) {
		if (valid.bytes[i] == '<')
			out_text(out, "&lt;");
		else if (valid.bytes[i] == '&')
			out_text(out, "&amp;");
		else
			out_byte(out, valid.bytes[i]);
	}
	out_text(out, "</td>");
}

static void write_duration(struct out *out, double ns)
{
	static const char *const units[] = {"ns", "\302\265s", "ms", "s"};
	size_t unit = 0;

	for (; ns >= 1000 && unit < 3; unit++)
		ns /= 1000;
	out_printf(out, "<td>%.*f %s</td>", unit ? 2 : 0, ns, units[unit]);
}

/* The kernels with the longest time, which readers without scripts see. */
static void write_top(const struct export_view *view, struct out *out)
{
	const struct export_report *report = view->report;
	AT_END(out_fini) struct out name = OUT_IN_MEMORY;
	uint64_t whole = 0;

	for (size_t i = 0; i < report->kernel_count; i++)
		whole += report->kernels[i].total_ns;
	out_text(out, "<table><thead><tr><th>Kernel</th><th>Time</th><th>%</th><th>Runs</th>"
		      "<th>Mean</th></tr></thead><tbody>\n");
	for (size_t i = 0; i < report->kernel_count && i < TOP_ROWS; i++) {
		const struct report_kernel *kernel = &report->kernels[i];

		name.length = 0;
		view->write_name(&name, view, kernel->frame);
		out_text(out, "<tr>");
		write_cell(out, &name);
		write_duration(out, (double)kernel->total_ns);
		out_printf(out, "<td>%.2f</td><td>%" PRIu64 "</td>",
			   whole ? 100.0 * (double)kernel->total_ns / (double)whole : 0,
			   kernel->count);
		write_duration(out, kernel->count ? (double)kernel->total_ns / (double)kernel->count
						  : 0);
		out_text(out, "</tr>\n");
	}
	out_text(out,
		 "</tbody></table></section>\n<script type=\"application/json\" id=\"profile\">");
}

/* ------------------------------------------------------------------ the page */

static void write_profile(const struct export_view *view, struct out *out)
{
	struct html html = {.view = view};

	json_writer_init(&html.json, out, false);
	if (html_tree_init(&html.tree, view)) {
		json_begin_object(&html.json);
		write_head(&html);
		html_tree_write(&html.tree, &html.json);
		write_kernels(&html);
		write_instrumented(&html);
		json_end_object(&html.json);
	} else {
		out_fail(out, ENOMEM);
	}
	html_tree_fini(&html.tree);
}

static void write_ready(const char *key, const struct out *ready, struct out *out)
{
	out_fail(out, ready->errnum);
	out_text(out, key);
	if (ready->length)
		out_bytes(out, ready->bytes, ready->length);
	else
		out_text(out, "null");
}

static void write_timeline(const struct export_view *view)
{
	struct html_timeline line;

	html_timeline_init(&line, view, &view->report->timeline);
	html_timeline_add(&line, view->profile, &(struct trace_part){.name = ""});
	html_timeline_end(&line);
}

void export_html(struct export_view *view, struct out *out)
{
	struct export_report *report = view->report;
	const struct profile_trace *trace = view->profile->trace;
	AT_END(out_fini) struct out json = OUT_IN_MEMORY;

	out_bytes(out, html_page_head, html_page_head_bytes);
	write_top(view, out);
	out_text(&json, "{\"version\":\"" PROTON_VERSION "\",\"now\":");
	write_profile(view, &json);
	out_text(&json, ",\"before\":");
	if (view->other)
		write_profile(view->other, &json);
	else
		out_text(&json, "null");
	write_ready(",\"source\":", &report->source, &json);
	write_ready(",\"ranks\":", &report->ranks, &json);
	out_text(&json, ",\"warps\":");
	json_quote(&json, report->warps.bytes, report->warps.length);
	out_fail(&json, report->warps.errnum);
	out_text(&json, ",\"waits\":");
	json_quote(&json, report->waits.bytes, report->waits.length);
	out_fail(&json, report->waits.errnum);
	if (!report->timeline.length && trace && trace->event_count)
		write_timeline(view);
	write_ready(",\"timeline\":", &report->timeline, &json);
	out_text(&json, "}");
	/* "</script>" and "<!--" in a name must not end the script element. */
	out_replaced(out, &json, "\\u003c");
	out_fail(out, json.errnum);
	out_bytes(out, html_page_tail, html_page_tail_bytes);
}
