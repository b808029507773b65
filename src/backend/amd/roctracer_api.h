/* Functions of libroctracer64 and of HIP that this backend calls, loaded at run time. */
#ifndef BACKEND_AMD_ROCTRACER_API_H
#define BACKEND_AMD_ROCTRACER_API_H

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

#endif
