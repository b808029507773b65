/* symbol/cubin: any bytes; all code that it returns is inside them. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "symbol/cubin.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	struct cubin_section code;
	struct cubin cubin;

	if (cubin_open(&cubin, bytes, length, NULL) != PROTON_OK)
		return 0;
	for (uint32_t i = 0; i < cubin.function_count; i++) {
		const struct cubin_function *function = &cubin.functions[i];
		uint32_t named = cubin_function_find(&cubin, function->name);
		uint32_t placed = cubin_function_at(&cubin, function->section, function->offset);

		if (!cubin_section_get(&cubin, function->section, &code) ||
		    function->offset + function->code_bytes > code.content.length ||
		    strcmp(cubin.functions[named].name, function->name) != 0 ||
		    cubin.functions[placed].offset != function->offset)
			abort();
	}
	cubin_close(&cubin);
	return 0;
}
