/* Text cells of the table model. */
#include "viewer/print/table_model.h"

void picture_text(struct out *out, const struct picture *picture,
		  const struct metric_column *column, uint32_t node)
{
	if (!column->words)
		metrics_text(out, picture->metrics, column->raw, node);
	else if (column->word[node] != WORD_NONE)
		out_text(out, column->words[column->word[node]]);
}
