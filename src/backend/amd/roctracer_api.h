/* Functions that the roctracer backend loads at run time, and its internal interface. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "backend/amd/roctracer_abi.h"
#include "base/err.h"

struct roctracer_api {
#define V(name, args) int(*name) args;
#include "backend/amd/roctracer_symbols.def"
#undef V
};

/* Set by roctracer_api_load(). */
extern struct roctracer_api libroctracer;

/* Opens libroctracer64 once per process and checks its version. E_NOLIB, E_VERSION. */
int roctracer_api_load(struct proton_error *err);
/*
 * Binds HIP, which the process has loaded, and checks that roctracer can work with it: roctracer
 * aborts the program if it lacks a function. E_NOLIB, E_UNSUPPORTED.
 */
int roctracer_api_load_hip(struct proton_error *err);
/*
 * The function of the library of ROCTX ranges that sets a callback; the library is loaded now.
 * NULL: none, or an unknown one, with which roctracer would abort.
 */
void *roctracer_api_load_roctx(void);

/* PROTON_OK, or E_IO with the meaning of `result`. `call` names the function. */
int roctracer_api_status(int result, const char *call, struct proton_error *err);

/* Life cycle. Changed under the lock of roctracer_backend.c, and by a fork. */
enum roctracer_state {
	ROCTRACER_OFF,     /* not started */
	ROCTRACER_WAITING, /* started; the process has not loaded HIP yet */
	ROCTRACER_FAILED,  /* roctracer could not be started when HIP was loaded */
	ROCTRACER_ON,
	/*
	 * The child of a process that recorded: roctracer's thread, which empties its buffers, is
	 * missing. The first callback there disables everything; a new session starts with a new
	 * pool.
	 */
	ROCTRACER_ORPHANED,
};

extern _Atomic enum roctracer_state roctracer_state;

/* Callbacks, on the application's threads. On failure nothing stays enabled. */
int roctracer_launches_start(struct proton_error *err);
void roctracer_launches_stop(void);
int roctracer_launches_set_memory(bool is_wanted, struct proton_error *err);

/* Records, on roctracer's thread. On failure nothing stays enabled. */
int roctracer_records_start(struct proton_error *err);
void roctracer_records_stop(void);
int roctracer_records_set_memory(bool is_wanted, struct proton_error *err);
/* Flushes roctracer's pool. 0, or its error. */
int roctracer_records_flush(void);
/* Keeps the grid and block, 32 bits each, and shared memory, until the launch's record comes. */
void roctracer_records_keep(uint32_t correlation, const uint64_t sizes[static 3],
			    uint32_t shared_bytes);
/* In the child of a fork: the pool is not usable there. */
void roctracer_records_forget(void);
