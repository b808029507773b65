/*
 * Traversal of a profile for the hatchet formats, [tree, devices]: passes each value to the format,
 * which implements only the syntax. tree_plan.h determines the content.
 */
#ifndef EXPORT_TREE_WRITE_H
#define EXPORT_TREE_WRITE_H

#include "export/tree_plan.h"

/* Syntax of a format. Keys and values of a map alternate. */
struct tree_format {
	bool is_children_first; /* first member of a node; else the last one */
	bool wants_lengths;     /* of containers; else lengths are 0 */
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
	/* True if the output has failed: ends the traversal. */
	bool (*has_failed)(void *context);
	/* At the start and the end of the output. */
	void (*whole)(void *context, bool begin);
	/* A node or the device table follows. */
	void (*before_part)(void *context);
	/* At the start and the end of the map of members that upstream's files lack. */
	void (*extras)(void *context, bool begin);
};

int tree_write(const struct profile *profile, const struct tree_format *format, void *context,
	       struct proton_error *err);

#endif
