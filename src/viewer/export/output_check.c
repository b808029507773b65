/* Check that the output may be written and differs from all inputs. */
#include "viewer/export/output_check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/replace.h"
#include "viewer/print/xalloc.h"

static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static bool status_of(const char *path, struct stat *st)
{
	return strcmp(path, "-") == 0 ? fstat(STDIN_FILENO, st) == 0 : stat(path, st) == 0;
}

/* The input that is the same file as `st`, or NULL. */
static const char *find_input(const struct input *input, const struct stat *output)
{
	struct stat st;

	for (size_t i = 0; i < input->count; i++)
		if (status_of(input->paths[i], &st) && is_same(&st, output))
			return input_display_name(input->paths[i]);
	return NULL;
}

/*
 * The input directory that contains the profile `path`, or NULL. If a directory has several forms
 * of a profile, only one is read, but the others count as inputs too.
 */
static const char *find_directory(char *const *inputs, size_t count, const char *path)
{
	const char *slash = strrchr(path, '/');
	char *parent = slash ? xstrndup(path, (size_t)(slash - path) + 1) : xstrndup(".", 1);
	const char *found = NULL;
	struct stat directory;
	struct stat st;

	if (input_is_profile_name(slash ? slash + 1 : path) && stat(parent, &directory) == 0)
		for (size_t i = 0; i < count && !found; i++)
			if (status_of(inputs[i], &st) && is_same(&st, &directory))
				found = inputs[i];
	free(parent);
	return found;
}

static int check_inputs(const struct options *options, const struct input *input,
			const struct input *base, const struct stat *st, const char *path,
			struct proton_error *err)
{
	const char *found = find_input(input, st);

	if (!found)
		found = find_input(base, st);
	if (!found && path)
		found = find_directory(options->query.paths, options->query.path_count, path);
	if (!found && path && options->query.base)
		found = find_directory(&options->query.base, 1, path);
	if (!found)
		return PROTON_OK;
	return err_set(err, PROTON_E_INVALID,
		       "cannot write %s: it is an input (%s); choose another output",
		       path ? path : "standard output", found);
}

static int check_standard_output(const struct options *options, const struct input *input,
				 const struct input *base, struct proton_error *err)
{
	struct stat st;

	if (fstat(STDOUT_FILENO, &st) < 0 || !S_ISREG(st.st_mode))
		return PROTON_OK;
	return check_inputs(options, input, base, &st, NULL, err);
}

int output_check(const struct options *options, const struct input *input, const struct input *base,
		 struct proton_error *err)
{
	const char *path = options->output.path;
	struct stat st;
	char *target;
	bool exists;
	int status;

	if (!path)
		return check_standard_output(options, input, base, err);
	if (!*path)
		return err_set(err, PROTON_E_INVALID, "--output is empty; name a file");
	/* Devices and pipes are written to, never replaced. */
	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return PROTON_OK;
	status = file_replace_target(path, &target, &exists, &st, err);
	if (status != PROTON_OK)
		return status;
	if (exists)
		status = check_inputs(options, input, base, &st, target, err);
	if (status == PROTON_OK && exists && options->output.no_clobber)
		status = err_set(err, PROTON_E_INVALID,
				 "%s exists and --no-clobber is set; choose another output", path);
	free(target);
	return status;
}
