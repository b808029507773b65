/* Environment variables that pass the options of `proton` to the target and its children. */
#include "cli/handover.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/message.h"
#include "cli/proton_options.h"
#include "format/target.h"

#define INJECTION "CUDA_INJECTION64_PATH"

/* Removes variables of an earlier `proton` if its target did not get to remove them. */
static void clear_leftovers(void)
{
	size_t i = 0;

	if (environment_get(HANDOVER_PID)) { /* set by an outer proton, as are these variables */
		unsetenv(INJECTION);
		handover_amd_clear();
	}

	while (environ && environ[i]) {
		char name[64];
		size_t length = strcspn(environ[i], "=");

		if (strncmp(environ[i], HANDOVER_PREFIX, strlen(HANDOVER_PREFIX)) != 0 ||
		    length >= sizeof(name)) {
			i++;
			continue;
		}
		memcpy(name, environ[i], length);
		name[length] = '\0';
		if (unsetenv(name) != 0)
			i++;
	}
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
	char *joined = NULL;
	bool ok;

	ok = put_variable(saved, before) &&
	     (!before || !*before || asprintf(&joined, "%s:%s", first, before) > 0);
	ok = ok && put_variable(variable, joined ? joined : first);
	free(joined);
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

/* The process id of the target, and the output path of its children. */
static bool put_family(const struct options *options)
{
	char *base = options->has_no_children ? NULL : absolute(options->name);
	char pid[16];
	bool ok;

	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	ok = (base || options->has_no_children) && put_variable(HANDOVER_CHILDREN, base) &&
	     put_variable(HANDOVER_PID, pid);
	free(base);
	return ok;
}

bool handover_follow(const struct options *options)
{
	return report_failure(put_family(options) &&
			      put_variable(HANDOVER_GATHER, options->has_no_children ? NULL : "1"));
}

static bool put_injection(const struct options *options, const char *library)
{
	if (foreign_injection() && !options->is_quiet)
		message(INJECTION " is already set to %s; child processes will not be recorded",
			foreign_injection());
	if (handover_can_inject(options) &&
	    !(put_family(options) && put_variable(INJECTION, library)))
		return false;
	return !handover_amd_can_inject(options, library) ||
	       (put_family(options) && handover_amd_export(options, library));
}

static bool put_wait(const struct options *options)
{
	const char *after = options->start_after ? options->start_after : "0";
	char *text;
	bool ok;

	if (!options->must_wait)
		return true;
	if (!options->start_after && !options->record_for)
		after = "-";
	if ((options->range ? asprintf(&text, "@%s", options->range)
			    : asprintf(&text, "%s %s", after,
				       options->record_for ? options->record_for : "0")) < 0)
		return false;
	ok = put_variable(HANDOVER_WAIT, text);
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
		put_wait(options) && put_variable(HANDOVER_QUIET, options->is_quiet ? "1" : "0") &&
		put_variable(HANDOVER_VIEWER,
			     strcmp(viewer, "proton-viewer") == 0 ? NULL : viewer) &&
		(!options->no_clobber || put_variable("PROTON_NO_CLOBBER", "1")) &&
		(!options->has_no_nvtx || put_variable("TRITON_ENABLE_NVTX", "0")) &&
		(!library || (options->has_no_children && !must_inject) ||
		 put_injection(options, library)));
}
