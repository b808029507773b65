/* Loading of librocprofiler-sdk's functions, and its errors. */
#include "backend/amd/sdk_backend.h"

#include <stdbool.h>
#include <stddef.h>

#include "base/array.h"
#include "driver/amd_library.h"
#include "driver/library_search.h"

#define VERSION_MIN 10000u

struct sdk_api sdk;
_Atomic enum sdk_state sdk_state;

int sdk_api_check_version(uint32_t version, struct proton_error *err)
{
	const char *path = amd_library_path(AMD_ROCPROFILER_SDK);

	if (version >= VERSION_MIN)
		return PROTON_OK;
	return err_set(err, PROTON_E_VERSION,
		       "%s is rocprofiler-sdk %u.%u.%u; 1.0 or later is required, which ROCm 7.0 "
		       "has; update ROCm, or use the backend \"roctracer\"",
		       path ? path : "the library", version / 10000, version / 100 % 100,
		       version % 100);
}

static int load_sdk(struct proton_error *err)
{
	static const struct function functions[] = {
#define O(name, args) {"rocprofiler_" #name, offsetof(struct sdk_api, name), 0},
#define V(name, args) {"rocprofiler_" #name, offsetof(struct sdk_api, name), 1},
#include "backend/amd/sdk_symbols.def"
#undef V
	};
	void *library = amd_library_open(AMD_ROCPROFILER_SDK, err);
	uint32_t version[3] = {1, 0, 0};
	const char *missing;
	int status = PROTON_OK;

	if (!library)
		return PROTON_E_NOLIB;
	functions_bind(library, functions, ARRAY_LENGTH(functions), &sdk);
	if (sdk.get_version && sdk.get_version(&version[0], &version[1], &version[2]) == SDK_OK)
		status = sdk_api_check_version(version[0] * 10000 + version[1] * 100 + version[2],
					       err);
	missing = functions_missing(functions, ARRAY_LENGTH(functions), &sdk, 1);
	if (status == PROTON_OK && missing)
		status = err_set(err, PROTON_E_VERSION,
				 "%s does not provide %s; it is older than ROCm 7.0",
				 amd_library_path(AMD_ROCPROFILER_SDK), missing);
	return status;
}

int sdk_api_load(struct proton_error *err)
{
	static struct functions_once once = {.lock = PTHREAD_MUTEX_INITIALIZER};

	return functions_load_once(&once, load_sdk, err);
}

int sdk_api_status(int status, const char *call, struct proton_error *err)
{
	switch (status) {
	case SDK_OK:
		return PROTON_OK;
	case SDK_E_CONFIGURATION_LOCKED:
		return err_set(err, PROTON_E_STATE,
			       "rocprofiler-sdk was initialized for another tool (torch.profiler, "
			       "XLA) before Proton could register, and versions before 1.3.2 take "
			       "tools only once; import Proton first, run the program with the "
			       "command `proton`, or update ROCm [%s: status %d]",
			       call, status);
	case SDK_E_FINALIZED:
		return err_set(err, PROTON_E_STATE,
			       "rocprofiler-sdk has ended, because the program is exiting; end "
			       "sessions before [%s: status %d]",
			       call, status);
	case SDK_E_PERMISSION_DENIED:
		return err_set(err, PROTON_E_PERMISSION,
			       "the driver does not permit profiling; add the user to the groups "
			       "video and render [%s: status %d]",
			       call, status);
	default:
		return err_set(err, PROTON_E_IO, "%s failed: status %d of rocprofiler-sdk", call,
			       status);
	}
}
