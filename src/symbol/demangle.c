/* Demangling of C++ names: parse and print. */
#include "symbol/demangle.h"

#include <string.h>

#include "symbol/demangle_tree.h"

bool demangle(struct out *out, const char *mangled, size_t length, enum demangle_style style)
{
	struct demangle_tree tree; /* nodes beyond its count are never read */
	struct out text;
	uint16_t root;
	bool is_done = false;

	if (length < 3 || memcmp(mangled, "_Z", 2) != 0)
		return false;
	root = demangle_parse(&tree, mangled, length);
	if (!root)
		return false;
	out_init(&text, -1);
	if (demangle_print(&tree, root, style, &text) && text.length) {
		out_bytes(out, text.bytes, text.length);
		is_done = true;
	}
	out_fini(&text);
	return is_done;
}
