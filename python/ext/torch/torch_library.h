/* Exported functions of PyTorch, which are found without its headers and without linking it. */
#ifndef EXT_TORCH_LIBRARY_H
#define EXT_TORCH_LIBRARY_H

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

/* A function by its mangled name, and the pointer that it is stored in. */
struct torch_symbol {
	const char *name;
	void *address;
};

/* Sets the pointers; false at the first function that this PyTorch does not have. */
static inline bool torch_library_find(const struct torch_symbol *symbols, size_t count)
{
	void *library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
	for (size_t i = 0; i < count; i++) {
		void *found = dlsym(library ? library : RTLD_DEFAULT, symbols[i].name);
		if (!found)
			return false;
		memcpy(symbols[i].address, &found, sizeof(found));
	}
	return true;
}

#endif
