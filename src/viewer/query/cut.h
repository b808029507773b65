/* Size limit of the tree on a terminal: the frames with the largest values are kept. */
#ifndef VIEWER_QUERY_CUT_H
#define VIEWER_QUERY_CUT_H

#include "viewer/print/table_model.h"

#define CUT_FRAMES 200

/*
 * Keeps the CUT_FRAMES frames with the largest values in the sort column, and their ancestors. The
 * others become NODE_BELOW in `state`, or rows of a flat table are omitted. table->cut describes
 * what is omitted.
 */
void cut_tree(struct table_model *table, uint8_t *state);

#endif
