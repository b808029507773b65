/*
 * The viewer as a function: proton-viewer after its options are parsed, and the Python package with
 * profiles that it has in memory. Any other program than the viewer must take over its messages
 * (message_set_sink()), its output (options->output.target), its progress line (progress_disable())
 * and the lack of memory (xalloc_set_give_up()): they would disturb or end that program.
 */
#pragma once

#include "viewer/query/input.h"
#include "viewer/viewer_options.h"

/*
 * Shows the view that the options select, and returns the exit status; for 2 a message was printed.
 * Files come from the stores, baselines from `base_store`; NULL: they are read.
 */
int viewer_run(const struct options *options, struct input_store *store,
	       struct input_store *base_store);

/* Reads the paths of the options into a store. False: a message was printed. */
bool viewer_load(const struct options *options, struct input_store *store);
