/*
 * Prints what src/symbol reads from a code object, in columns separated by tabs.
 * Usage: code_object FILE [PTX], or code_object --sass FILE, or code_object --causes FILE
 *
 * function NAME SYMBOL CODE_BYTES REGISTERS STACK SHARED
 * run NAME BEGIN END INFO FUNCTION FRAME..., each frame as FILE:LINE:COLUMN:FUNCTION
 * sass NAME OFFSET TEXT
 * causes NAME OFFSET WAIT OFFSET..., WAIT as in sass_causes.h
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "symbol/code_object.h"
#include "symbol/line_table.h"
#include "symbol/sass.h"
#include "symbol/sass_causes.h"

static void print_run(const struct line_table *table, const char *name, const struct line_run *run)
{
	printf("run\t%s\t%" PRIu64 "\t%" PRIu64 "\t%d\t%s", name, run->begin, run->end,
	       (int)run->info, run->function);
	for (uint32_t i = run->frame; i; i = line_table_frame(table, i)->caller) {
		const struct line_frame *frame = line_table_frame(table, i);

		printf("\t%s:%" PRIu32 ":%" PRIu32 ":%s", frame->file, frame->line, frame->column,
		       frame->function ? frame->function : "");
	}
	putchar('\n');
}

static void print_functions(const struct code_object *object, const struct line_table *table)
{
	struct line_run run;

	for (uint32_t i = 0; i < object->function_count; i++) {
		const struct code_object_function *function = &object->functions[i];
		uint32_t number = line_table_function(table, function->name);

		printf("function\t%s\t%" PRIu32 "\t%" PRIu64 "\t%" PRIu32 "\t%" PRIu32 "\t%" PRIu64
		       "\n",
		       function->name, function->symbol, function->code_bytes, function->registers,
		       function->stack_bytes, function->shared_bytes);
		for (uint64_t pc = 0; line_table_run(table, number, pc, &run); pc = run.end)
			print_run(table, function->name, &run);
	}
}

static void print_causes(const struct sass *sass, uint32_t number, const char *name)
{
	struct sass_causes *causes;
	struct proton_error err;

	if (sass_causes_open(sass, number, &causes, &err) != PROTON_OK)
		return;
	for (uint64_t pc = 0; sass_at(sass, number, pc); pc += SASS_BYTES) {
		for (int wait = SASS_WAIT_NONE; wait < SASS_WAITS; wait++) {
			const uint32_t *pcs;
			size_t count = sass_causes_of(causes, pc, (enum sass_wait)wait, &pcs);

			if (count)
				printf("causes\t%s\t%" PRIu64 "\t%d", name, pc, wait);
			for (size_t i = 0; i < count; i++)
				printf("\t%" PRIu32, pcs[i]);
			printf(count ? "\n" : "");
		}
	}
	sass_causes_close(causes);
}

static int print_sass(const struct code_object *object, bool wants_causes)
{
	struct proton_error err;
	struct sass *sass;

	if (sass_open(object->file.bytes, object->file.length, NULL, 0, &sass, &err) != PROTON_OK) {
		fprintf(stderr, "code_object: %s\n", err.text);
		return 1;
	}
	for (uint32_t i = 0; i < object->function_count; i++) {
		const struct code_object_function *function = &object->functions[i];
		uint32_t number = sass_function(sass, function->name);

		if (wants_causes)
			print_causes(sass, number, function->name);
		for (uint64_t pc = 0; pc < function->code_bytes && !wants_causes; pc++) {
			const char *text = sass_at(sass, number, pc);

			if (text)
				printf("sass\t%s\t%" PRIu64 "\t%s\n", function->name, pc, text);
		}
	}
	sass_close(sass);
	return 0;
}

static char *read_or_exit(const char *path, size_t *length)
{
	struct proton_error err;
	char *bytes;

	if (file_read_all(path, NULL, &bytes, length, &err) == PROTON_OK)
		return bytes;
	fprintf(stderr, "code_object: %s\n", err.text);
	exit(1);
}

int main(int argc, char **argv)
{
	bool wants_causes = argc == 3 && strcmp(argv[1], "--causes") == 0;
	bool is_sass = wants_causes || (argc == 3 && strcmp(argv[1], "--sass") == 0);
	struct proton_error err;
	struct line_table *table;
	struct code_object object;
	char *bytes, *ptx;
	size_t length, ptx_length = 0;
	int status = 0;

	if (argc != 2 && argc != 3)
		return 2;
	bytes = read_or_exit(argv[1 + is_sass], &length);
	ptx = argc == 3 && !is_sass ? read_or_exit(argv[2], &ptx_length) : NULL;
	if (code_object_open(&object, bytes, length, &err) != PROTON_OK ||
	    line_table_open(bytes, length, ptx, ptx_length, &table, &err) != PROTON_OK) {
		fprintf(stderr, "code_object: %s\n", err.text);
		return 1;
	}
	if (is_sass)
		status = print_sass(&object, wants_causes);
	else
		print_functions(&object, table);
	line_table_close(table);
	code_object_close(&object);
	free(bytes);
	free(ptx);
	return status;
}
