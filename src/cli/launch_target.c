/*
 * Launch of the target with the recorder in it.
 *
 * - A script or module: the interpreter gets exactly the arguments it would get without Proton,
 *   which preserves sys.argv, sys.path, __main__, tracebacks, exit status and child processes. The
 *   recorder is started by a `sitecustomize` module at the front of PYTHONPATH, which then removes
 *   itself (triton_proton/_launch/sitecustomize.py).
 * - A program: libproton_inject.so is loaded through LD_PRELOAD before main(), and through
 *   CUDA_INJECTION64_PATH when it initializes CUDA. The library removes LD_PRELOAD from the
 *   environment before main() runs (inject.c); CUDA_INJECTION64_PATH is for programs that ignore
 *   LD_PRELOAD, and remains for the program's children (handover.h).
 */
#include <errno.h>
#include <glob.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "base/array.h"
#include "base/environment.h"
#include "base/message.h"
#include "cli/handover.h"
#include "cli/interpreter.h"
#include "cli/proton_options.h"
#include "cli/search.h"

/* ------------------------------------------------------------------ libproton_inject.so */

#define LIBRARY_NAME "libproton_inject.so"

/* Relative to this executable: a build tree, an installation, a Python environment. */
static const char *const library_patterns[] = {
	"",
	"../", /* from the bin directory of the package */
	"../lib*/proton/",
	"../lib/*/proton/",
	"../lib*/python3*/site-packages/triton_proton/",
	"../lib*/python3*/dist-packages/triton_proton/",
};

/* The first readable match of a pattern; malloc'd. */
static char *match_pattern(const char *pattern)
{
	glob_t matches = {0};
	char *path = NULL;

	if (glob(pattern, 0, NULL, &matches) == 0)
		for (size_t i = 0; i < matches.gl_pathc && !path; i++)
			if (access(matches.gl_pathv[i], R_OK) == 0)
				path = realpath(matches.gl_pathv[i], NULL);
	globfree(&matches);
	return path;
}

static char *quote_path(const char *directory)
{
	char *quoted = malloc(2 * strlen(directory) + 1);
	char *end = quoted;

	for (; quoted && *directory; directory++) {
		if (strchr("*?[\\", *directory))
			*end++ = '\\';
		*end++ = *directory;
	}
	if (quoted)
		*end = '\0';
	return quoted;
}

static char *find_next_to(void)
{
	char directory[PATH_MAX];
	AUTO_FREE char *quoted = search_own_directory(directory) ? quote_path(directory) : NULL;
	char *path = NULL;

	for (size_t i = 0; quoted && i < ARRAY_LENGTH(library_patterns) && !path; i++) {
		char *pattern;

		if (asprintf(&pattern, "%s/%s" LIBRARY_NAME, quoted, library_patterns[i]) < 0)
			break;
		path = match_pattern(pattern);
		free(pattern);
	}
	return path;
}

static char *find_in(const char *directory)
{
	char *path;

	if (!directory || asprintf(&path, "%s/" LIBRARY_NAME, directory) < 0)
		return NULL;
	if (access(path, R_OK) == 0)
		return path;
	free(path);
	return NULL;
}

/* In a Python package's directory, or as above. NULL without a message if there is none. */
static char *find_in_package(const char *package)
{
	const char *named = environment_get("PROTON_INJECT_LIB");
	char *path = named && *named ? realpath(named, NULL) : find_in(package);

	return path ? path : find_next_to();
}

/*
 * $PROTON_INJECT_LIB, else next to this executable, else in `library_directory` (where the build
 * installs it; NULL if unknown), else in the package of a Python that is found. The path, malloc'd;
 * NULL after a message if there is none.
 */
static char *find_library(const char *library_directory)
{
	const char *named = environment_get("PROTON_INJECT_LIB");
	struct interpreter python;
	char *path;

	if (named && named[0] != '\0') {
		path = realpath(named, NULL);
		if (!path)
			message("cannot use PROTON_INJECT_LIB='%s': %s", named, strerror(errno));
		return path;
	}
	path = find_next_to();
	if (!path)
		path = find_in(library_directory);
	if (path)
		return path;
	/* Ask a Python that keeps its packages elsewhere. */
	if (!interpreter_find("", &python))
		return NULL;
	path = find_in(python.package);
	if (!path)
		message("cannot find " LIBRARY_NAME "; set PROTON_INJECT_LIB to its path");
	return path;
}

/* ------------------------------------------------------------------ Python */

static size_t count_words(char *const *words)
{
	size_t count = 0;

	while (words[count])
		count++;
	return count;
}

/* python [[-m] target] arguments...; borrows the strings, the array is malloc'd. */
static char **make_argv(const struct options *options, const char *python)
{
	size_t count = count_words(options->arguments);
	char **argv = calloc(count + 4, sizeof(*argv));
	size_t used = 0;

	if (!argv)
		return NULL;
	argv[used++] = (char *)(uintptr_t)python;
	if (options->kind == TARGET_MODULE || options->kind == TARGET_TOOL)
		argv[used++] = (char *)(uintptr_t) "-m";
	if (options->kind != TARGET_PYTHON)
		argv[used++] = (char *)(uintptr_t)options->target;
	memcpy(argv + used, options->arguments, count * sizeof(*argv));
	return argv;
}

void launch_tool(const struct options *options)
{
	struct interpreter python;

	if (!interpreter_find("", &python))
		return;
	char **argv = make_argv(options, python.path);
	if (argv)
		execv(python.path, argv);
	message("cannot run %s: %s", python.path, strerror(errno));
	free(argv);
}

void launch_python(const struct options *options)
{
	struct interpreter python;
	char hook[PATH_MAX + 16];

	if (options->kind == TARGET_PYTHON
		    ? !interpreter_use(options->target, &python)
		    : !interpreter_find(options->kind == TARGET_MODULE ? options->target : "",
					&python))
		return;
	snprintf(hook, sizeof(hook), "%s/_launch", python.package);
	if (strchr(hook, ':')) {
		message("cannot start the recorder: the directory %s has a colon in its name, "
			"which PYTHONPATH cannot hold",
			hook);
		return;
	}
	if (access(hook, R_OK) != 0) {
		message("the triton_proton in %s does not belong to this proton: it has no "
			"directory _launch",
			python.package);
		return;
	}
	char **argv = make_argv(options, python.path);
	char *library = find_in_package(python.package);
	if (!argv) {
		message("out of memory");
	} else if (handover_export(options, library, false) &&
		   handover_put_in_front("PYTHONPATH", HANDOVER_PYTHONPATH, hook) &&
		   setenv(HANDOVER_PYTHON, python.executable, 1) == 0) {
		execv(python.path, argv);
		message("cannot run %s: %s", python.path, strerror(errno));
	}
	FREE_ALL(argv, library);
}

/* ------------------------------------------------------------------ programs */

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

/* Follows `#!` to the interpreter. `can_inject`: the driver would load a library. */
static enum program_entry program_check(const char *path, bool can_inject)
{
	static const char *const reasons[] = {
		[PROGRAM_STATIC] = "it is statically linked",
		[PROGRAM_SANITIZED] =
			"AddressSanitizer must be loaded first, which rules out LD_PRELOAD",
		[PROGRAM_FOREIGN] = "it is built for another architecture or word size",
		[PROGRAM_PRIVILEGED] =
			"it runs with elevated privileges (setuid, setgid or capabilities)",
	};
	char file[PATH_MAX];
	enum program_kind kind = program_kind(path, file);
	const char *named = kind == PROGRAM_SANITIZED ? path : file;

	if (kind == PROGRAM_DYNAMIC)
		return PROGRAM_PRELOAD;
	if (kind == PROGRAM_UNKNOWN) {
		message("cannot run '%s': it is neither an executable nor a script with a #! line",
			file);
	} else if (kind == PROGRAM_UNREADABLE) {
		message("cannot run '%s': %s: %s", path, file, strerror(errno));
	} else if (can_inject && (kind == PROGRAM_STATIC || kind == PROGRAM_SANITIZED)) {
		message("'%s': %s; recording starts when the program initializes CUDA", named,
			reasons[kind]);
		return PROGRAM_INJECT;
	} else {
		message("cannot load the recorder into '%s': %s", named, reasons[kind]);
	}
	return PROGRAM_REFUSED;
}

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
	AUTO_FREE char *library =
		find_program(options->target, program) ? find_library(library_directory) : NULL;

	if (library && hand_over(options, program, library)) {
		/* The word before the arguments is the target as typed: argv[0]. */
		execv(program, options->arguments - 1);
		message("cannot run '%s': %s", program, strerror(errno));
	}
}
