/* Functions of libroctracer64 and of HIP that this backend calls, loaded at run time. */
#ifndef BACKEND_AMD_ROCTRACER_API_H
#define BACKEND_AMD_ROCTRACER_API_H

#include <stdatomic.h>
#include <stdbool.h>

#include "backend/amd/roctracer_abi.h"
#include "base/err.h"

struct roctracer_api {
#define V(name, args) int(*name) args;
#include "backend/amd/roctracer_symbols.def"
#undef V
};

/* HIP functions that are not in struct driver. NULL: this HIP lacks it. */
struct roctracer_hip {
	int (*hipPeekAtLastError)(void);
	int (*hipDeviceSynchronize)(void);
};

/* Set by roctracer_api_load() and roctracer_api_load_hip(). */
extern struct roctracer_api libroctracer;
extern struct roctracer_hip roctracer_hip;

/* Opens libroctracer64 once per process and checks its version. E_NOLIB, E_VERSION. */
int roctracer_api_load(struct proton_error *err);
/*
 * Binds HIP, which the process has loaded, and checks that roctracer can work with it: roctracer
 * aborts the program if it lacks a function. E_NOLIB, E_UNSUPPORTED.
 */
int roctracer_api_load_hip(struct proton_error *err);
/* True if the library of ROCTX ranges is loaded now. roctracer would abort with an unknown one. */
bool roctracer_api_load_roctx(void);

/* E_IO with the meaning of `result`. `call` names the function. */
int roctracer_api_error(int result, const char *call, struct proton_error *err);

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

#endif
