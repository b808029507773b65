/*
 * Launch of a program with libproton_inject.so loaded: through LD_PRELOAD before main(), and
 * through CUDA_INJECTION64_PATH when it initializes CUDA. The library removes LD_PRELOAD from the
 * environment before main() runs (inject.c); CUDA_INJECTION64_PATH is for programs that ignore
 * LD_PRELOAD, and remains for the program's children (handover.h).
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/message.h"
#include "cli/handover.h"
#include "cli/library.h"
#include "cli/program.h"
#include "cli/run_target.h"
#include "cli/search.h"

static char *find_program(const char *name)
{
	char *plain;
	char *path = search_path(name, &plain);

	if (!path && plain)
		message("cannot run '%s': it is not an executable file", plain);
	else if (!path)
		message("cannot run '%s': program not found", name);
	free(plain);
	return path;
}

/* False after a message if the library cannot be loaded into the program. */
static bool hand_over(const struct options *options, const char *program, const char *library)
{
	enum program_entry entry = program_check(program, handover_can_inject(options));

	if (entry == PROGRAM_REFUSED)
		return false;
	if (strpbrk(library, ": \t") && entry == PROGRAM_PRELOAD) {
		message("cannot load the recorder: its path '%s' contains a blank or a colon, "
			"which LD_PRELOAD does not allow",
			library);
		return false;
	}
	return handover_export(options, library, entry == PROGRAM_INJECT) &&
	       (entry == PROGRAM_INJECT ||
		(handover_follow(options) &&
		 handover_put_in_front("LD_PRELOAD", HANDOVER_LD_PRELOAD, library)));
}

void launch_program(const struct options *options, const char *library_directory)
{
	char *program = find_program(options->target);
	char *library = program ? library_find(library_directory) : NULL;

	if (library && hand_over(options, program, library)) {
		/* The word before the arguments is the target as typed: argv[0]. */
		execv(program, options->arguments - 1);
		message("cannot run '%s': %s", program, strerror(errno));
	}
	free(library);
	free(program);
}
