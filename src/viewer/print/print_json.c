/*
 * --json: the printed rows for programs. One object:
 *
 *   {"metrics": [{"name": "time/ms", "inclusive": true}],
 *    "partial": false,
 *    "comparison": {"base_runs": 5, "runs": 5, "confidence": 0.95},
 *    "gates": [...],
 *    "rows": [{"node": 0, "parent": null, "depth": 0, "frame": "ROOT",
 *              "metrics": {"time/ms": 1.5}}]}
 *
 * Rows are in the order of the tree; "parent" is the "node" of an earlier row. Trees are not
 * nested, because many JSON parsers fail at a depth of a few hundred. Rows of a flat table have
 * only "frame" and "metrics". A missing value is null. "partial" is true if --allow-partial
 * accepted an incomplete profile. "comparison" is present with --diff ("confidence" is null if a
 * side has one run and thus no interval), "gates" with --fail-if (gate_report.h).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "format/json_write.h"
#include "viewer/numbers/gate_report.h"
#include "viewer/numbers/repeats.h"
#include "viewer/print/table_model.h"
#include "viewer/print/xalloc.h"
#include "viewer/query/walk.h"

struct json_printer {
	const struct table_model *table;
	struct json_writer writer;
	struct out scratch;
};

static void write_metrics(struct json_printer *printer)
{
	const struct table_model *table = printer->table;

	json_key_array(&printer->writer, "metrics");
	for (size_t c = 0; c < table->column_count; c++) {
		const char *name = table->columns[c].name;

		json_begin_object(&printer->writer);
		json_key_text(&printer->writer, "name", name);
		json_key_bool(&printer->writer, "inclusive", table->columns[c].is_inclusive);
		json_end_object(&printer->writer);
	}
	json_end_array(&printer->writer);
}

static void write_value(struct json_printer *printer, const struct metric_column *column,
			uint32_t node)
{
	if (!column->values) {
		printer->scratch.length = 0;
		table_text(&printer->scratch, printer->table, column, node);
		if (printer->scratch.length)
			json_string(&printer->writer, printer->scratch.bytes,
				    printer->scratch.length);
		else
			json_double(&printer->writer, NAN);
	} else if (column->exact && isfinite(column->values[node])) {
		json_int64(&printer->writer, column->exact[node]);
	} else {
		json_double(&printer->writer, column->values[node]);
	}
}

static void write_name(struct json_printer *printer, uint32_t node)
{
	const struct table_model *table = printer->table;

	printer->scratch.length = 0;
	name_write_styled(&printer->scratch, table->profile, table->profile->nodes[node].frame,
			  table->format, table->names);
	json_key(&printer->writer, "frame");
	json_string(&printer->writer, printer->scratch.bytes, printer->scratch.length);
}

static void write_place(struct json_writer *writer, size_t line, const size_t *line_at_level,
			uint32_t level)
{
	json_key_uint64(writer, "node", line);
	json_key(writer, "parent");
	if (level)
		json_uint64(writer, line_at_level[level - 1]);
	else
		json_double(writer, NAN);
	json_key_uint64(writer, "depth", level);
}

static void write_row(struct json_printer *printer, uint32_t node)
{
	const struct table_model *table = printer->table;

	write_name(printer, node);
	json_key_object(&printer->writer, "metrics");
	for (size_t c = 0; c < table->column_count; c++) {
		json_key(&printer->writer, table->columns[c].name);
		write_value(printer, &table->columns[c], node);
	}
	json_end_object(&printer->writer);
}

static void write_rows(struct json_printer *printer)
{
	const struct table_model *table = printer->table;
	struct json_writer *writer = &printer->writer;
	size_t *line_at_level = NULL; /* the latest line printed of each level */
	size_t capacity = 0;
	size_t line = 0;
	struct walk_step step;
	struct walk walk;

	walk_init(&walk, table);
	while (!writer->out->errnum && walk_next(&walk, &step)) {
		if (step.is_more || (table->is_flat && step.level == 0))
			continue;
		if (table->is_flat && table->rows && line == table->rows)
			break;
		json_line_break(writer);
		json_begin_object(writer);
		if (!table->is_flat) {
			xreserve(&line_at_level, &capacity, (size_t)step.level + 1,
				 sizeof(*line_at_level));
			line_at_level[step.level] = line;
			write_place(writer, line, line_at_level, step.level);
		}
		write_row(printer, step.node);
		json_end_object(writer);
		line++;
	}
	walk_fini(&walk);
	free(line_at_level);
}

static void write_comparison(struct json_printer *printer)
{
	const struct table_model *table = printer->table;
	bool has_intervals = table->base_runs > 1 && table->runs > 1;

	json_key_object(&printer->writer, "comparison");
	json_key_uint64(&printer->writer, "base_runs", table->base_runs);
	json_key_uint64(&printer->writer, "runs", table->runs);
	json_key_double(&printer->writer, "confidence", has_intervals ? REPEATS_CONFIDENCE : NAN);
	json_end_object(&printer->writer);
}

void json_print(const struct table_model *table, struct out *out)
{
	struct json_printer printer = {.table = table};

	out_init(&printer.scratch, -1);
	out_byte(&printer.scratch, ' '); /* ensures that the buffer exists */
	json_writer_init(&printer.writer, out, false);
	json_begin_object(&printer.writer);
	write_metrics(&printer);
	json_key_bool(&printer.writer, "partial", profile_is_partial(table->profile));
	if (table->runs)
		write_comparison(&printer);
	if (table->gate_count) {
		json_key(&printer.writer, "gates");
		gate_write_json(&printer.writer, table->gates, table->gate_count, table->profile);
	}
	json_key_array(&printer.writer, "rows");
	if (table->column_count)
		write_rows(&printer);
	out_byte(out, '\n');
	json_end_array(&printer.writer);
	json_end_object(&printer.writer);
	out_byte(out, '\n');
	out_fini(&printer.scratch);
}
