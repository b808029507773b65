/* Functions of libcupti, loaded at run time. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "backend/cuda/cupti_abi.h"
#include "backend/cuda/pcs_abi.h"
#include "backend/cuda/pm_abi.h"
#include "backend/cuda/range_abi.h"
#include "base/err.h"

struct cupti_api {
	char path[1024];  /* path of libcupti, as opened */
	uint32_t version; /* value of cuptiGetVersion */
	int driver;       /* CUDA version of the driver: 1000 * major + 10 * minor */
	/* The first function that an interface lacks (interface.h); NULL if it is complete. */
	const char *missing_first;
	const char *missing_second;
	/*
	 * The child of a process that had touched CUPTI; it cannot be started there. CUPTI still
	 * calls back: its callbacks take no lock, which a thread of the parent may have held, and
	 * call nothing of CUPTI. Set by the only thread of the child, in the fork.
	 */
	_Atomic bool is_orphaned;
	bool has_worked; /* CUPTI granted a subscription in this process */
	/* Name of the tool that CUPTI gave when a subscription was refused; "": not known. */
	char other_name[CUPTI_SUBSCRIBER_NAME_BYTES + 1];
#define V(name, args) int(*name) args;
#include "backend/cuda/cupti_symbols.def"
#undef V
};

/* Set by cupti_api_load(). */
extern struct cupti_api libcupti;

static inline bool cupti_is_orphaned(void)
{
	/* relaxed: the only thread of this process has set it */
	return atomic_load_explicit(&libcupti.is_orphaned, memory_order_relaxed);
}

/* Opens libcuda and libcupti once per process. E_NOLIB with the searched places, E_VERSION. */
int cupti_api_load(struct proton_error *err);

/*
 * Opens libnvperf_host.so once, before PC and PM sampling: libcupti opens it by its bare name, and
 * does not find the one in its own directory. The caller serializes calls.
 */
void cupti_api_preload_host(void);

/* "12.4" for 22, "13.0" for 130000: CUPTI changed its encoding at 13.0. */
void cupti_api_version_text(uint32_t version, char *text, size_t capacity);

/* E_PERMISSION, E_BUSY, ... with CUPTI's message and the remedy. `call` names the entry point. */
int cupti_api_error(int result, const char *call, struct proton_error *err);
