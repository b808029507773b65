/* Table of backends: add a backend as a file and an entry here. */
#include "record/backend.h"

#include <stdio.h>
#include <strings.h>

#include <libproton/proton.h>

#include "base/array.h"
#include "base/environment.h"

static const struct backend *const backends[] = {
	&cuda_backend,        /* NVIDIA */
	&rocprofiler_backend, /* AMD, ROCm 7 */
	&roctracer_backend,   /* AMD, ROCm 6 */
	&instrument_backend,  /* only used by name */
	&host_backend,        /* always usable, so it must be last */
};

const struct backend *backend_at(size_t index)
{
	return index < ARRAY_LENGTH(backends) ? backends[index] : NULL;
}

/* `name` NULL: no backend was named, and none is usable. */
static const struct backend *refuse_backend(const char *name, struct proton_error *err)
{
	const struct backend *backend;
	char names[128] = "";

	for (size_t i = 0; (backend = backend_at(i)); i++) {
		size_t used = strlen(names);

		snprintf(names + used, sizeof(names) - used, "%s%s", used ? ", " : "",
			 backend->name);
	}
	if (name)
		err_set(err, PROTON_E_INVALID, "Unknown profiler: %s; available: %s", name, names);
	else
		err_set(err, PROTON_E_INVALID,
			"no backend is usable on this machine; known backends: %s", names);
	return NULL;
}

const struct backend *backend_select(const char *name, struct proton_error *err)
{
	const struct backend *backend;

	if (!name)
		name = environment_get("PROTON_BACKEND");
	if (name && !*name)
		name = NULL;
	for (size_t i = 0; (backend = backend_at(i)); i++)
		if (name ? strcasecmp(backend->name, name) == 0 : backend->is_usable())
			return backend;
	return refuse_backend(name, err);
}

int backend_refuse_mode(const char *backend, const char *mode, struct proton_error *err)
{
	size_t length = strcspn(mode, ":");
	const char *why = "available: periodic_flushing";

	if (length == strlen("pcsampling") && strncasecmp(mode, "pcsampling", length) == 0)
		why = "it is a mode of the backends \"cupti\" and \"rocprofiler\"";
	else if ((length == strlen("default") && strncasecmp(mode, "default", length) == 0) ||
		 (length == strlen("mma") && strncasecmp(mode, "mma", length) == 0))
		why = "it is a mode of the backend \"instrumentation\"";
	return err_set(err, PROTON_E_INVALID, "%s: unsupported mode: %s; %s", backend, mode, why);
}

bool backend_is_interpreting(void)
{
	return environment_is("TRITON_INTERPRET", true);
}

void proton_prepare(void)
{
	const struct backend *backend;

	for (size_t i = 0; (backend = backend_at(i)); i++)
		if (backend->prepare)
			backend->prepare();
}

const char *proton_backend_default(void)
{
	const struct backend *backend = backend_select(NULL, NULL);

	return backend ? backend->name : NULL;
}

const char *proton_backend_name(size_t index)
{
	const struct backend *backend = backend_at(index);

	return backend ? backend->name : NULL;
}
