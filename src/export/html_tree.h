/*
 * The tree of the HTML report: all shown frames in depth-first order, as columns of small numbers
 * that are compressed as one gzip file. Numbers of 7 bits per byte, lowest first, 128 is added to
 * all but the last byte. In this order:
 *
 *   the length of the names, and the names as a JSON array; the number of frames; per frame the
 *   levels from its depth below the frame before it up to its own, and the index of its name;
 *   per metric a column, unless it is a ratio of others.
 *
 * html/tree.js reads it.
 */
#pragma once

#include "export/export_view.h"
#include "format/gzip_write.h"
#include "format/json_write.h"

/* Numbers on the page. */
struct html_bytes {
	struct out plain;  /* not yet compressed */
	struct out packed; /* compressed */
	struct gzip_writer gzip;
};

void html_bytes_init(struct html_bytes *bytes);
void html_put_number(struct html_bytes *bytes, uint64_t value);
/* Writes all of them as a string in base64, once. */
void html_bytes_write(struct html_bytes *bytes, struct json_writer *json);
void html_bytes_fini(struct html_bytes *bytes);

struct html_tree {
	const struct export_view *view;
	uint32_t *nodes; /* those shown, depth first */
	size_t count;
	uint32_t *number_of_frame; /* index of its name on the page; UINT32_MAX: not shown */
	uint32_t *frames;          /* by that index */
	size_t frame_count;
	double *per;  /* by metric: values times this are integers; 0: they are not */
	int64_t *own; /* per node, of one column */
	struct html_bytes bytes;
};

/* False if memory ran out; html_tree_fini() must be called anyway. */
bool html_tree_init(struct html_tree *tree, const struct export_view *view);
/* Writes the keys "metrics", which describes the columns, and "tree", in base64. */
void html_tree_write(struct html_tree *tree, struct json_writer *json);
void html_tree_fini(struct html_tree *tree);
