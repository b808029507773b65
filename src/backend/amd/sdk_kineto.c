/* Registration of Kineto with rocprofiler-sdk, beside Proton. */
#include "backend/amd/sdk_kineto.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/amd/sdk_api.h"
#include "base/environment.h"
#include "base/message.h"
#include "driver/amd_library.h"

#define TOOLS "ROCP_TOOL_LIBRARIES"
#define ANY_TIME 10302u /* since 1.3.2 tools may register at any time */

/* Guarded by the lock of sdk_register.c. */
static bool is_registered;
static char *entry; /* in the environment while Proton registers; NULL: none is needed */
static char *tools; /* the earlier value; NULL: not set */

/* The function in PyTorch's library. NULL: not loaded, or its Kineto does not use the SDK. */
static void *find_configure(const char **path_out)
{
	void *library = amd_library_get_loaded(AMD_TORCH);
	void *symbol = library ? dlsym(library, "rocprofiler_configure") : NULL;
	struct link_map *map;

	if (!symbol || dlinfo(library, RTLD_DI_LINKMAP, &map) != 0)
		return NULL;
	*path_out = map->l_name;
	return symbol;
}

void sdk_kineto_begin(void)
{
	const char *before = environment_get(TOOLS);
	const char *path;

	if (!find_configure(&path))
		return;
	tools = before ? strdup(before) : NULL;
	/* The library does not load the last of several tools unless a colon follows. */
	if (asprintf(&entry, TOOLS "=%s%s%s:", before ? before : "", before && *before ? ":" : "",
		     path) < 0)
		entry = NULL;
	else
		is_registered = before ? setenv(TOOLS, entry + strlen(TOOLS "="), 1) == 0
				       : environment_append(entry);
}

void sdk_kineto_end(void)
{
	if (tools)
		setenv(TOOLS, tools, 1);
	else if (entry)
		environment_remove(entry);
	free(tools);
	tools = NULL;
}

void sdk_kineto_add(uint32_t version, bool is_starting)
{
	const char *path;
	void *symbol = is_registered ? NULL : find_configure(&path);
	sdk_configure_fn configure;

	if (!symbol)
		return;
	if (version < ANY_TIME) {
		if (is_starting)
			message_once("torch.profiler has no GPU events in this process: Proton has "
				     "registered with rocprofiler-sdk before PyTorch was loaded, "
				     "and versions before 1.3.2 take tools only once; import "
				     "torch before triton_proton, or update ROCm");
		return;
	}
	memcpy(&configure, &symbol, sizeof(configure)); /* a pointer to code */
	is_registered = true;
	sdk.force_configure(configure);
}
