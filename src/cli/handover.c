/* Options into the environment. See handover.h. */
#include "cli/handover.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/note.h"

/* Leftovers of a `proton` whose target never got to remove them must not mix with ours. */
static void clear_leftovers(void)
{
	size_t i = 0;

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

static bool put(const char *name, const char *value)
{
	return !value || setenv(name, value, 1) == 0;
}

static bool put_in_front(const char *variable, const char *saved, const char *first)
{
	const char *before = getenv(variable);
	char *joined;
	bool ok;

	if (!put(saved, before))
		return false;
	if (!before || before[0] == '\0')
		return put(variable, first);
	if (asprintf(&joined, "%s:%s", first, before) < 0)
		return false;
	ok = put(variable, joined);
	free(joined);
	return ok;
}

bool handover_export(const struct options *options, const char *variable, const char *saved,
		     const char *first)
{
	bool ok;

	clear_leftovers();
	ok = put(HANDOVER_NAME, options->name) && put(HANDOVER_BACKEND, options->backend) &&
	     put(HANDOVER_CONTEXT, options->context) && put(HANDOVER_MODE, options->mode) &&
	     put(HANDOVER_DATA, options->data) && put(HANDOVER_HOOK, options->hook) &&
	     put(HANDOVER_FORMAT, options->format) &&
	     put(HANDOVER_QUIET, options->is_quiet ? "1" : "0") &&
	     (!options->has_no_nvtx || put("TRITON_ENABLE_NVTX", "0")) &&
	     put_in_front(variable, saved, first);
	if (!ok)
		note("out of memory");
	return ok;
}
