/*
 * --print-sorted: all frames with their values of the first metric, largest first, without the
 * tree.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "viewer/print/printable_text.h"
#include "viewer/print/table_model.h"
#include "viewer/print/xalloc.h"
#include "viewer/query/filter.h"

#define NAME_COLUMNS 105
#define VALUE_COLUMNS 12

struct sorted_frame {
	double value;
	uint32_t node;
};

static int compare_entries(const void *left, const void *right)
{
	const struct sorted_frame *a = left;
	const struct sorted_frame *b = right;

	if (a->value < b->value || a->value > b->value)
		return a->value > b->value ? -1 : 1;
	return (a->node > b->node) - (a->node < b->node);
}

/* Omits the root, which would always be first. */
static struct sorted_frame *collect(const struct table_model *table, size_t *count_out)
{
	const double *values = table->columns[table->sort_column].values;
	size_t nodes = table->profile->node_count;
	struct sorted_frame *entries = xcalloc(nodes, sizeof(*entries));
	size_t count = 0;

	for (size_t i = 1; values && i < nodes; i++) {
		if (table->state[i] == NODE_SHOWN && isfinite(values[i]))
			entries[count++] = (struct sorted_frame){values[i], (uint32_t)i};
	}
	qsort(entries, count, sizeof(*entries), compare_entries);
	*count_out = count;
	return entries;
}

void sorted_print(const struct table_model *table, struct out *out)
{
	const struct metric_column *sorted_by = &table->columns[table->sort_column];
	size_t name_columns = NAME_COLUMNS;
	struct out name;
	struct out cleaned;
	size_t count;
	struct sorted_frame *entries = collect(table, &count);

	if (table->term.columns && table->term.columns < NAME_COLUMNS + VALUE_COLUMNS)
		name_columns = table->term.columns - VALUE_COLUMNS;
	out_init(&name, -1);
	out_init(&cleaned, -1);
	out_text(out, "\nSorted kernels by metric ");
	text_clean(out, sorted_by->name, strlen(sorted_by->name));
	out_byte(out, '\n');
	for (size_t i = 0; i < count && !out->errnum; i++) {
		uint32_t frame = table->profile->nodes[entries[i].node].frame;
		size_t columns;

		name.length = 0;
		cleaned.length = 0;
		name_write_styled(&name, table->profile, frame, table->format, table->names);
		text_clean(&cleaned, name.bytes, name.length);
		columns = text_columns(cleaned.bytes, cleaned.length);
		text_shorten(out, cleaned.bytes, cleaned.length,
			     table->term.columns ? name_columns : SIZE_MAX,
			     table->term.has_utf8 ? "…" : "...",
			     table->profile->frames[frame].kind == FRAME_SOURCE);
		text_pad(out, columns < name_columns ? name_columns - columns : 0);
		out_printf(out, " %.4g\n", entries[i].value);
	}
	out_fini(&name);
	out_fini(&cleaned);
	free(entries);
}
