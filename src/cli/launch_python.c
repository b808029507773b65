/*
 * Launch of a script or module with the recorder in its interpreter. The interpreter gets exactly
 * the arguments it would get without Proton, which preserves sys.argv, sys.path, __main__,
 * tracebacks, exit status and child processes. The recorder is started by a `sitecustomize` module
 * at the front of PYTHONPATH, which then removes itself (triton_proton/_launch/sitecustomize.py).
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/message.h"
#include "cli/handover.h"
#include "cli/interpreter.h"
#include "cli/proton_options.h"

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
	if (options->kind == TARGET_MODULE)
		argv[used++] = (char *)(uintptr_t) "-m";
	if (options->kind != TARGET_PYTHON)
		argv[used++] = (char *)(uintptr_t)options->target;
	memcpy(argv + used, options->arguments, count * sizeof(*argv));
	return argv;
}

static bool find_interpreter(const struct options *options, struct interpreter *python)
{
	if (options->kind == TARGET_PYTHON)
		return interpreter_use(options->target, python);
	return interpreter_find(options->kind == TARGET_MODULE ? options->target : "", python);
}

void launch_tool(const struct options *options)
{
	struct options module = *options;
	char name[32];
	struct interpreter python;
	char **argv;

	module.kind = TARGET_MODULE;
	snprintf(name, sizeof(name), "triton_proton.%s", options->target);
	module.target = name;
	if (!interpreter_find("", &python))
		return;
	argv = make_argv(&module, python.path);
	if (argv)
		execv(python.path, argv);
	message("cannot run %s: %s", python.path, strerror(errno));
	free(argv);
	interpreter_fini(&python);
}

void launch_python(const struct options *options)
{
	struct interpreter python;
	char *library = NULL;
	char *hook = NULL;
	char **argv = NULL;

	if (!find_interpreter(options, &python))
		goto out;
	if (asprintf(&hook, "%s/_launch", python.package) < 0) {
		hook = NULL;
		goto no_memory;
	}
	if (strchr(hook, ':')) {
		message("cannot start the recorder: the directory %s has a colon in its name, "
			"which PYTHONPATH cannot hold",
			hook);
		goto out;
	}
	if (access(hook, R_OK) != 0) {
		message("the triton_proton in %s does not belong to this proton: it has no "
			"directory _launch",
			python.package);
		goto out;
	}
	argv = make_argv(options, python.path);
	if (!argv)
		goto no_memory;
	library = library_find_in_package(python.package);
	if (!handover_export(options, library, false) ||
	    !handover_put_in_front("PYTHONPATH", HANDOVER_PYTHONPATH, hook) ||
	    setenv(HANDOVER_PYTHON, python.executable, 1) != 0)
		goto out;
	execv(python.path, argv);
	message("cannot run %s: %s", python.path, strerror(errno));
	goto out;
no_memory:
	message("out of memory");
out:
	FREE_ALL(argv, library, hook);
	interpreter_fini(&python);
}
