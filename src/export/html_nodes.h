/*
 * Which frames the HTML report draws. A browser is slow with a million elements, so the page has
 * HTML_DRAWN_MAX of them with every number. The others are pruned, but searches count them: the
 * page lists each with its name and its additive metrics (HTML_LISTED). Beyond HTML_LISTED_CHARS
 * the smallest are only summed by name (HTML_SUMMED).
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
	HTML_SUMMED_INSIDE, /* below a summed frame of the same name: counted, not added again */
};
#define HTML_PLACES 5

struct html_nodes {
	const struct export_view *view;
	double *shares; /* per node: the largest share of any metric in its subtree */
	uint8_t *place; /* per node, enum html_place */
	size_t count[HTML_PLACES];
	double drawn_share; /* frames with at most this share are not drawn; below 0: all are */
};

/*
 * Decides about the frames of one view, or of two that are compared: what is drawn of one is then
 * drawn of the other too, or it would look new or gone. False when memory is out; html_nodes_fini()
 * is harmless then.
 */
bool html_nodes_init(struct html_nodes *nodes, size_t count, const struct export_view *view);
void html_nodes_fini(struct html_nodes *nodes);

/*
 * Sizes of the frames in a flame graph of an additive metric, into `weights`: with all that is
 * below them, never negative.
 */
void html_weights(const struct export_view *view, const struct export_metric *metric,
		  double *weights);

#endif
