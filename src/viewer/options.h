/* The command line of proton-viewer. */
#ifndef VIEWER_OPTIONS_H
#define VIEWER_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "viewer/names.h"
#include "viewer/term.h"

struct options {
	const char *path;
	const char **metrics; /* malloc'd; points into metrics_text */
	size_t metric_count;  /* 0: the default */
	char *metrics_text;
	const char *include;
	const char *exclude;
	const char *export_format; /* --export; NULL: told by the end of `output` */
	const char *output;
	double threshold;
	bool has_threshold;
	size_t depth;
	bool depth_is_set;
	enum name_format format;
	enum color_choice color;
	bool list;
	bool print_sorted;
	bool csv;
};

enum options_result {
	OPTIONS_RUN,
	OPTIONS_DONE, /* help or version was printed */
	OPTIONS_BAD,  /* a sentence was printed on standard error */
};

enum options_result options_parse(struct options *options, int argc, char **argv);
void options_fini(struct options *options);

#endif
