/*
 * Output of the viewer: a temporary file that is renamed when complete, and removed by signals, or
 * the screen. A pager on a terminal is $PROTON_PAGER, $PAGER or less; if it fails, it changes
 * neither the exit status nor the output.
 */
#include "viewer/export/save.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "base/environment.h"
#include "base/message.h"
#include "base/replace.h"
#include "export/bounds.h"
#include "viewer/print/printable_text.h"
#include "viewer/print/progress.h"
#include "viewer/print/xalloc.h"

#define ROWS_UNKNOWN 24

extern char **environ;

struct save {
	struct out *out; /* to write to */
	struct file_replace file;
	struct out direct; /* standard output, or a file that is not regular, such as a pipe */
	int terminal; /* that `direct` writes to; text is collected and cleaned first; -1: none */
	bool is_direct;
	char *path; /* of a file that is opened directly; NULL: standard output */
};

/* Signals that end the program on request. */
static const int ending_signals[] = {SIGINT, SIGTERM, SIGHUP};

/* The temporary file that a signal handler removes; NULL: none. */
static char *volatile temporary;

static void remove_and_end(int number)
{
	if (temporary)
		unlink(temporary);
	signal(number, SIG_DFL);
	raise(number);
}

static void watch_signals(void)
{
	for (size_t i = 0; i < ARRAY_LENGTH(ending_signals); i++) {
		struct sigaction action;

		/* The parent may have set the signal to be ignored (nohup). */
		if (sigaction(ending_signals[i], NULL, &action) || action.sa_handler == SIG_IGN)
			continue;
		action = (struct sigaction){.sa_handler = remove_and_end};
		sigaction(ending_signals[i], &action, NULL);
	}
}

/* Blocks the signals while the temporary file and `temporary` change together. */
static sigset_t hold_signals(void)
{
	sigset_t held, before;

	sigemptyset(&held);
	for (size_t i = 0; i < ARRAY_LENGTH(ending_signals); i++)
		sigaddset(&held, ending_signals[i]);
	sigprocmask(SIG_BLOCK, &held, &before);
	return before;
}

static int begin_file(struct save *save, const char *path, bool no_clobber,
		      struct proton_error *err)
{
	watch_signals();
	sigset_t before = hold_signals();
	int status = file_replace_begin(&save->file, path, err);
	if (status == PROTON_OK)
		temporary = strdup(save->file.temporary);
	if (status == PROTON_OK && !temporary) {
		file_replace_abandon(&save->file);
		status = err_errno(err, ENOMEM, "cannot write %s", path);
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (status == PROTON_OK)
		file_replace_clean(save->file.path);
	save->file.is_exclusive = no_clobber;
	save->out = &save->file.out;
	return status;
}

static int begin_direct(struct save *save, struct proton_error *err)
{
	int fd = save->path ? open(save->path, O_WRONLY | O_CLOEXEC) : STDOUT_FILENO;

	if (fd < 0)
		return err_errno(err, errno, "cannot write %s", save->path);
	save->is_direct = true;
	save->terminal = isatty(fd) == 1 ? fd : -1;
	out_init(&save->direct, save->terminal < 0 ? fd : -1);
	save->out = &save->direct;
	return PROTON_OK;
}

static void save_fini(struct save *save)
{
	char *name = temporary;

	temporary = NULL;
	free(name);
	if (save->is_direct) {
		if (save->path)
			close(save->terminal < 0 ? save->direct.fd : save->terminal);
		out_fini(&save->direct);
	}
	free(save->path);
	*save = (struct save){0};
}

/* True if `path` is already open as standard output, for example /dev/stdout. */
static bool is_standard_output(const struct stat *info)
{
	struct stat standard;

	return fstat(STDOUT_FILENO, &standard) == 0 && standard.st_dev == info->st_dev &&
	       standard.st_ino == info->st_ino;
}

static int begin_output(struct save *save, const struct output_options *output,
			struct proton_error *err)
{
	const char *path = output->path;
	struct stat info;
	int status;

	*save = (struct save){.out = output->target ? output->target->out : NULL};
	if (save->out)
		return PROTON_OK;
	if (!path)
		return begin_direct(save, err);
	if (stat(path, &info) != 0 || (S_ISREG(info.st_mode) && !is_standard_output(&info))) {
		status = begin_file(save, path, output->no_clobber, err);
	} else {
		if (!is_standard_output(&info))
			save->path = xstrdup(path);
		status = begin_direct(save, err);
	}
	if (status)
		save_fini(save);
	return status;
}

/* Names in any format may contain terminal escape sequences. */
static void clean_for_terminal(struct save *save)
{
	AT_END(out_fini) struct out raw = save->direct;

	out_init(&save->direct, save->terminal);
	text_clean_lines(&save->direct, raw.bytes, raw.length);
	save->direct.errnum = save->direct.errnum ? save->direct.errnum : raw.errnum;
}

static int commit_output(struct save *save, struct proton_error *err)
{
	if (save->out == &save->file.out)
		return file_replace_commit(&save->file, err);
	if (!save->is_direct)
		return out_finish(save->out, err);
	if (save->terminal >= 0)
		clean_for_terminal(save);
	int status = out_finish(&save->direct, err);
	return status && save->direct.errnum == EPIPE ? PROTON_OK : status;
}

int save_output(const struct output_options *output, const struct profile *profile,
		save_write_fn *write, const void *context, struct proton_error *err)
{
	struct save save;
	int status = begin_output(&save, output, err);

	if (status)
		return status;
	save.out->limit = bounds_output(profile);
	if (!output->target)
		progress_begin("writing", output->path ? output->path : "standard output");
	status = write(context, save.out, err);
	if (out_is_over(save.out))
		status = bounds_refuse(profile, err);
	if (status == PROTON_OK)
		status = commit_output(&save, err);
	else if (save.out == &save.file.out)
		file_replace_abandon(&save.file);
	save_fini(&save);
	if (!output->target)
		progress_end();
	return status;
}

/* ------------------------------------------------------------------ pager */

static char shell[] = "sh";
static char shell_option[] = "-c";
static char less[] = "less";

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

	if (posix_spawn_file_actions_init(&actions))
		return ENOMEM;
	if (posix_spawnattr_init(&attributes)) {
		posix_spawn_file_actions_destroy(&actions);
		return ENOMEM;
	}
	posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
	posix_spawnattr_setsigdefault(&attributes, defaults);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
	int errnum = posix_spawnp(child, argv[0], &actions, &attributes, argv, environ);
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

	if (pipe2(ends, O_CLOEXEC))
		return false;
	ignore_keyboard(before, &defaults);
	bool is_shown = spawn_and_feed(argv, ends, &defaults, text, length);
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
	/* The shell command of the pager; NULL: none is set. Empty or "cat": use no pager. */
	char *command = environment_get("PROTON_PAGER") ?: environment_get("PAGER");
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

/*
 * Writes the rest and releases `out`. A reader that closes the pipe early (`| head`) is not an
 * error. False: a message was printed.
 */
static bool finish_text(struct out *out, const struct profile *profile)
{
	bool is_over = out_is_over(out);
	struct proton_error err = {0};
	struct out raw = *out;

	if (raw.fd < 0) {
		out_init(out, STDOUT_FILENO);
		if (raw.errnum || !pager_show(raw.bytes, raw.length))
			out_bytes(out, raw.bytes, raw.length);
		out->errnum = out->errnum ? out->errnum : raw.errnum;
		out_fini(&raw);
	}
	bool is_cut_short = out_finish(out, &err) && out->errnum == EPIPE;
	if ((is_over || out_is_over(out)) && !is_cut_short)
		bounds_refuse(profile, &err);
	bool has_failed = out->errnum && !is_cut_short;
	if (has_failed)
		message("%s", err.text);
	out_fini(out);
	return !has_failed;
}

static int show_text(const struct options *options, const struct profile *profile,
		     report_write_fn *write, const void *context)
{
	/* On a terminal, text is collected before a pager gets it. */
	bool is_paged = !options->style.no_pager && isatty(STDOUT_FILENO) == 1;
	struct out out = {.fd = is_paged ? -1 : STDOUT_FILENO, .limit = bounds_output(profile)};

	write(context, &(struct report){.out = &out, .options = options});
	return finish_text(&out, profile) ? 0 : EXIT_BAD;
}

int report_show(const struct options *options, const struct profile *profile,
		report_write_fn *write, const void *context)
{
	const struct job job = {options, write, context};
	struct proton_error err;

	if (!options->output.exporter && !options->output.target)
		return show_text(options, profile, write, context);
	if (save_output(&options->output, profile, write_format, &job, &err) == PROTON_OK)
		return 0;
	message("%s", err.text);
	return EXIT_BAD;
}
