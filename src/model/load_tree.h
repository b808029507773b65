/*
 * Loader of the nested lists that hatchet reads ([tree, devices], in JSON or MessagePack; see
 * docs/design/hatchet-output.md), given as tokens. Used by load_hatchet.c and load_msgpack.c.
 */
#ifndef MODEL_LOAD_TREE_H
#define MODEL_LOAD_TREE_H

#include "format/token.h"
#include "model/profile.h"

/*
 * The profile is stored in *out. Truncated input gives the part that was read, marked is_damaged;
 * any other input that is not such a list is E_FORMAT.
 */
int load_tree(struct token_source *source, struct profile **out, struct proton_error *err);

#endif
