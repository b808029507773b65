/* Options of proton-viewer about how names and the tree are printed. */
#ifndef VIEWER_PRINT_STYLE_OPTIONS_H
#define VIEWER_PRINT_STYLE_OPTIONS_H

#include <stdbool.h>

#include "base/option_table.h"
#include "viewer/print/terminal.h"
#include "viewer/query/frame_names.h"

struct style_options {
	enum name_format format;
	enum name_style names;
	bool has_names;
	enum color_choice color;
	bool print_sorted;
	bool all;      /* print every frame even on a terminal */
	bool no_pager; /* even on a terminal */
};

/* The options with their defaults, set by the rows. */
struct option_table style_options_init(struct style_options *style);

/* The style of names for programs: as stored, unless --names is given. */
static inline enum name_style style_stored_names(const struct style_options *style)
{
	return style->has_names ? style->names : NAMES_RAW;
}

#endif
