/*
 * Selection of the frames that the HTML report draws. Browsers are slow with a million elements, so
 * the page draws at most HTML_DRAWN_MAX of them, with all numbers. The others are pruned but count
 * in searches: the page lists their names and additive metrics (HTML_LISTED). Beyond
 * HTML_LISTED_CHARS, the smallest are only summed by name (HTML_SUMMED).
 */
#ifndef EXPORT_HTML_NODES_H
#define EXPORT_HTML_NODES_H

#include "export/export_view.h"

#define HTML_DRAWN_MAX 20000u
#define HTML_LISTED_CHARS (24u << 20)

enum html_place {
	HTML_HIDDEN, /* not part of the view */
	HTML_DRAWN,
	HTML_LISTED,
	HTML_SUMMED,
	HTML_SUMMED_INSIDE, /* below a summed frame of the same name: counted, but not added */
};
#define HTML_PLACES 5

struct html_nodes {
	const struct export_view *view;
	double *shares; /* per node: the largest share of any metric in its subtree */
	uint8_t *place; /* per node, enum html_place */
	size_t count[HTML_PLACES];
	double drawn_share; /* maximum share of frames that are not drawn; below 0: all are drawn */
};

/*
 * Selects the frames of one view, or of two in a comparison: frames drawn for one are drawn for the
 * other too, or they would look new or gone. False if memory ran out; html_nodes_fini() may be
 * called anyway.
 */
bool html_nodes_init(struct html_nodes *nodes, size_t count, const struct export_view *view);
void html_nodes_fini(struct html_nodes *nodes);

/*
 * Writes the sizes of frames in a flame graph of an additive metric to `weights`: inclusive and
 * never negative.
 */
void html_weights(const struct export_view *view, const struct export_metric *metric,
		  double *weights);

#endif
