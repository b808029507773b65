/* symbol/code_object: any bytes; all code that it returns is inside them. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "symbol/code_object.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	struct code_object_section code;
	struct code_object object;

	if (code_object_open(&object, bytes, length, NULL) != PROTON_OK)
		return 0;
	for (uint32_t i = 0; i < object.function_count; i++) {
		const struct code_object_function *function = &object.functions[i];
		uint32_t named = code_object_function_find(&object, function->name);
		uint32_t placed =
			code_object_function_at(&object, function->section, function->offset);

		if (!code_object_section_get(&object, function->section, &code) ||
		    function->offset + function->code_bytes > code.content.length ||
		    strcmp(object.functions[named].name, function->name) != 0 ||
		    object.functions[placed].offset != function->offset)
			abort();
	}
	code_object_close(&object);
	return 0;
}
