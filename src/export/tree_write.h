/*
 * Walks a profile as the hatchet formats say it, [tree, devices], and hands each value to the
 * format, which knows no more than how it spells one. What is said is in tree_plan.h.
 */
#ifndef EXPORT_TREE_WRITE_H
#define EXPORT_TREE_WRITE_H

#include "export/tree_plan.h"

/* How a format spells values. Keys and values of a map take turns. */
struct tree_format {
	bool is_children_first; /* of a node's members; else they are the last */
	bool wants_lengths;     /* of containers; else they are given as 0 */
	plan_encode_fn encode;  /* a string, for encoded() */
	void (*begin_map)(void *context, uint64_t pairs);
	void (*end_map)(void *context);
	void (*begin_array)(void *context, uint64_t elements);
	void (*end_array)(void *context);
	void (*key)(void *context, const char *text);
	void (*encoded_key)(void *context, const char *bytes, size_t length);
	void (*encoded)(void *context, const char *bytes, size_t length);
	void (*string)(void *context, const char *text, size_t length);
	void (*int64)(void *context, int64_t value);
	void (*uint64)(void *context, uint64_t value);
	void (*float64)(void *context, double value);
	void (*boolean)(void *context, bool value);
	/* True if the output cannot be written any more: the walk ends. */
	bool (*has_failed)(void *context);
	/* Before all of it, or behind. */
	void (*whole)(void *context, bool begin);
	/* A node or the table of devices follows. */
	void (*before_part)(void *context);
	/* Inside the map of what upstream's files do not have, or behind it. */
	void (*extras)(void *context, bool begin);
};

int tree_write(const struct profile *profile, const struct tree_format *format, void *context,
	       struct proton_error *err);

#endif
