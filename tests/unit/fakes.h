/* Lookup of the fake libraries (tests/fake) from the environment, and of their functions. */
#pragma once

#include "unit/tap.h"

#include <dlfcn.h>

/* Puts the address of function `name` into the pointer at `slot`. */
static void fake_find(void *slot, void *handle, const char *name)
{
	void *symbol = dlsym(handle, name);

	if (!symbol)
		FAIL("%s", dlerror());
	memcpy(slot, &symbol, sizeof(symbol));
}

/* The library that `variable` names, the one that the recorder will load. */
static void *fake_open(const char *variable)
{
	const char *path = getenv(variable);

	if (!path)
		SKIP("no fake libraries: run by `meson test`");
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		FAIL("%s", dlerror());
	return handle;
}
