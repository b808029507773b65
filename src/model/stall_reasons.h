/*
 * Stall reasons of PC sampling: why a warp waited when it was sampled. A profile has a
 * metric per reason (model/samples.h); reasons that are missing here are shown under their names.
 */
#pragma once

#include "symbol/sass_causes.h"

struct stall_reason {
	const char *name;  /* without prefix; compared without regard to case */
	const char *words; /* the warp waits for these */
	bool is_ready;     /* the warp could issue an instruction: it does not wait */
	enum sass_wait wait;
};

/* The reason of a metric or a name; NULL: not known. */
const struct stall_reason *stall_reason_find(const char *name, size_t length);
