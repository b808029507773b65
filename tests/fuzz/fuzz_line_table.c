/*
 * symbol/line_table: any bytes as a code object, with PTX after a separator. The runs of a
 * function have no gaps, and each chain of frames ends.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "symbol/code_object.h"
#include "symbol/line_table.h"

#define SEPARATOR "\n//PTX\n"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

static void walk(const struct line_table *table, const char *name)
{
	uint32_t function = line_table_function(table, name);
	struct line_run run;
	uint64_t pc = 0;

	while (line_table_run(table, function, pc, &run)) {
		if (run.begin != pc || run.end <= pc || !run.function ||
		    (run.frame == 0) != (run.info == LINE_INFO_NONE))
			abort();
		for (uint32_t frame = run.frame; frame;) {
			uint32_t caller = line_table_frame(table, frame)->caller;

			if (frame > line_table_frame_count(table) || caller >= frame ||
			    !line_table_frame(table, frame)->file)
				abort();
			frame = caller;
		}
		pc = run.end;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	const uint8_t *separator = memmem(bytes, length, SEPARATOR, strlen(SEPARATOR));
	const char *ptx = separator ? (const char *)separator + strlen(SEPARATOR) : NULL;
	size_t ptx_length = ptx ? length - (size_t)((const uint8_t *)ptx - bytes) : 0;
	struct line_table *table;
	struct code_object object;

	if (code_object_open(&object, bytes, length, NULL) != PROTON_OK)
		return 0;
	/* An ELF file may have bytes after its end, so the text can be in the code object. */
	for (int i = 0; i < 2; i++) {
		if (line_table_open(bytes, length, i ? ptx : NULL, i ? ptx_length : 0, &table,
				    NULL) != PROTON_OK)
			continue;
		for (uint32_t j = 0; j < object.function_count && j < 64; j++)
			walk(table, object.functions[j].name);
		line_table_close(table);
	}
	code_object_close(&object);
	return 0;
}
