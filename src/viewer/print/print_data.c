/*
 * --csv and --json: the tree or a flat table for programs, in the order of the tree, as
 * docs/guide/viewing.md describes them. A row of a tree has its number ("node"), that of its
 * parent, an earlier row, and its depth: paths can be rebuilt whatever the names contain. Trees are
 * not nested, because many JSON parsers fail at a depth of a few hundred.
 */
#include <math.h>

#include "base/array.h"
#include "viewer/numbers/gate.h"
#include "viewer/numbers/repeats.h"
#include "viewer/print/printers.h"
#include "viewer/print/xalloc.h"
#include "viewer/query/walk.h"

struct rows {
	const struct view *view;
	struct report *report;
	size_t first; /* the field of the frame; the metrics follow */
	struct report_field *fields;
	struct report_value *values;
	struct out *texts;     /* by field, from the frame on */
	size_t *line_at_level; /* the latest line of each level */
	size_t capacity, count;
};

void table_text(struct out *out, const struct view *view, const struct metric_column *column,
		uint32_t node)
{
	if (!column->words)
		metrics_text(out, &view->metrics, column->raw, node);
	else if (column->word[node] != WORD_NONE)
		out_text(out, column->words[column->word[node]]);
}

static void rows_init(struct rows *rows, const struct view *view, struct report *report)
{
	static const struct report_field places[] = {
		{.name = "node"}, {.name = "parent"}, {.name = "depth"}, {.name = "frame"}};
	size_t first = view->is_flat ? 0 : 3;
	size_t count = first + 1 + view->shown_count;

	*rows = (struct rows){.view = view, .report = report, .first = first};
	rows->fields = xcalloc(count, sizeof(*rows->fields));
	rows->values = xcalloc(count, sizeof(*rows->values));
	rows->texts = xcalloc(count - first, sizeof(*rows->texts));
	for (size_t i = 0; i <= first; i++)
		rows->fields[i] = places[i + 3 - first];
	for (size_t c = 0; c < view->shown_count; c++)
		rows->fields[first + 1 + c] =
			(struct report_field){.name = view->columns[c].name, .object = "metrics"};
	for (size_t i = first; i < count; i++)
		out_init(&rows->texts[i - first], -1);
}

static void rows_fini(struct rows *rows)
{
	for (size_t i = 0; i <= rows->view->shown_count; i++)
		out_fini(&rows->texts[i]);
	FREE_ALL(rows->texts, rows->fields, rows->values, rows->line_at_level);
}

static struct report_value value_of(const struct rows *rows, size_t c, uint32_t node)
{
	const struct metric_column *column = &rows->view->columns[c];
	struct out *text = &rows->texts[1 + c];

	if (column->values && column->exact && isfinite(column->values[node]))
		return VALUE_INTEGER(column->exact[node]);
	if (column->values)
		return VALUE_NUMBER(column->values[node]);
	text->length = 0;
	table_text(text, rows->view, column, node);
	return text->length ? report_string(text->bytes, text->length) : VALUE_NUMBER(NAN);
}

static void write_row(struct rows *rows, uint32_t node, size_t level)
{
	const struct view *view = rows->view;
	struct report_value *value = rows->values;

	if (!view->is_flat) {
		xreserve(&rows->line_at_level, &rows->capacity, level + 1,
			 sizeof(*rows->line_at_level));
		rows->line_at_level[level] = rows->count;
		*value++ = VALUE_COUNT(rows->count);
		*value++ = level ? VALUE_COUNT(rows->line_at_level[level - 1]) : VALUE_NUMBER(NAN);
		*value++ = VALUE_COUNT(level);
	}
	rows->texts->length = 0;
	name_write_styled(rows->texts, view->profile, view->profile->nodes[node].frame,
			  view->format, view->names);
	*value++ = report_string(rows->texts->bytes, rows->texts->length);
	for (size_t c = 0; c < view->shown_count; c++)
		*value++ = value_of(rows, c, node);
	report_row(rows->report, rows->values);
	rows->count++;
}

static void write_rows(struct rows *rows)
{
	struct walk_step step;
	AT_END(walk_fini) struct walk walk;

	walk_init(&walk, rows->view);
	while (!rows->report->out->errnum && walk_next(&walk, &step))
		if (!step.is_more)
			write_row(rows, step.node, step.level);
}

static void write_members(const struct view *view, struct json_writer *json)
{
	bool has_intervals = view->base_runs > 1 && view->runs > 1;

	json_key_array(json, "metrics");
	for (size_t c = 0; c < view->shown_count; c++) {
		json_begin_object(json);
		json_key_text(json, "name", view->columns[c].name);
		json_key_bool(json, "inclusive", view->columns[c].is_inclusive);
		json_end_object(json);
	}
	json_end_array(json);
	json_key_bool(json, "partial", profile_is_partial(view->profile));
	if (view->runs) {
		json_key_object(json, "comparison");
		json_key_uint64(json, "base_runs", view->base_runs);
		json_key_uint64(json, "runs", view->runs);
		json_key_double(json, "confidence", has_intervals ? REPEATS_CONFIDENCE : NAN);
		if (view->why)
			json_key_text(json, "why", view->why);
		json_end_object(json);
	}
	if (view->results && view->gate_count)
		gate_write_json(json, view->results, view->gate_count, view->profile);
}

void table_write(const struct view *view, struct report *report)
{
	AT_END(rows_fini) struct rows rows;

	rows_init(&rows, view, report);
	report->is_partial = profile_is_partial(view->profile);
	if (report->format == REPORT_JSON)
		write_members(view, &report->json);
	report_begin(report, "rows", rows.fields, rows.first + 1 + view->shown_count);
	if (view->shown_count) /* else nothing was measured */
		write_rows(&rows);
	if (report->format == REPORT_JSON)
		out_byte(report->out, '\n');
	report_end(report);
}
