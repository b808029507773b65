/*
 * Frames that the HTML report does not draw, in a compact form for searches and for the frames
 * above.
 *
 * Numbers are strings with five bits per character, lowest first; 32 is added to all characters of
 * a number except the last ("base 64 VLQ" of source maps, without a sign). In weights, a 0 is
 * followed by the number of further zeros. `listed` frames are in depth-first order, in runs below
 * one drawn frame each, with their level below it.
 */
#ifndef EXPORT_HTML_PRUNED_H
#define EXPORT_HTML_PRUNED_H

#include "export/html_nodes.h"
#include "format/json_write.h"

/* Indices of nodes and frames on the page. */
struct html_numbers {
	const uint32_t *of_node;  /* drawn nodes */
	const uint32_t *of_frame; /* all shown frames */
	size_t frame_count;
};

/* Writes an object, or null if everything is drawn. False if memory ran out. */
bool html_pruned_write(struct json_writer *json, const struct html_nodes *nodes,
		       const struct html_numbers *numbers);

#endif
