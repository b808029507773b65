/* Options of proton-viewer about how names and the tree are printed: their table. */
#include "viewer/print/style_options.h"

#include "base/array.h"

static const char *const formats[] = {
	[NAME_FULL] = "full",
	[NAME_FILE_FUNCTION_LINE] = "file_function_line",
	[NAME_FUNCTION_LINE] = "function_line",
	[NAME_FILE_FUNCTION] = "file_function",
	NULL,
};
static const char *const styles[] = {
	[NAMES_RAW] = "raw", [NAMES_FULL] = "full", [NAMES_SHORT] = "short", NULL};
static const char *const colors[] = {
	[COLOR_AUTO] = "auto", [COLOR_ALWAYS] = "always", [COLOR_NEVER] = "never", NULL};

#define MEMBER(name) .member = offsetof(struct style_options, name)

/* clang-format off: one row per option */
static const struct option_row rows[] = {
	{.help = "Style"},
	{'f', "format", "FORMAT",
	 "source frames: full (default), file_function_line,\n"
	 "function_line or file_function",
	 MEMBER(format), formats},
	{0, "names", "STYLE", "C++ names: short, full or raw", MEMBER(names), styles,
	 .given = offsetof(struct style_options, has_names)},
	{0, "print-sorted", NULL, "after the tree, print all frames by the first metric",
	 MEMBER(print_sorted)},
	{0, "all", NULL, "on a terminal: print all frames of a large tree", MEMBER(all)},
	{0, "color", "WHEN", "auto (default), always or never", MEMBER(color), colors},
	{0, "no-pager", NULL, "on a terminal: do not start a pager", MEMBER(no_pager)},
};
/* clang-format on */

struct option_table style_options_init(struct style_options *style)
{
	*style = (struct style_options){.names = NAMES_SHORT};
	return (struct option_table){rows, ARRAY_LENGTH(rows), style};
}
