/*
 * Output of a view: on the screen, or as the format that was asked for. A pager on a terminal is
 * $PROTON_PAGER, $PAGER or less; if it fails, it changes neither the exit status nor the output.
 */
#include "viewer/export/report_show.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "base/environment.h"
#include "base/message.h"
#include "export/bounds.h"
#include "viewer/export/save.h"
#include "viewer/print/xalloc.h"

#define ROWS_UNKNOWN 24

extern char **environ;

static char shell[] = "sh";
static char shell_option[] = "-c";
static char less[] = "less";

/* The shell command of the pager; NULL: none is set. Empty or "cat": use no pager. */
static char *chosen_command(void)
{
	char *command = environment_get("PROTON_PAGER");

	return command ? command : environment_get("PAGER");
}

/*
 * True if the keyboard belongs to the terminal of standard output: not in the background, and not
 * on a pseudo-terminal of another program (script, tests).
 */
static bool has_keyboard(void)
{
	const char *kind = environment_get("TERM");

	return tcgetpgrp(STDOUT_FILENO) == getpgrp() && kind && *kind && strcmp(kind, "dumb") != 0;
}

/* Lines that the terminal wraps count as one: lines are fitted to its width. */
static bool fits_screen(const char *text, size_t length)
{
	struct winsize size;
	size_t rows = ROWS_UNKNOWN;
	const char *end = text + length;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row)
		rows = size.ws_row;
	for (; text < end && (text = memchr(text, '\n', (size_t)(end - text))) != NULL; text++)
		if (--rows <= 1) /* the last line is for the prompt */
			return false;
	return true;
}

/* Signals from the keyboard, which are meant for the pager. */
static const int own_signals[] = {SIGINT, SIGQUIT};

/*
 * Saves the previous actions in `before`. `defaults` receives the signals that the pager resets to
 * the default action.
 */
static void ignore_keyboard(struct sigaction before[ARRAY_LENGTH(own_signals)], sigset_t *defaults)
{
	struct sigaction ignore = {.sa_handler = SIG_IGN};

	sigemptyset(defaults);
	sigaddset(defaults, SIGPIPE); /* main() ignores it */
	for (size_t i = 0; i < ARRAY_LENGTH(own_signals); i++) {
		sigaction(own_signals[i], &ignore, &before[i]);
		if (before[i].sa_handler != SIG_IGN)
			sigaddset(defaults, own_signals[i]);
	}
}

/* Returns 0 or an error number. */
static int spawn_pager(char *const *argv, int input, const sigset_t *defaults, pid_t *child)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	int errnum;

	if (posix_spawn_file_actions_init(&actions))
		return ENOMEM;
	if (posix_spawnattr_init(&attributes)) {
		posix_spawn_file_actions_destroy(&actions);
		return ENOMEM;
	}
	posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
	posix_spawnattr_setsigdefault(&attributes, defaults);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
	errnum = posix_spawnp(child, argv[0], &actions, &attributes, argv, environ);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	return errnum;
}

static void feed_pager(int pipe_end, const char *text, size_t length)
{
	while (length > 0) {
		ssize_t part = write(pipe_end, text, length);

		if (part < 0 && errno == EINTR)
			continue;
		if (part <= 0)
			return; /* the pager was closed early */
		text += part;
		length -= (size_t)part;
	}
}

/* True if the pager ran and exited successfully. */
static bool spawn_and_feed(char *const *argv, const int ends[2], const sigset_t *defaults,
			   const char *text, size_t length)
{
	int status = -1;
	pid_t child;

	if (ends[0] == STDIN_FILENO || spawn_pager(argv, ends[0], defaults, &child)) {
		close(ends[0]);
		close(ends[1]);
		return false;
	}
	close(ends[0]);
	feed_pager(ends[1], text, length);
	close(ends[1]);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		continue;
	/* 126 and 127 come from the shell; other exit statuses from pagers that failed. */
	return WIFSIGNALED(status) || (WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static bool run_pager(char *const *argv, const char *text, size_t length)
{
	struct sigaction before[ARRAY_LENGTH(own_signals)];
	sigset_t defaults;
	int ends[2];
	bool is_shown;

	if (pipe2(ends, O_CLOEXEC))
		return false;
	ignore_keyboard(before, &defaults);
	is_shown = spawn_and_feed(argv, ends, &defaults, text, length);
	for (size_t i = 0; i < ARRAY_LENGTH(own_signals); i++)
		sigaction(own_signals[i], &before[i], NULL);
	return is_shown;
}

/*
 * Shows text if standard output is a terminal, and waits for the pager to exit. False if the text
 * was not shown: there is no pager, the text fits on the screen, or the pager failed.
 */
static bool pager_show(const char *text, size_t length)
{
	char *command = chosen_command();
	char *chosen[] = {shell, shell_option, command, NULL};
	char *usual[] = {less, NULL};

	if (isatty(STDOUT_FILENO) != 1 || length == 0)
		return false;
	if (command ? !command[strspn(command, " \t")] || strcmp(command, "cat") == 0
		    : !has_keyboard() || fits_screen(text, length))
		return false;
	setenv("LESS", "FRX", 0); /* colors, and exit at once if the text fits */
	setenv("LV", "-c", 0);
	return run_pager(command ? chosen : usual, text, length);
}

struct job {
	const struct options *options;
	report_write_fn *write;
	const void *context;
};

static int write_format(const void *context, struct out *out, struct proton_error *err)
{
	const struct job *job = context;
	const struct exporter *exporter = job->options->output.exporter;
	struct report report = {
		.format = exporter ? exporter->format : REPORT_TEXT,
		.out = out,
		.options = job->options,
		.target = job->options->output.target,
	};

	json_writer_init(&report.json, out, false);
	if (report.format == REPORT_JSON)
		json_begin_object(&report.json);
	job->write(job->context, &report);
	if (report.format == REPORT_JSON) {
		json_end_object(&report.json);
		out_byte(out, '\n');
	}
	return PROTON_OK;
}

/* ------------------------------------------------------------------ text */

/* On a terminal, text is collected before a pager gets it. */
static void begin_text(struct out *out, const struct profile *profile,
		       const struct style_options *style)
{
	bool is_paged = !style->no_pager && isatty(STDOUT_FILENO) == 1;

	out_init(out, is_paged ? -1 : STDOUT_FILENO);
	out->limit = bounds_output(profile);
}

/*
 * Writes the rest and releases `out`. A reader that closes the pipe early (`| head`) is not an
 * error. False: a message was printed.
 */
static bool finish_text(struct out *out, const struct profile *profile)
{
	bool is_over = out_is_over(out);
	struct proton_error err = {0};
	struct out raw = *out;
	bool is_cut_short;
	bool has_failed;

	if (raw.fd < 0) {
		out_init(out, STDOUT_FILENO);
		if (raw.errnum || !pager_show(raw.bytes, raw.length))
			out_bytes(out, raw.bytes, raw.length);
		out->errnum = out->errnum ? out->errnum : raw.errnum;
		out_fini(&raw);
	}
	is_cut_short = out_finish(out, &err) && out->errnum == EPIPE;
	if ((is_over || out_is_over(out)) && !is_cut_short)
		bounds_refuse(profile, &err);
	has_failed = out->errnum && !is_cut_short;
	if (has_failed)
		message("%s", err.text);
	out_fini(out);
	return !has_failed;
}

int report_show_text(const struct options *options, const struct profile *profile,
		     report_write_fn *write, const void *context)
{
	struct out out;

	begin_text(&out, profile, &options->style);
	write(context, &(struct report){.out = &out, .options = options});
	return finish_text(&out, profile) ? 0 : EXIT_BAD;
}

int report_show(const struct options *options, const struct profile *profile,
		report_write_fn *write, const void *context)
{
	const struct job job = {options, write, context};
	struct proton_error err;

	if (!options->output.exporter && !options->output.target)
		return report_show_text(options, profile, write, context);
	if (save_output(&options->output, profile, write_format, &job, &err) == PROTON_OK)
		return 0;
	message("%s", err.text);
	return EXIT_BAD;
}
