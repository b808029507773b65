/* Functions of the libamdhip64 that the process has, bound once. */
#pragma once

#include <stdbool.h>

#include "driver/hip_abi.h"

#define HIP_FIELD(name, arguments) int(*name) arguments;
/* A function that the library lacks is NULL. */
struct hip_functions {
	HIP_FUNCTIONS(HIP_FIELD)
	HIP_OPTIONAL_FUNCTIONS(HIP_FIELD)
};
#undef HIP_FIELD

/* Set by the functions below; it does not change after that. */
extern struct hip_functions hip;

/* Binds this library, once. The first of HIP_FUNCTIONS that it lacks; NULL if it has all. */
const char *hip_functions_bind(void *library);
/* Binds the copy that the process has loaded; false if it has none. */
bool hip_functions_find(void);
/* In the child of a fork: a thread of the parent may have held the lock. */
void hip_functions_forked(void);

/* Clears the error of a call that failed, so the program does not see it. Returns `result`. */
static inline int hip_clear_error(int result)
{
	if (result && hip.hipGetLastError)
		hip.hipGetLastError();
	return result;
}

/*
 * True if the stream is being captured; then the capture's number, which is the same for all its
 * streams. Also true, with number 0, if its capture has failed. Calls only the libamdhip64 that the
 * process has loaded.
 */
bool hip_streams_capture(uint64_t stream, uint64_t *number_out);

/* HIP calls `function` in stream order, at each replay of a capture. 801: it cannot. */
int hip_streams_call(uint64_t stream, void (*function)(void *user), void *user);

/* If `stream` is a default one, the device of the memory at `address`; else, or unknown: -1. */
int hip_streams_device(uint64_t stream, uint64_t address);
