/* Text cells of the table model. */
#include "viewer/print/table_model.h"

void table_text(struct out *out, const struct table_model *table,
		const struct metric_column *column, uint32_t node)
{
	if (!column->words)
		metrics_text(out, table->metrics, column->raw, node);
	else if (column->word[node] != WORD_NONE)
		out_text(out, column->words[column->word[node]]);
}
