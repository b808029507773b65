/* Environment variables that pass the options of `proton` to the target and its children. */

#include <limits.h>
#include <stdio.h>
#include <strings.h>

#include "base/array.h"
#include "base/environment.h"
#include "base/message.h"
#include "cli/handover.h"
#include "driver/amd_library.h"
#include "format/target.h"

#define INJECTION "CUDA_INJECTION64_PATH"
#define TOOLS "ROCP_TOOL_LIBRARIES"
#define SDK "ROCPROFILER_REGISTER_LIBRARY"
#define HSA_TOOLS "HSA_TOOLS_LIB"

/* The last separator that is part of no path; NULL: none. */
static char *last_separator(char *tools, char separator)
{
	char *found = NULL;

	for (char *at = tools; (at = strchr(at, separator)); at++)
		if (separator != ' ' || at == tools || at[-1] != '\\')
			found = at;
	return found;
}

static void clear_tool(const char *variable, char separator, const char *tool)
{
	const char *value = environment_get(variable);
	AUTO_FREE char *tools = value ? strdup(value) : NULL;
	size_t length = tools ? strlen(tools) : 0;

	if (length && separator == ':' && tools[length - 1] == ':')
		tools[length - 1] = '\0';
	char *last = tools ? last_separator(tools, separator) : NULL;
	if (last && strstr(last, tool)) {
		*last = '\0';
		setenv(variable, tools, 1);
	} else if (tools && !last && strstr(tools, tool)) {
		unsetenv(variable);
	}
}

static void clear_amd_tools(void)
{
	if (environment_get(HANDOVER_SDK))
		unsetenv(SDK);
	clear_tool(TOOLS, ':', "/" HANDOVER_AMD_TOOL);
	clear_tool(HSA_TOOLS, ' ', "/" HANDOVER_AMD_HSA_TOOL);
}

/* Removes variables of an earlier `proton` if its target did not get to remove them. */
static void clear_leftovers(void)
{
	if (environment_get(HANDOVER_PID)) { /* set by an outer proton, as are these variables */
		unsetenv(INJECTION);
		clear_amd_tools();
	}
	handover_clear();
}

static bool put_variable(const char *name, const char *value)
{
	return !value || setenv(name, value, 1) == 0;
}

static bool report_failure(bool ok)
{
	if (!ok)
		message("out of memory");
	return ok;
}

bool handover_put_in_front(const char *variable, const char *saved, const char *first)
{
	const char *before = environment_get(variable);
	AUTO_FREE char *joined = NULL;
	bool ok = put_variable(saved, before) &&
		  (!before || !*before || asprintf(&joined, "%s:%s", first, before) > 0);

	ok = ok && put_variable(variable, joined ? joined : first);
	return report_failure(ok);
}

static const char *foreign_injection(void)
{
	const char *path = environment_get(INJECTION);

	return path && *path && !environment_get(HANDOVER_PID) ? path : NULL;
}

bool handover_can_inject(const struct options *options)
{
	if (options->backend && strcasecmp(options->backend, "cupti") != 0)
		return false;
	/* PROTON_CUDA_PATH: the fake libcuda of a test. WSL has /dev/dxg. */
	return !foreign_injection() &&
	       (environment_get("PROTON_CUDA_PATH") || access("/dev/nvidiactl", F_OK) == 0 ||
		access("/dev/dxg", F_OK) == 0);
}

/* An output name as an absolute path, valid in any child; malloc'd, NULL on failure. */
static char *absolute(const char *name)
{
	char *path = NULL;

	if (!name || target_is_standard_output(name))
		name = "proton";
	return target_stem(name, &path, NULL) == PROTON_OK ? path : NULL;
}

static bool put_family(const struct options *options)
{
	AUTO_FREE char *base = options->has_no_children ? NULL : absolute(options->name);
	char pid[16];

	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	return (base || options->has_no_children) && put_variable(HANDOVER_CHILDREN, base) &&
	       put_variable(HANDOVER_PID, pid);
}

bool handover_follow(const struct options *options)
{
	return report_failure(put_family(options) &&
			      put_variable(HANDOVER_GATHER, options->has_no_children ? NULL : "1"));
}

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

/* After the user's tools. rocprofiler-sdk loads the last of several only if a colon follows. */
static bool append_tool(const char *variable, char separator, const char *tool)
{
	const char *before = environment_get(variable);
	char *joined = NULL;

	if (!before || !*before)
		return setenv(variable, tool, 1) == 0;
	bool ok = asprintf(&joined, "%s%c%s%s", before, separator, tool,
			   separator == ':' ? ":" : "") > 0 &&
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

/*
 * Recording programs that use HIP, and their children.
 *
 * - When HIP registers with rocprofiler-sdk, it loads the libraries that ROCP_TOOL_LIBRARIES names:
 *   libproton_rocprofiler.so is added. If no rocprofiler-sdk is there, the variable is left alone,
 *   because ROCm then aborts the program.
 * - For the backend "roctracer": when HIP initializes the HSA runtime, that loads the libraries
 *   that HSA_TOOLS_LIB names: libproton_hsa.so is added. If ROCm's SDK is too old, this tool starts
 *   the session, with the first usable backend.
 *
 * The tools lie next to `library`, libproton_inject.so.
 */
static bool put_amd_tool(const struct options *options, const char *library)
{
	char sdk[PATH_MAX], tool[PATH_MAX];

	if (!amd_library_is_likely())
		return true;
	if (is_wanted(options, "rocprofiler") &&
	    amd_library_find_file(AMD_ROCPROFILER_SDK, library, sdk) &&
	    make_tool_path(library, HANDOVER_AMD_TOOL, tool) && !strchr(tool, ':')) {
		if (!put_family(options) || !append_tool(TOOLS, ':', tool))
			return false;
		/* Wheels have no library of the name that ROCm looks for. */
		return environment_get(SDK) ||
		       (put_variable(SDK, sdk) && put_variable(HANDOVER_SDK, "1"));
	}
	if (!is_wanted(options, "roctracer") ||
	    !amd_library_find_file(AMD_ROCTRACER, library, sdk) ||
	    !make_tool_path(library, HANDOVER_AMD_HSA_TOOL, tool))
		return true;
	return put_family(options) && append_hsa_tool(tool);
}

static bool put_injection(const struct options *options, const char *library)
{
	if (foreign_injection() && !options->is_quiet)
		message(INJECTION " is already set to %s; child processes will not be recorded",
			foreign_injection());
	if (handover_can_inject(options) &&
	    !(put_family(options) && put_variable(INJECTION, library)))
		return false;
	return put_amd_tool(options, library);
}

static bool put_wait(const struct options *options)
{
	const char *after = options->start_after ? options->start_after : "0";
	char *text;

	if (!options->must_wait)
		return true;
	if (!options->start_after && !options->record_for)
		after = "-";
	if ((options->range ? asprintf(&text, "@%s", options->range)
			    : asprintf(&text, "%s %s", after,
				       options->record_for ? options->record_for : "0")) < 0)
		return false;
	bool ok = put_variable(HANDOVER_WAIT, text);
	free(text);
	return ok;
}

bool handover_export(const struct options *options, const char *library, bool must_inject)
{
	const char *viewer = which_viewer();

	clear_leftovers();
	return report_failure(
		put_variable(HANDOVER_NAME, options->name) &&
		put_variable(HANDOVER_BACKEND, options->backend) &&
		put_variable(HANDOVER_CONTEXT, options->context) &&
		put_variable(HANDOVER_MODE, options->mode) &&
		put_variable(HANDOVER_DATA, options->data) &&
		put_variable(HANDOVER_HOOK, options->hook) &&
		put_variable(HANDOVER_FORMAT, options->format) &&
		put_variable(HANDOVER_MEMORY, options->wants_memory ? "1" : NULL) &&
		put_variable(HANDOVER_BACKWARD, options->wants_backward ? "1" : NULL) &&
		put_variable(HANDOVER_MODULES, options->wants_modules ? "1" : NULL) &&
		put_variable(HANDOVER_TORCH_OPS, options->wants_torch_ops ? "1" : NULL) &&
		put_variable(HANDOVER_SHAPES, options->wants_shapes ? "1" : NULL) &&
		put_wait(options) && put_variable(HANDOVER_QUIET, options->is_quiet ? "1" : "0") &&
		put_variable(HANDOVER_VIEWER,
			     strcmp(viewer, "proton-viewer") == 0 ? NULL : viewer) &&
		(!options->no_clobber || put_variable("PROTON_NO_CLOBBER", "1")) &&
		(!options->has_no_nvtx || put_variable("TRITON_ENABLE_NVTX", "0")) &&
		(!library || (options->has_no_children && !must_inject) ||
		 put_injection(options, library)));
}
