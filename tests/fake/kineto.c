/*
 * Fake libtorch_cpu with Kineto, a tool of rocprofiler-sdk. Source: Kineto of 8/2026,
 * libkineto/src/RocprofLogger.cpp: it records dispatches in its own context, and registers
 * itself only if the library is not initialized yet.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "backend/amd/sdk_abi.h"
#include "fake/fake_cupti.h"
#include "fake/kineto.h"

static _Atomic bool is_registered;

static void *find(const char *name)
{
	const char *path = getenv("FAKE_SDK_PATH"); /* PyTorch's library needs it */
	void *library = path ? dlopen(path, RTLD_LAZY | RTLD_GLOBAL) : NULL;
	void *symbol = dlsym(library ? library : RTLD_DEFAULT, name);

	if (!symbol)
		abort();
	return symbol;
}

#define FIND(name, arguments)                                                                      \
	int(*name) arguments;                                                                      \
	memcpy(&name, &(void *){find("rocprofiler_" #name)}, sizeof(name))

static void on_buffer(struct sdk_context context, struct sdk_buffer buffer,
		      struct sdk_record_header **headers, size_t count, void *data,
		      uint64_t dropped)
{
}

static int initialize(sdk_finalize_client_fn finalize, void *data)
{
	struct sdk_context context = {0};
	struct sdk_buffer buffer = {0};
	FIND(create_context, (struct sdk_context *));
	FIND(create_buffer,
	     (struct sdk_context, size_t, size_t, int, sdk_buffer_fn, void *, struct sdk_buffer *));
	FIND(configure_buffer_tracing_service,
	     (struct sdk_context, int, const int32_t *, size_t, struct sdk_buffer));
	FIND(start_context, (struct sdk_context));

	atomic_store(&is_registered,
		     create_context(&context) == 0 &&
			     create_buffer(context, 65536, 60000, SDK_POLICY_LOSSLESS, on_buffer,
					   NULL, &buffer) == 0 &&
			     configure_buffer_tracing_service(context, 11, NULL, 0, buffer) == 0 &&
			     start_context(context) == 0);
	return 0;
}

FAKE_EXPORT struct sdk_configure_result *rocprofiler_configure(uint32_t version, const char *text,
							       uint32_t priority,
							       struct sdk_client *client);

FAKE_EXPORT struct sdk_configure_result *rocprofiler_configure(uint32_t version, const char *text,
							       uint32_t priority,
							       struct sdk_client *client)
{
	static struct sdk_configure_result result = {
		.size = sizeof(result),
		.initialize = initialize,
	};

	client->name = "kineto";
	return &result;
}

FAKE_EXPORT void fake_kineto_start(void)
{
	int status = 0;
	FIND(is_initialized, (int *));
	FIND(force_configure, (sdk_configure_fn));

	is_initialized(&status);
	if (!status)
		force_configure(rocprofiler_configure);
}

FAKE_EXPORT bool fake_kineto_is_registered(void)
{
	return atomic_load(&is_registered);
}
