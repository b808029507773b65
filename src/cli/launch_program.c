/*
 * Launch of a program with libproton_inject.so loaded: through LD_PRELOAD before main(), and
 * through CUDA_INJECTION64_PATH when it initializes CUDA. The library removes LD_PRELOAD from the
 * environment before main() runs (inject.c); CUDA_INJECTION64_PATH is for programs that ignore
 * LD_PRELOAD, and remains for the program's children (handover.h).
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/message.h"
#include "cli/handover.h"
#include "cli/interpreter.h"
#include "cli/proton_options.h"
#include "cli/search.h"

/* ------------------------------------------------------------------ how to load the recorder */

/*
 * Check of how the recorder can be loaded into a program file. Static and privileged programs
 * silently ignore LD_PRELOAD and would produce no profile, so the ELF header and the file mode are
 * checked first. The driver can load the recorder into some of them (CUDA_INJECTION64_PATH), but
 * not into privileged ones, where it would write files with another user's rights.
 */

enum program_entry {
	PROGRAM_REFUSED, /* not at all: a message was printed */
	PROGRAM_PRELOAD, /* by LD_PRELOAD, before main() */
	PROGRAM_INJECT,  /* only by the driver, at CUDA initialization: a message was printed */
};

static enum program_entry inject_or_refuse(const char *path, const char *why, bool can_inject)
{
	if (!can_inject) {
		message("cannot load the recorder into '%s': %s", path, why);
		return PROGRAM_REFUSED;
	}
	message("'%s': %s; recording starts when the program initializes CUDA", path, why);
	return PROGRAM_INJECT;
}

/* Follows `#!` to the interpreter. `can_inject`: the driver would load a library. */
static enum program_entry program_check(const char *path, bool can_inject)
{
	char file[PATH_MAX];

	switch (program_kind(path, file)) {
	case PROGRAM_DYNAMIC:
		return PROGRAM_PRELOAD;
	case PROGRAM_STATIC:
		return inject_or_refuse(file, "it is statically linked", can_inject);
	case PROGRAM_SANITIZED:
		return inject_or_refuse(
			path, "AddressSanitizer must be loaded first, which rules out LD_PRELOAD",
			can_inject);
	case PROGRAM_FOREIGN:
		return inject_or_refuse(file, "it is built for another architecture or word size",
					false);
	case PROGRAM_PRIVILEGED:
		return inject_or_refuse(file,
					"it runs with elevated privileges (setuid, setgid or "
					"capabilities)",
					false);
	case PROGRAM_UNKNOWN:
		message("cannot run '%s': it is neither an executable nor a script with a #! line",
			file);
		break;
	case PROGRAM_UNREADABLE:
		message("cannot run '%s': %s: %s", path, file, strerror(errno));
	}
	return PROGRAM_REFUSED;
}

/* ------------------------------------------------------------------ launch */

static bool find_program(const char *name, char path[PATH_MAX])
{
	switch (search_path(name, path)) {
	case SEARCH_PROGRAM:
		return true;
	case SEARCH_FILE:
		message("cannot run '%s': it is not an executable file", path);
		return false;
	default:
		message("cannot run '%s': program not found", name);
		return false;
	}
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
	char program[PATH_MAX];
	char *library = find_program(options->target, program) ? library_find(library_directory)
							       : NULL;

	if (library && hand_over(options, program, library)) {
		/* The word before the arguments is the target as typed: argv[0]. */
		execv(program, options->arguments - 1);
		message("cannot run '%s': %s", program, strerror(errno));
	}
	free(library);
}
