/*
 * Prints what src/symbol reads from a cubin. Usage: cubin FILE
 *
 * A line for each function: "function NAME SYMBOL CODE_BYTES REGISTERS STACK SHARED".
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "symbol/cubin.h"

static void print_functions(const struct cubin *cubin)
{
	for (uint32_t i = 0; i < cubin->function_count; i++) {
		const struct cubin_function *function = &cubin->functions[i];

		printf("function %s %" PRIu32 " %" PRIu64 " %" PRIu32 " %" PRIu32 " %" PRIu64 "\n",
		       function->name, function->symbol, function->code_bytes, function->registers,
		       function->stack_bytes, function->shared_bytes);
	}
}

int main(int argc, char **argv)
{
	struct proton_error err = {0};
	struct cubin cubin;
	char *bytes;
	size_t length;

	if (argc != 2 || file_read_all(argv[1], NULL, &bytes, &length, &err) != PROTON_OK ||
	    cubin_open(&cubin, bytes, length, &err) != PROTON_OK) {
		fprintf(stderr, "cubin: %s\n", argc == 2 ? err.text : "usage: cubin FILE");
		return 1;
	}
	print_functions(&cubin);
	cubin_close(&cubin);
	free(bytes);
	return 0;
}
