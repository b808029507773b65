/*
 * Selection of the Python interpreter for the target. Each candidate first runs a short probe
 * script that imports nothing of Proton (about 20 ms): it checks that the package is installed and
 * that the interpreter honors PYTHONPATH, through which the recorder is started (launch_target.c).
 */
#include "cli/interpreter.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "base/environment.h"
#include "base/message.h"
#include "cli/search.h"

/*
 * Answers on descriptor argv[1] instead of standard output, which start-up files may use: three
 * NUL-terminated fields: verdict, sys.executable, package directory. The working directory counts
 * for the module (as with `python -m`) but not for the package, because a script's start-up does
 * not search it either.
 */
static const char probe_text[] =
	"import os, sys\n"
	"def have(name):\n"
	"    try:\n"
	"        return importlib.util.find_spec(name)\n"
	"    except Exception:\n"
	"        return None\n"
	"verdict, home = 'old', ''\n"
	"if sys.version_info >= (3, 10):\n"
	"    import importlib.util\n"
	"    here = sys.path.pop(0) if sys.path and sys.path[0] == '' else None\n"
	"    spec = have('triton_proton')\n"
	"    if here is not None:\n"
	"        sys.path.insert(0, here)\n"
	"    if spec is None or not spec.origin:\n"
	"        verdict = 'missing'\n"
	"    elif sys.flags.ignore_environment or sys.flags.no_site:\n"
	"        verdict = 'deaf'\n"
	"    elif sys.argv[2] and have(sys.argv[2].partition('.')[0]) is None:\n"
	"        verdict = 'module'\n"
	"    else:\n"
	"        verdict, home = 'good', os.path.dirname(os.path.abspath(spec.origin))\n"
	"answer = [verdict, sys.executable or '', home, '']\n"
	"os.write(int(sys.argv[1]), b'\\0'.join(map(os.fsencode, answer)))\n";

static void run_probe(const char *python, const char *module, int answer_fd)
{
	char fd_text[16];
	char *const argv[] = {(char *)(uintptr_t)python,     (char *)(uintptr_t) "-c",
			      (char *)(uintptr_t)probe_text, fd_text,
			      (char *)(uintptr_t)module,     NULL};
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int fd = STDIN_FILENO; null >= 0 && fd <= STDERR_FILENO; fd++)
		dup2(null, fd);
	snprintf(fd_text, sizeof(fd_text), "%d", answer_fd);
	execv(python, argv);
	_exit(127);
}

static int start_errno; /* why no interpreter could be started */

/* Runs the probe; true with the terminated answer in `answer` if the interpreter gave one. */
static bool ask_python(const char *python, const char *module, char *answer, size_t capacity)
{
	size_t length = 0;
	int fds[2], status;

	if (pipe(fds) != 0) {
		start_errno = errno;
		return false;
	}
	pid_t pid = fork();
	if (pid < 0)
		start_errno = errno;
	if (pid == 0) {
		close(fds[0]);
		run_probe(python, module, fds[1]);
	}
	close(fds[1]);
	while (pid > 0) {
		ssize_t got = read(fds[0], answer + length, capacity - 1 - length);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		length += (size_t)got;
	}
	close(fds[0]);
	answer[length] = '\0';
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		continue;
	return pid > 0 && length > 0 && answer[length - 1] == '\0';
}

enum verdict {
	VERDICT_GOOD,
	VERDICT_BROKEN, /* did not answer */
	VERDICT_OLD,
	VERDICT_MISSING,
	VERDICT_DEAF,
	VERDICT_MODULE,
};

static const char *const verdict_names[] = {"good", "", "old", "missing", "deaf", "module"};

static void copy_path(char to[PATH_MAX], const char *from)
{
	snprintf(to, PATH_MAX, "%s", from);
}

static enum verdict judge_answer(const char *path, const char *module,
				 struct interpreter *interpreter)
{
	char answer[3 * PATH_MAX] = "";
	enum verdict verdict = VERDICT_BROKEN;

	if (!ask_python(path, module, answer, sizeof(answer)))
		return VERDICT_BROKEN;
	for (size_t i = 0; i < ARRAY_LENGTH(verdict_names); i++)
		if (strcmp(answer, verdict_names[i]) == 0)
			verdict = (enum verdict)i;
	/* The last byte is a NUL; the fields of a truncated answer are empty strings. */
	const char *executable = answer + strlen(answer) + 1;
	copy_path(interpreter->path, path);
	copy_path(interpreter->executable, executable);
	copy_path(interpreter->package, executable + strlen(executable) + 1);
	return verdict;
}

static void explain(enum verdict verdict, const char *python, const char *module)
{
	switch (verdict) {
	case VERDICT_GOOD:
		break;
	case VERDICT_BROKEN:
		if (start_errno)
			message("cannot start %s: %s", python, strerror(start_errno));
		else
			message("%s is not a working Python interpreter; set PROTON_PYTHON to a "
				"Python with triton_proton",
				python);
		break;
	case VERDICT_OLD:
		message("%s is too old: triton_proton needs Python 3.10 or later", python);
		break;
	case VERDICT_MISSING:
		message("triton_proton is not installed for %s; install it with pip, or set "
			"PROTON_PYTHON to a Python that has it",
			python);
		break;
	case VERDICT_DEAF:
		message("%s ignores PYTHONPATH (option -I, -E or -S), which proton needs to start "
			"the recorder",
			python);
		break;
	case VERDICT_MODULE:
		message("%s has no module named '%s'", python, module);
		break;
	}
}

/* The directory of this program's Python; a package's copy belongs to the one in PREFIX/bin. */
static bool python_directory(char path[PATH_MAX])
{
	static const char in_package[] = "/triton_proton/bin";
	static const char above[] = "/../../../../../bin";
	char own[PATH_MAX];

	if (!search_own_directory(own))
		return false;
	size_t length = strlen(own);
	if (length + sizeof(above) > sizeof(own) || length < sizeof(in_package) ||
	    strcmp(own + length - sizeof(in_package) + 1, in_package) != 0) {
		memcpy(path, own, sizeof(own));
		return true;
	}
	memcpy(own + length, above, sizeof(above));
	return realpath(own, path) != NULL;
}

/* The candidates in order of preference, at most two for each name. */
static size_t list_candidates(char paths[4][PATH_MAX])
{
	static const char *const names[] = {"python3", "python"};
	char directory[PATH_MAX];
	size_t count = 0;

	for (size_t i = 0; python_directory(directory) && i < ARRAY_LENGTH(names); i++)
		if (snprintf(paths[count], PATH_MAX, "%s/%s", directory, names[i]) < PATH_MAX)
			count += search_is_program(paths[count]);
	for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
		count += search_path(names[i], paths[count]) == SEARCH_PROGRAM;
	return count;
}

static bool use_python(const char *name, const char *what, const char *module,
		       struct interpreter *found)
{
	char path[PATH_MAX];

	if (search_path(name, path) != SEARCH_PROGRAM) {
		message("cannot run %s'%s': program not found", what, name);
		return false;
	}
	enum verdict verdict = judge_answer(path, module, found);
	explain(verdict, path, module);
	return verdict == VERDICT_GOOD;
}

bool interpreter_use(const char *name, struct interpreter *found)
{
	return use_python(name, "", "", found);
}

bool interpreter_find(const char *module, struct interpreter *found)
{
	const char *named = environment_get("PROTON_PYTHON");
	enum verdict best = VERDICT_GOOD; /* the most informative failure */
	char paths[4][PATH_MAX];
	size_t best_path = 0;

	if (named && named[0] != '\0')
		return use_python(named, "PROTON_PYTHON=", module, found);
	size_t count = list_candidates(paths);
	for (size_t i = 0; i < count; i++) {
		enum verdict verdict = judge_answer(paths[i], module, found);

		if (verdict == VERDICT_GOOD)
			return true;
		if (verdict > best) {
			best = verdict;
			best_path = i;
		}
	}
	if (count)
		explain(best, paths[best_path], module);
	else
		message("no python3 on PATH; set PROTON_PYTHON to the Python that has "
			"triton_proton");
	return false;
}
