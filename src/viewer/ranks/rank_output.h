/* Output of the views of ranks: on the screen, or as the format that was asked for. */
#ifndef VIEWER_RANKS_RANK_OUTPUT_H
#define VIEWER_RANKS_RANK_OUTPUT_H

#include "base/buf.h"
#include "model/profile.h"
#include "viewer/viewer_options.h"

/* A view in its three forms; each gets `context`. */
struct rank_output {
	const struct profile *profile;
	void (*print)(const void *context, struct out *out);
	void (*csv)(const void *context, struct out *out);
	void (*json)(const void *context, struct out *out);
	const void *context;
};

/* Prints, or with --csv, --json or -o writes. Returns the exit status: 0, or 2 after a message. */
int rank_output_show(const struct rank_output *output, const struct options *options);

#endif
