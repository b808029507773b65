/* Atomic output files: a temporary file that is renamed when complete, and removed by signals. */
#include "viewer/export/save.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/replace.h"
#include "export/bounds.h"
#include "viewer/print/printable_text.h"
#include "viewer/print/progress.h"
#include "viewer/print/xalloc.h"

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
	sigset_t held;
	sigset_t before;

	sigemptyset(&held);
	for (size_t i = 0; i < ARRAY_LENGTH(ending_signals); i++)
		sigaddset(&held, ending_signals[i]);
	sigprocmask(SIG_BLOCK, &held, &before);
	return before;
}

static int begin_file(struct save *save, const char *path, bool no_clobber,
		      struct proton_error *err)
{
	sigset_t before;
	int status;

	watch_signals();
	before = hold_signals();
	status = file_replace_begin(&save->file, path, err);
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

	*save = (struct save){0};
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
	struct out raw = save->direct;

	out_init(&save->direct, save->terminal);
	text_clean_lines(&save->direct, raw.bytes, raw.length);
	save->direct.errnum = save->direct.errnum ? save->direct.errnum : raw.errnum;
	out_fini(&raw);
}

static int commit_output(struct save *save, struct proton_error *err)
{
	int status;

	if (!save->is_direct)
		return file_replace_commit(&save->file, err);
	if (save->terminal >= 0)
		clean_for_terminal(save);
	status = out_finish(&save->direct, err);
	return status && save->direct.errnum == EPIPE ? PROTON_OK : status;
}

static int save_to_target(struct out *out, const struct profile *profile, save_write_fn *write,
			  const void *context, struct proton_error *err)
{
	int status;

	out->limit = bounds_output(profile);
	status = write(context, out, err);
	if (out_is_over(out))
		return bounds_refuse(profile, err);
	return status ? status : out_finish(out, err);
}

int save_output(const struct output_options *output, const struct profile *profile,
		save_write_fn *write, const void *context, struct proton_error *err)
{
	struct save save;
	int status;

	if (output->target)
		return save_to_target(output->target->out, profile, write, context, err);
	status = begin_output(&save, output, err);
	if (status)
		return status;
	save.out->limit = bounds_output(profile);
	progress_begin("writing", output->path ? output->path : "standard output");
	status = write(context, save.out, err);
	if (out_is_over(save.out))
		status = bounds_refuse(profile, err);
	if (status == PROTON_OK)
		status = commit_output(&save, err);
	else if (!save.is_direct)
		file_replace_abandon(&save.file);
	save_fini(&save);
	progress_end();
	return status;
}
