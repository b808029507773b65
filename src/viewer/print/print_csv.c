/*
 * --csv: the tree or a flat table as comma-separated values. One line per node, in the order of the
 * tree, with the line number of its parent: paths can be rebuilt whatever the names contain.
 * Numbers have all digits; an empty field means no value. Text is quoted as in format/csv_write.h.
 * Rows of an incomplete profile (--allow-partial) end with a field "partial", which is 1.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "format/csv_write.h"
#include "viewer/print/table_model.h"
#include "viewer/print/xalloc.h"
#include "viewer/query/walk.h"

static void write_value(struct out *out, struct out *scratch, const struct table_model *table,
			size_t c, uint32_t node)
{
	const struct metric_column *column = &table->columns[c];

	out_byte(out, ',');
	if (!column->values) {
		scratch->length = 0;
		table_text(scratch, table, column, node);
		csv_text(out, scratch->bytes, scratch->length);
	} else if (column->exact && isfinite(column->values[node])) {
		out_i64(out, column->exact[node]);
	} else {
		csv_number(out, column->values[node]);
	}
}

void csv_print(const struct table_model *table, struct out *out)
{
	bool is_partial = profile_is_partial(table->profile);
	size_t *line_at_level; /* the latest line printed of each level */
	size_t capacity = 0;
	size_t line = 0;
	struct out scratch;
	struct walk_step step;
	struct walk walk;

	line_at_level = NULL;
	out_text(out, table->is_flat ? "frame" : "node,parent,depth,frame");
	for (size_t c = 0; c < table->column_count; c++) {
		out_byte(out, ',');
		csv_text(out, table->columns[c].name, strlen(table->columns[c].name));
	}
	out_text(out, is_partial ? ",partial\n" : "\n");
	if (!table->column_count)
		return; /* nothing was measured */
	out_init(&scratch, -1);
	out_byte(&scratch, ' '); /* ensures that the buffer exists */
	walk_init(&walk, table);
	while (!out->errnum && walk_next(&walk, &step)) {
		if (step.is_more || (table->is_flat && step.level == 0))
			continue;
		xreserve(&line_at_level, &capacity, (size_t)step.level + 1, sizeof(*line_at_level));
		line_at_level[step.level] = line;
		if (!table->is_flat) {
			out_u64(out, line);
			out_byte(out, ',');
			if (step.level)
				out_u64(out, line_at_level[step.level - 1]);
			out_byte(out, ',');
			out_u64(out, step.level);
			out_byte(out, ',');
		}
		scratch.length = 0;
		name_write_styled(&scratch, table->profile, table->profile->nodes[step.node].frame,
				  table->format, table->names);
		csv_text(out, scratch.bytes, scratch.length);
		for (size_t c = 0; c < table->column_count; c++)
			write_value(out, &scratch, table, c, step.node);
		out_text(out, is_partial ? ",1\n" : "\n");
		line++;
		if (table->is_flat && line == table->rows)
			break;
	}
	walk_fini(&walk);
	out_fini(&scratch);
	free(line_at_level);
}
