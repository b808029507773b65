/*
 * What the HTML report knows about the frames that it does not draw, so that searches and the
 * frames above count them.
 *
 * Numbers are in strings, five bits a character, the lowest first; 32 is added to all characters
 * of a number but the last ("base 64 VLQ" of source maps, without a sign). In weights a 0 is
 * followed by how many more zeros there are. `listed` frames come depth first, in runs below one
 * drawn frame each, with their level below it.
 */
#ifndef EXPORT_HTML_PRUNED_H
#define EXPORT_HTML_PRUNED_H

#include "export/html_nodes.h"
#include "format/json_write.h"

/* The places of nodes and frames on the page. */
struct html_numbers {
	const uint32_t *of_node;  /* drawn ones */
	const uint32_t *of_frame; /* all that are shown */
	size_t frame_count;
};

/* Writes a value: an object, or null if everything is drawn. False when memory is out. */
bool html_pruned_write(struct json_writer *json, const struct html_nodes *nodes,
		       const struct html_numbers *numbers);

#endif
