/*
 * Registration of the fake libamdhip64, when it is initialized, with librocprofiler-register, of
 * which HIP has one copy per process. Source: clr, hipamd/src/hip_api_trace.cpp and
 * rocr-runtime, core/runtime/hsa_api_trace.cpp (both of ROCm 7.0): the tables of HIP's compiler
 * interface and of HIP, then that of HSA.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake/amd_calls.h"
#include "fake/hip.h"

typedef int (*register_fn)(const char *name, uint32_t (*import)(void), uint32_t version,
			   void **tables, uint64_t count, uint64_t *id);

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The process's copy, the one next to this library, or the loader's. */
static void *open_register(void)
{
	void *library = dlopen("librocprofiler-register.so.0", RTLD_LAZY | RTLD_NOLOAD);
	char path[4096];
	Dl_info here;

	if (library || !dladdr((void *)(uintptr_t)open_register, &here))
		return library;
	snprintf(path, sizeof(path), "%.*s/librocprofiler-register.so.0",
		 (int)(strrchr(here.dli_fname, '/') - here.dli_fname), here.dli_fname);
	library = dlopen(path, RTLD_LAZY);
	return library ? library : dlopen("librocprofiler-register.so.0", RTLD_LAZY);
}

static void initialize(void)
{
	static const char *const names[] = {"hip_compiler", "hip", "hsa"};
	static uint64_t table[64] = {sizeof(table)};
	/* FAKE_HIP_ALONE: as Debian builds it, without librocprofiler-register. */
	void *library = getenv("FAKE_HIP_ALONE") ? NULL : open_register();
	register_fn add;

	find_function(&add, library, "rocprofiler_register_library_api_table");
	for (size_t i = 0; add && i < sizeof(names) / sizeof(names[0]); i++) {
		void *tables[] = {table};
		uint64_t id;

		add(names[i], NULL, 70000, tables, 1, &id);
	}
}

FAKE_EXPORT void fake_hip_initialize(void)
{
	pthread_once(&once, initialize);
}
