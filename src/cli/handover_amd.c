/* Variables that let HIP load the recorder into a program and its children. */
#include "cli/handover_amd.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "cli/handover.h"
#include "driver/amd_library.h"

#define TOOLS "ROCP_TOOL_LIBRARIES"
#define SDK "ROCPROFILER_REGISTER_LIBRARY"

static bool make_tool_path(const char *library, char path[static PATH_MAX])
{
	const char *slash = strrchr(library, '/');
	int length = snprintf(path, PATH_MAX, "%.*s" HANDOVER_AMD_TOOL,
			      slash ? (int)(slash + 1 - library) : 0, library);

	return length > 0 && length < PATH_MAX && access(path, R_OK) == 0 && !strchr(path, ':');
}

bool handover_amd_can_inject(const struct options *options, const char *library)
{
	char path[PATH_MAX];

	if (options->backend && strcasecmp(options->backend, "rocprofiler") != 0)
		return false;
	return amd_library_is_likely() && make_tool_path(library, path) &&
	       amd_library_find_file(AMD_ROCPROFILER_SDK, library, path);
}

/* After the tools of the user, which keep working. */
static bool append_tool(const char *tool)
{
	const char *before = getenv(TOOLS);
	char *joined = NULL;
	bool ok;

	if (!before || !*before)
		return setenv(TOOLS, tool, 1) == 0;
	ok = asprintf(&joined, "%s:%s", before, tool) > 0 && setenv(TOOLS, joined, 1) == 0;
	free(joined);
	return ok;
}

bool handover_amd_export(const char *library)
{
	char path[PATH_MAX];

	if (!make_tool_path(library, path) || !append_tool(path))
		return false;
	/* Wheels have no library of the name that ROCm looks for. */
	if (getenv(SDK) || !amd_library_find_file(AMD_ROCPROFILER_SDK, library, path))
		return true;
	return setenv(SDK, path, 1) == 0 && setenv(HANDOVER_SDK, "1", 1) == 0;
}

void handover_amd_clear(void)
{
	const char *tools = getenv(TOOLS);
	const char *last = tools ? strrchr(tools, ':') : NULL;
	const char *name = last ? last + 1 : tools;
	char *before;

	if (getenv(HANDOVER_SDK))
		unsetenv(SDK);
	if (!name || !strstr(name, "/" HANDOVER_AMD_TOOL))
		return;
	before = last ? strndup(tools, (size_t)(last - tools)) : NULL;
	if (before)
		setenv(TOOLS, before, 1);
	else
		unsetenv(TOOLS);
	free(before);
}
