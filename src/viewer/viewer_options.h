/* Command-line options of proton-viewer, compatible with upstream's viewer. */
#pragma once

#include "base/option_table.h"
#include "viewer/export/exporters.h"
#include "viewer/print/terminal.h"
#include "viewer/query/frame_names.h"
#include "viewer/query/query_options.h"

/* How names and the tree are printed. */
struct style_options {
	enum name_format format;
	enum name_style names;
	bool has_names;
	enum color_choice color;
	bool print_sorted;
	bool all;      /* print every frame even on a terminal */
	bool no_pager; /* even on a terminal */
};

/* The style of names for programs: as stored, unless --names is given. */
static inline enum name_style style_stored_names(const struct style_options *style)
{
	return style->has_names ? style->names : NAMES_RAW;
}

/* The other parts belong to folders of the viewer, which have their rows. */
struct options {
	struct query_options query;
	struct style_options style;
	struct output_options output;
};

/* OPTIONS_RUN, or after a message OPTIONS_DONE or OPTIONS_BAD. Always query_options_fini(). */
enum options_result options_parse(struct options *options, int argc, char **argv);
