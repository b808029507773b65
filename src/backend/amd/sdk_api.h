/* Functions of librocprofiler-sdk, loaded at run time. */
#ifndef BACKEND_AMD_SDK_API_H
#define BACKEND_AMD_SDK_API_H

#include "backend/amd/sdk_abi.h"
#include "base/err.h"

struct sdk_api {
#define V(name, args) int(*name) args;
#include "backend/amd/sdk_symbols.def"
#undef V
};

/* Set by sdk_api_load(). */
extern struct sdk_api sdk;

/*
 * Opens the library once per process. Errors: E_NOLIB with the list of searched places; E_VERSION
 * for a version before 1.0, or one that lacks a function.
 */
int sdk_api_load(struct proton_error *err);

/* Refuses versions before 1.0, which have other structs. major * 10000 + minor * 100 + patch. */
int sdk_api_check_version(uint32_t version, struct proton_error *err);

/* E_STATE, E_VERSION, ... with the library's status and the remedy. `call` is the function. */
int sdk_api_error(int status, const char *call, struct proton_error *err);

#endif
