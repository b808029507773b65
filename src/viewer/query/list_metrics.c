/* --list: the metric names that -m accepts with this profile. */
#include <stdbool.h>
#include <string.h>

#include "viewer/print/printable_text.h"
#include "viewer/print/table_model.h"
#include "viewer/query/derive.h"

static void print_group(const struct metrics *metrics, bool is_inclusive, struct out *out)
{
	out_text(out, is_inclusive ? "Available inclusive metrics:\n"
				   : "Available exclusive metrics:\n");
	for (size_t i = 0; i < metrics->count; i++) {
		if (metrics->raws[i].is_inclusive != is_inclusive)
			continue;
		out_text(out, "- ");
		text_clean(out, metrics->raws[i].name, strlen(metrics->raws[i].name));
		out_byte(out, '\n');
	}
}

void list_print(const struct metrics *metrics, struct out *out)
{
	const char *previous = NULL;
	const char *family;
	const char *name;

	print_group(metrics, true, out);
	print_group(metrics, false, out);
	out_text(out, "Derived metrics:\n");
	for (size_t i = 0; (name = derive_available(metrics, i, &family)) != NULL; i++) {
		out_text(out, previous && strcmp(previous, family) == 0 ? ", "
			      : previous                                ? "\n- "
									: "- ");
		out_text(out, name);
		previous = family;
	}
	out_text(out, previous ? "\n" : "");
	out_text(out, "- METRIC/%: share of any numeric metric above\n");
}
