/*
 * symbol/sass: a cubin, a separator, and any bytes as the disassembler's output for it. Text of an
 * instruction has one line, and only an offset inside its function has one. Causes are in order and
 * inside the function.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "symbol/code_object.h"
#include "symbol/sass_causes.h"

#define SEPARATOR "\n//SASS\n"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

/* A damaged cubin may have several functions of one name; the name finds one of them. */
static void check(const struct sass *sass, uint32_t index,
		  const struct code_object_function *function)
{
	uint64_t end = function->code_bytes < 65536 ? function->code_bytes : 65536;

	if (sass_function(sass, function->name) == SASS_FUNCTION_NONE)
		abort();
	for (uint64_t pc = 0; pc < end; pc++) {
		const char *text = sass_at(sass, index, pc);

		if (text && (!*text || strchr(text, '\n')))
			abort();
	}
}

static void check_causes(const struct sass *sass, uint32_t index,
			 const struct code_object_function *function)
{
	struct sass_causes *causes;

	if (sass_causes_open(sass, index, &causes, NULL) != PROTON_OK)
		abort();
	for (uint32_t i = 0; i < 64 * SASS_WAITS; i++) {
		const uint32_t *pcs;
		size_t count = sass_causes_of(causes, i / SASS_WAITS * SASS_BYTES,
					      (enum sass_wait)(i % SASS_WAITS), &pcs);

		for (size_t k = 0; k < count; k++)
			if (pcs[k] >= function->code_bytes || (k && pcs[k] <= pcs[k - 1]))
				abort();
	}
	sass_causes_close(causes);
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
	if (sass_open(bytes, cubin_length, text, text_length, &sass, NULL) != PROTON_OK)
		abort();
	for (uint32_t i = 0; i < cubin.function_count && i < 16; i++)
		check(sass, i, &cubin.functions[i]);
	for (uint32_t i = 0; i < cubin.function_count && i < 16; i++)
		check_causes(sass, i, &cubin.functions[i]);
	if (sass_at(sass, SASS_FUNCTION_NONE, 0) || sass_at(sass, cubin.function_count, 0))
		abort();
	sass_close(sass);
	code_object_close(&cubin);
	return 0;
}
