/* Loading of libroctracer64, and of what it needs of HIP and ROCTX. */
#include "backend/amd/roctracer_api.h"

#include <dlfcn.h>

#include "base/array.h"
#include "driver/amd_library.h"
#include "driver/driver.h"
#include "driver/library_search.h"

struct roctracer_api libroctracer;
_Atomic enum roctracer_state roctracer_state;

static int load_roctracer(struct proton_error *err)
{
	static const struct function functions[] = {
#define V(name, args) {#name, offsetof(struct roctracer_api, name), 1},
#include "backend/amd/roctracer_symbols.def"
#undef V
	};
	void *library = amd_library_open(AMD_ROCTRACER, err);

	if (!library)
		return PROTON_E_NOLIB;
	functions_bind(library, functions, ARRAY_LENGTH(functions), &libroctracer);
	const char *missing =
		functions_missing(functions, ARRAY_LENGTH(functions), &libroctracer, 1);
	if (missing)
		return err_set(err, PROTON_E_VERSION,
			       "%s does not provide %s; roctracer 4.1 or later is required (ROCm 5 "
			       "or 6)",
			       amd_library_path(AMD_ROCTRACER), missing);
	int major = libroctracer.roctracer_version_major();
	int minor = libroctracer.roctracer_version_minor();
	if (major != ROCTRACER_MAJOR || minor < ROCTRACER_MINOR)
		return err_set(err, PROTON_E_VERSION,
			       "%s is roctracer %d.%d; version 4.1 or a later 4.x is required",
			       amd_library_path(AMD_ROCTRACER), major, minor);
	return PROTON_OK;
}

int roctracer_api_load(struct proton_error *err)
{
	static struct functions_once once = {.lock = PTHREAD_MUTEX_INITIALIZER};

	return functions_load_once(&once, load_roctracer, err);
}

int roctracer_api_load_hip(struct proton_error *err)
{
	TRY(driver_load_hip(err));
	void *library = amd_library_open(AMD_HIP, err);
	if (!library)
		return PROTON_E_NOLIB;
	if (dlsym(library, "hipRegisterTracerCallback"))
		return PROTON_OK;
	return err_set(err, PROTON_E_UNSUPPORTED,
		       "%s was built without support for roctracer (it does not provide "
		       "hipRegisterTracerCallback); use the HIP library of ROCm 6",
		       amd_library_path(AMD_HIP));
}

void *roctracer_api_load_roctx(void)
{
	struct proton_error err;
	void *library = amd_library_open(AMD_ROCTX, &err);

	return library ? dlsym(library, "roctxRegisterTracerCallback") : NULL;
}

int roctracer_api_status(int result, const char *call, struct proton_error *err)
{
	static const char *const texts[] = {
		[-ROCTRACER_E_ERROR] = "general error",
		[-ROCTRACER_E_INVALID_DOMAIN] = "invalid domain",
		[-ROCTRACER_E_INVALID_ARGUMENT] = "invalid argument",
		[-ROCTRACER_E_NO_POOL] = "no memory pool",
		[-ROCTRACER_E_POOL_EXISTS] = "memory pool exists",
		[-ROCTRACER_E_OUT_OF_MEMORY] = "out of memory",
		[-ROCTRACER_E_NOT_IMPLEMENTED] = "not implemented",
	};
	const char *text = NULL;

	if (result == ROCTRACER_OK)
		return PROTON_OK;
	if (result < 0 && -result < (int)ARRAY_LENGTH(texts))
		text = texts[-result];
	return err_set(err, PROTON_E_IO, "%s failed: %s (%d)", call, text ? text : "unknown error",
		       result);
}
