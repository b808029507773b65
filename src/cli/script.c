/* Kind of the target (script, interpreter, program), and advice for the command line. */
#include "cli/proton_options.h"

#include <errno.h>
#include <stdio.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/message.h"
#include "base/printable.h"
#include "base/strings.h"
#include "cli/search.h"

#define HEAD_BYTES 512

/* python, python3, python3.11, python3.13t, pypy3 */
static bool is_python_name(const char *name)
{
	const char *rest = name;

	if (strncmp(name, "python", 6) == 0)
		rest = name + 6;
	else if (strncmp(name, "pypy", 4) == 0)
		rest = name + 4;
	else
		return false;
	rest += strspn(rest, "0123456789.");
	return *rest == '\0' || strcmp(rest, "t") == 0 || strcmp(rest, "d") == 0;
}

/* ------------------------------------------------------------------ the command to type */

static void add_word(struct out *text, const char *word)
{
	size_t space = 4 * strlen(word) + 16;
	AUTO_FREE char *quoted = malloc(space);

	if (text->length)
		out_byte(text, ' ');
	if (quoted)
		shell_quote(quoted, space, word);
	out_text(text, quoted ? quoted : word);
}

/* PROBLEM: use "proton OPTIONS -- BEFORE TARGET ARGUMENTS", with the user's words. */
static void advise_user(const char *problem, const char *before, const struct options *options,
			const char *target)
{
	AT_END(out_fini) struct out text;
	size_t length;

	out_init(&text, -1);
	add_word(&text, "proton");
	for (size_t i = 0; i < options->option_count; i++)
		add_word(&text, options->options[i]);
	add_word(&text, "--");
	if (before)
		add_word(&text, before);
	add_word(&text, target);
	for (char **word = options->arguments; *word; word++)
		add_word(&text, *word);
	AUTO_FREE char *command = out_take(&text, &length);
	message("%s: use %s", problem, command ? command : "proton -- PROGRAM");
}

/* `before`: the program that runs the target; NULL: it runs itself, from its directory. */
static bool refuse_target(const char *kind, const char *before, const struct options *options)
{
	const char *target = options->target;
	char *problem = NULL, *here = NULL;

	if (!before && !strchr(target, '/') && asprintf(&here, "./%s", target) < 0)
		here = NULL;
	if (asprintf(&problem, "'%s' is %s, not a Python script", target, kind) > 0)
		advise_user(problem, before, options, here ? here : target);
	FREE_ALL(problem, here);
	return false;
}

/* ------------------------------------------------------------------ what a file is */

/* The interpreter in a script's `#!` line; for `env`, the program that it runs. */
static const char *interpreter_of(char *head)
{
	char *word = head + 2;

	head[strcspn(head, "\n")] = '\0';
	word += strspn(word, " \t");
	char *next = word + strcspn(word, " \t");
	if (*next)
		*next++ = '\0';
	if (strcmp(basename(word), "env") != 0)
		return word;
	do {
		next += strspn(next, " \t");
		word = next;
		next += strcspn(next, " \t");
		if (*next)
			*next++ = '\0';
	} while (*word == '-' || strchr(word, '='));
	return word;
}

static bool ends_with(const char *text, const char *end)
{
	size_t length = strlen(text);

	return length >= strlen(end) && strcmp(text + length - strlen(end), end) == 0;
}

/* True unless it is a script of another language, by its `#!` line or its suffix. */
static bool is_for_python(const struct options *options, char *head)
{
	const char *path = options->target;
	const char *shell = "sh";
	bool has_line = strncmp(head, "#!", 2) == 0;
	char *kind;

	/* pip starts scripts with `'''exec' PYTHON "$0"` if the Python's path is long. */
	if (ends_with(path, ".py") || strstr(head, "'''exec'"))
		return true;
	if (has_line)
		shell = interpreter_of(head);
	else if (!ends_with(path, ".sh"))
		return true;
	if (is_python_name(basename(shell)) || !*shell)
		return true;
	if (asprintf(&kind, "a script of %s", shell) < 0)
		return false;
	refuse_target(kind, has_line && access(path, X_OK) == 0 ? NULL : shell, options);
	free(kind);
	return false;
}

static bool check_file(const struct options *options)
{
	const char *path = options->target;
	char head[HEAD_BYTES + 1];
	size_t length;

	if (!search_read_head(path, head, sizeof(head), &length)) {
		message("cannot run '%s': %s", path, strerror(errno));
		return false;
	}
	if (length < 4 || memcmp(head, "\177ELF", 4) != 0)
		return is_for_python(options, head);
	return refuse_target("a program", NULL, options);
}

/* ------------------------------------------------------------------ targets */

/* Interpreter options that prevent the recorder from starting: -I, -E, -S. */
static bool is_deaf(char *const *words)
{
	for (; *words && (*words)[0] == '-' && (*words)[1] && (*words)[1] != '-'; words++) {
		for (const char *letter = *words + 1; *letter; letter++) {
			if (strchr("IES", *letter))
				return true;
			if (*letter == 'c' || *letter == 'm')
				return false; /* the rest belongs to the program */
			if (*letter != 'W' && *letter != 'X')
				continue;
			if (!letter[1] && words[1])
				words++; /* its value */
			break;
		}
	}
	return false;
}

static bool take_python(struct options *options)
{
	if (is_deaf(options->arguments)) {
		message("%s ignores PYTHONPATH (option -I, -E or -S), which proton needs to start "
			"the recorder",
			options->target);
		return false;
	}
	options->kind = TARGET_PYTHON;
	return true;
}

/* The file does not exist: checks for a command on PATH. */
static bool check_command(struct options *options, int why)
{
	const char *name = options->target;
	char *problem = NULL;
	char path[PATH_MAX];

	if (strchr(name, '/') || search_path(name, path) != SEARCH_PROGRAM) {
		message("cannot run '%s': %s%s", name, strerror(why),
			edit_distance(name, "pytest", 1) == 1 ? "; did you mean pytest?" : "");
		return false;
	}
	if (is_python_name(name))
		return take_python(options);
	if (asprintf(&problem, "cannot run '%s': no such script, but there is a program %s", name,
		     path) > 0)
		advise_user(problem, NULL, options, name);
	free(problem);
	return false;
}

/* Checks for a file that Python runs: a script, a directory or zip with a __main__.py. */
bool script_check(struct options *options)
{
	const char *path = options->target;
	struct stat status;

	if (strcmp(path, "-") == 0)
		return true;
	if (stat(path, &status) != 0)
		return check_command(options, errno);
	if (S_ISDIR(status.st_mode)) {
		char inside[4096];

		snprintf(inside, sizeof(inside), "%s/__main__.py", path);
		if (access(inside, R_OK) == 0)
			return true;
		message("cannot run '%s': it is a directory without a __main__.py", path);
		return false;
	}
	if (!S_ISREG(status.st_mode))
		return true; /* a pipe such as /dev/fd/63: reading would consume it */
	if (strchr(path, '/') && is_python_name(basename(path)) && access(path, X_OK) == 0)
		return take_python(options);
	return check_file(options);
}

bool script_check_mode(const struct options *options)
{
	static const char *const modes[] = {"default", "mma", "periodic_flushing", "pcsampling"};
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789_.";
	const char *mode = options->mode;
	const char *target = options->target;

	/* The recorder checks modes; here, only values that must be module names matter. */
	if (!mode || !*mode || *mode == '.' || mode[strspn(mode, letters)])
		return true;
	for (size_t i = 0; i < ARRAY_LENGTH(modes); i++)
		if (strcasecmp(mode, modes[i]) == 0)
			return true;
	if (target && !strchr(mode, '.') && access(target, F_OK) == 0)
		return true;
	message("'%s' is not a mode (-m); to run a module, use: proton --module %s%s%s", mode, mode,
		target ? " " : "", target ? target : "");
	return false;
}
