/*
 * symbol/sass: a cubin, a separator, and any bytes as the disassembler's output for it. Text of an
 * instruction has one line, and only an offset inside its function has one.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "symbol/code_object.h"
#include "symbol/sass.h"

#define SEPARATOR "\n//SASS\n"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

static void check(const struct sass *sass, const struct code_object_function *function)
{
	uint32_t index = sass_function(sass, function->name);
	uint64_t end = function->code_bytes < 65536 ? function->code_bytes : 65536;

	if (index == SASS_FUNCTION_NONE)
		abort();
	for (uint64_t pc = 0; pc < end; pc++) {
		const char *text = sass_at(sass, index, pc);

		if (text && (!*text || strchr(text, '\n')))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	const uint8_t *separator = memmem(bytes, length, SEPARATOR, strlen(SEPARATOR));
	const char *text = separator ? (const char *)separator + strlen(SEPARATOR) : "";
	size_t cubin_length = separator ? (size_t)(separator - bytes) : length;
	size_t text_length = separator ? length - cubin_length - strlen(SEPARATOR) : 0;
	struct code_object cubin;
	struct sass *sass;

	if (code_object_open(&cubin, bytes, cubin_length, NULL) != PROTON_OK)
		return 0;
	if (sass_open_text(bytes, cubin_length, text, text_length, &sass, NULL) != PROTON_OK)
		abort();
	for (uint32_t i = 0; i < cubin.function_count && i < 16; i++)
		check(sass, &cubin.functions[i]);
	if (sass_at(sass, SASS_FUNCTION_NONE, 0) || sass_at(sass, cubin.function_count, 0))
		abort();
	sass_close(sass);
	code_object_close(&cubin);
	return 0;
}
