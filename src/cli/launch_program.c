/*
 * Running any program with libproton_inject.so loaded into it: through LD_PRELOAD, before main(),
 * and through CUDA_INJECTION64_PATH, when it initialises CUDA. The first takes itself out of the
 * environment again before main() runs (inject.c); the second is for programs that LD_PRELOAD
 * does not reach, and stays for the program's children (handover.h).
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/note.h"
#include "cli/handover.h"
#include "cli/launch.h"
#include "cli/library.h"
#include "cli/program.h"
#include "cli/search.h"

static char *find_program(const char *name)
{
	char *plain;
	char *path = search_path(name, &plain);

	if (!path && plain)
		note("cannot run '%s': it is not an executable file", plain);
	else if (!path)
		note("cannot run '%s': there is no such program", name);
	free(plain);
	return path;
}

/* False, and one sentence, if no way leads into the program. */
static bool hand_over(const struct options *options, const char *program, const char *library)
{
	enum program_entry entry = program_check(program, handover_can_inject(options));

	if (entry == PROGRAM_REFUSED)
		return false;
	if (strpbrk(library, ": \t") && entry == PROGRAM_PRELOAD) {
		note("cannot load the recorder: its path '%s' has a blank or a colon, which "
		     "LD_PRELOAD cannot hold",
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
		/* The word before the arguments is the target as the user wrote it: its argv[0]. */
		execv(program, options->arguments - 1);
		note("cannot run '%s': %s", program, strerror(errno));
	}
	free(library);
	free(program);
}
