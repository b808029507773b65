/* Fuzz target for the layout text in a kernel's metadata. */
#include <stdlib.h>
#include <string.h>

#include "intra/layout.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool nests_the_same(const struct instrument_layout *a, const struct instrument_layout *b,
			   uint32_t scope)
{
	uint32_t parent = a->nesting ? a->nesting[scope].parent : INSTRUMENT_NO_SCOPE;
	uint32_t depth = 0;

	if (parent != (b->nesting ? b->nesting[scope].parent : INSTRUMENT_NO_SCOPE))
		return false;
	for (; parent != INSTRUMENT_NO_SCOPE; parent = a->nesting[parent].parent)
		if (++depth > a->scope_count)
			return false;
	for (uint32_t other = 0; other < a->scope_count; other++)
		if (layout_may_contain(a, other, scope) != layout_may_contain(b, other, scope))
			return false;
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct instrument_layout layout;
	struct instrument_layout again;
	struct proton_error err;
	struct out out;
	char *text = malloc(size ? size : 1);

	if (!text)
		return 0;
	if (size)
		memcpy(text, data, size);
	if (layout_read(text, size, &layout, &err) == PROTON_OK) {
		out_init(&out, -1);
		layout_write(&layout, &out);
		if (layout_read(out.bytes, out.length, &again, &err) != PROTON_OK ||
		    again.scope_count != layout.scope_count ||
		    again.code_count != layout.code_count || again.cta_bytes != layout.cta_bytes ||
		    memcmp(again.codes, layout.codes, sizeof(layout.codes)) != 0)
			abort();
		for (uint32_t i = 0; i < layout.scope_count; i++)
			if (strcmp(layout.scopes[i], again.scopes[i]) != 0 ||
			    !nests_the_same(&layout, &again, i))
				abort();
		layout_fini(&again);
		layout_fini(&layout);
		out_fini(&out);
	}
	free(text);
	return 0;
}
