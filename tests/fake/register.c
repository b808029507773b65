/*
 * Fake librocprofiler-register. Source: rocprofiler-register 0.5.0 of ROCm 7.0,
 * source/lib/rocprofiler-register/rocprofiler_register.cpp: a library's tables are kept, and given
 * to rocprofiler-sdk if there is a tool: rocprofiler_configure() is visible from here, or one of
 * three variables is set. If the SDK cannot be loaded then, the program is aborted (LOG(FATAL)).
 * tests/python/test_amd_orders.py runs the same over the real library.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HERE __attribute__((visibility("default")))
#define TABLES_MAX 32
#define NO_TOOLS 1
#define DEADLOCK 2 /* a thread is inside */

typedef int (*set_fn)(const char *name, uint64_t version, uint64_t instance, void **tables,
		      uint64_t count);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects the next two */
static struct {
	const char *name;
	uint32_t version;
	void *table;
	bool is_propagated;
} registered[TABLES_MAX];
static size_t count;

static bool is_set(const char *variable)
{
	const char *value = getenv(variable);

	return value && *value && strcmp(value, "0") != 0;
}

static set_fn find_sdk(void)
{
	const char *named = getenv("ROCPROFILER_REGISTER_LIBRARY");
	void *symbol, *library;
	set_fn set;

	if (!dlsym(RTLD_DEFAULT, "rocprofiler_configure") &&
	    !is_set("ROCPROFILER_REGISTER_FORCE_LOAD") && !is_set("ROCP_TOOL_LIBRARIES") &&
	    !(named && *named))
		return NULL;
	symbol = dlsym(RTLD_DEFAULT, "rocprofiler_set_api_table");
	library = symbol ? NULL
			 : dlopen(named && *named ? named : "librocprofiler-sdk.so",
				  RTLD_GLOBAL | RTLD_LAZY);
	if (library)
		symbol = dlsym(library, "rocprofiler_set_api_table");
	if (!symbol) {
		fprintf(stderr, "rocprofiler_set_api_table not found. Tried to dlopen %s\n",
			named && *named ? named : "librocprofiler-sdk.so");
		abort();
	}
	memcpy(&set, &symbol, sizeof(set));
	return set;
}

static int propagate(size_t i)
{
	set_fn set = find_sdk();

	if (!set)
		return NO_TOOLS;
	registered[i].is_propagated = true;
	return set(registered[i].name, registered[i].version, 0, &registered[i].table, 1);
}

HERE int rocprofiler_register_library_api_table(const char *name, uint32_t (*import)(void),
						uint32_t version, void **tables, uint64_t length,
						uint64_t *id);
HERE int rocprofiler_register_invoke_nonpropagated_registrations(void);

HERE int rocprofiler_register_library_api_table(const char *name, uint32_t (*import)(void),
						uint32_t version, void **tables, uint64_t length,
						uint64_t *id)
{
	int status = 3;

	pthread_mutex_lock(&lock);
	if (length < 1 || count == TABLES_MAX)
		goto out;
	registered[count].name = name;
	registered[count].version = version;
	registered[count].table = tables[0];
	*id = count;
	status = propagate(count++);
out:
	pthread_mutex_unlock(&lock);
	return status;
}

/* Since 0.5. */
HERE int rocprofiler_register_invoke_nonpropagated_registrations(void)
{
	if (pthread_mutex_trylock(&lock) != 0)
		return DEADLOCK;
	for (size_t i = 0; i < count; i++)
		if (!registered[i].is_propagated)
			propagate(i);
	pthread_mutex_unlock(&lock);
	return 0;
}
