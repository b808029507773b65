/* Command-line options of proton-viewer, compatible with upstream's viewer. */
#ifndef VIEWER_VIEWER_OPTIONS_H
#define VIEWER_VIEWER_OPTIONS_H

#include "base/option_table.h"
#include "viewer/export/exporters.h"
#include "viewer/print/style_options.h"
#include "viewer/query/query_options.h"

/* Each part belongs to a folder of the viewer, which has its rows. */
struct options {
	struct query_options query;
	struct style_options style;
	struct output_options output;
};

/* OPTIONS_RUN, or after a message OPTIONS_DONE or OPTIONS_BAD. */
enum options_result options_parse(struct options *options, int argc, char **argv);
void options_fini(struct options *options);

#endif
