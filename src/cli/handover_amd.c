/* Variables that let ROCm load the recorder into a program and its children. */

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/environment.h"
#include "cli/handover.h"
#include "driver/amd_library.h"

#define TOOLS "ROCP_TOOL_LIBRARIES"
#define SDK "ROCPROFILER_REGISTER_LIBRARY"
#define HSA_TOOLS "HSA_TOOLS_LIB"

static bool make_tool_path(const char *library, const char *tool, char path[static PATH_MAX])
{
	const char *slash = strrchr(library, '/');
	int length = snprintf(path, PATH_MAX, "%.*s%s", slash ? (int)(slash + 1 - library) : 0,
			      library, tool);

	return length > 0 && length < PATH_MAX && access(path, R_OK) == 0;
}

static bool is_wanted(const struct options *options, const char *backend)
{
	return !options->backend || strcasecmp(options->backend, backend) == 0;
}

/* `path` is the tool's. */
static bool can_use_sdk(const struct options *options, const char *library,
			char path[static PATH_MAX])
{
	char sdk[PATH_MAX];

	return is_wanted(options, "rocprofiler") && amd_library_is_likely() &&
	       amd_library_find_file(AMD_ROCPROFILER_SDK, library, sdk) &&
	       make_tool_path(library, HANDOVER_AMD_TOOL, path) && !strchr(path, ':');
}

/* If ROCm's SDK is too old, this tool starts the session, with the first usable backend. */
static bool can_use_hsa(const struct options *options, const char *library,
			char path[static PATH_MAX])
{
	char other[PATH_MAX];

	return is_wanted(options, "roctracer") && amd_library_is_likely() &&
	       !can_use_sdk(options, library, other) &&
	       amd_library_find_file(AMD_ROCTRACER, library, other) &&
	       make_tool_path(library, HANDOVER_AMD_HSA_TOOL, path);
}

bool handover_amd_can_inject(const struct options *options, const char *library)
{
	char path[PATH_MAX];

	return can_use_sdk(options, library, path) || can_use_hsa(options, library, path);
}

/* After the user's tools. rocprofiler-sdk loads the last of several only if a colon follows. */
static bool append_tool(const char *variable, char separator, const char *tool)
{
	const char *before = environment_get(variable);
	char *joined = NULL;
	bool ok;

	if (!before || !*before)
		return setenv(variable, tool, 1) == 0;
	ok = asprintf(&joined, "%s%c%s%s", before, separator, tool, separator == ':' ? ":" : "") >
		     0 &&
	     setenv(variable, joined, 1) == 0;
	free(joined);
	return ok;
}

/* The HSA runtime takes a space as the end of a path. */
static bool append_hsa_tool(const char *tool)
{
	char escaped[2 * PATH_MAX];
	size_t length = 0;

	for (; *tool; tool++) {
		if (strchr(" \"\\", *tool))
			escaped[length++] = '\\';
		escaped[length++] = *tool;
	}
	escaped[length] = '\0';
	return append_tool(HSA_TOOLS, ' ', escaped);
}

bool handover_amd_export(const struct options *options, const char *library)
{
	char path[PATH_MAX];

	if (can_use_hsa(options, library, path))
		return append_hsa_tool(path);
	if (!can_use_sdk(options, library, path) || !append_tool(TOOLS, ':', path))
		return false;
	/* Wheels have no library of the name that ROCm looks for. */
	if (environment_get(SDK) || !amd_library_find_file(AMD_ROCPROFILER_SDK, library, path))
		return true;
	return setenv(SDK, path, 1) == 0 && setenv(HANDOVER_SDK, "1", 1) == 0;
}

/* The last separator that is part of no path; NULL: none. */
static char *last_separator(char *tools, char separator)
{
	char *found = NULL;

	for (char *at = tools; (at = strchr(at, separator)); at++)
		if (separator != ' ' || at == tools || at[-1] != '\\')
			found = at;
	return found;
}

/* Removes `tool` from the end of the list. */
static void clear_tool(const char *variable, char separator, const char *tool)
{
	const char *value = environment_get(variable);
	char *tools = value ? strdup(value) : NULL;
	size_t length = tools ? strlen(tools) : 0;
	char *last;

	if (length && separator == ':' && tools[length - 1] == ':')
		tools[length - 1] = '\0';
	last = tools ? last_separator(tools, separator) : NULL;
	if (last && strstr(last, tool)) {
		*last = '\0';
		setenv(variable, tools, 1);
	} else if (tools && !last && strstr(tools, tool)) {
		unsetenv(variable);
	}
	free(tools);
}

void handover_amd_clear(void)
{
	if (environment_get(HANDOVER_SDK))
		unsetenv(SDK);
	clear_tool(TOOLS, ':', "/" HANDOVER_AMD_TOOL);
	clear_tool(HSA_TOOLS, ' ', "/" HANDOVER_AMD_HSA_TOOL);
}
