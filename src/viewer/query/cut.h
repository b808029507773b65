/* The tree on a terminal, cut to what a person reads: the frames with the largest values. */
#ifndef VIEWER_QUERY_CUT_H
#define VIEWER_QUERY_CUT_H

#include "viewer/print/table_model.h"

#define CUT_FRAMES 200

/*
 * Keeps the CUT_FRAMES frames with the largest values of the column that siblings are sorted by,
 * and what leads to them: the others become NODE_BELOW in `state`, or rows of a flat table are left
 * out. picture->cut has what is missing.
 */
void cut_tree(struct picture *picture, uint8_t *state);

#endif
