/* Jobs as input of the viewer: merged files, and the profiles of ranks. */
#include "viewer/ranks/rank_job_input.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/message.h"
#include "format/rank.h"
#include "model/load.h"
#include "model/ranks.h"
#include "viewer/print/xalloc.h"
#include "viewer/ranks/rank_merge.h"
#include "viewer/ranks/rank_report.h"

/* The profile if there is one file, which is merged; else NULL. False: it cannot be read. */
static bool load_merged(struct input *input, struct profile **out)
{
	*out = input->count == 1 ? input_load(input, 0) : NULL;
	if (!*out)
		return input->count != 1;
	if (!(*out)->ranks) {
		profile_free(*out);
		*out = NULL;
	}
	return true;
}

int rank_input_load(struct input *input, struct profile **out, bool *is_merged_out,
		    struct proton_error *err)
{
	err->text[0] = '\0';
	if (!load_merged(input, out))
		return PROTON_E_INVALID;
	*is_merged_out = *out;
	if (*out)
		return PROTON_OK;
	return rank_merge_all(input->paths, input->count, input->is_mixed_allowed,
			      RANK_COLUMNS_DEFAULT, out, err);
}

static bool has_state(const struct profile *profile, uint32_t state)
{
	for (size_t i = 0; i < profile->ranks->count; i++)
		if (profile->ranks->rows[i].state == state)
			return true;
	return false;
}

/* Prints what is wrong with ranks. False: the command needs all of them. */
static bool is_accepted(struct input *input, const struct profile *profile)
{
	bool is_complete = rank_report_state(profile);

	if (input->is_partial_allowed)
		return true;
	for (size_t i = 0; i < profile->ranks->count; i++) /* files that cannot be read */
		input->has_failed |= profile->ranks->rows[i].reason != 0;
	if (has_state(profile, RANK_KILLED))
		message("killed ranks may be still recording; their data so far is counted");
	if (is_complete || !input->needs_complete)
		return true;
	message("%s needs complete profiles of all ranks; use --allow-partial to accept these",
		input->needs_complete);
	input->has_failed = true;
	return false;
}

struct profile *rank_input_merge(struct input *input, bool has_columns)
{
	struct profile *profile = NULL;
	struct proton_error err;

	if (!input->is_job && (!load_merged(input, &profile) || profile))
		return profile;
	if (rank_merge_all(input->paths, input->count, input->is_mixed_allowed,
			   has_columns ? RANK_COLUMNS_DEFAULT : 0, &profile, &err) != PROTON_OK) {
		message("%s", err.text);
		input->has_failed = true;
		return NULL;
	}
	if (is_accepted(input, profile))
		return profile;
	profile_free(profile);
	return NULL;
}

struct profile *rank_input_sum(struct input *input, bool has_columns)
{
	return input->is_job ? rank_input_merge(input, has_columns) : input_load_all(input);
}

/* NAME.ranks of NAME.ranks.proton, malloc'd; NULL: the file has another name. */
static char *directory_of(const char *path)
{
	static const char suffix[] = ".ranks.proton";
	size_t length = strlen(path);
	size_t end = sizeof(suffix) - 1;

	if (length <= end || strcmp(path + length - end, suffix) != 0)
		return NULL;
	return xstrndup(path, length - strlen(".proton"));
}

/*
 * True if the first of the profiles next to a merged file is of the launch that was merged. A later
 * one has replaced it otherwise.
 */
static bool is_same_launch(const char *merged_path, const struct input *files)
{
	struct profile *merged = NULL;
	struct profile *first = NULL;
	const struct row_rank *row = NULL;
	uint32_t rank;
	bool is_same = true;

	if (profile_load_file(merged_path, &merged, NULL) == PROTON_OK &&
	    profile_load_file(files->paths[0], &first, NULL) == PROTON_OK &&
	    rank_parse(ranks_info(first, "rank"), &rank))
		row = ranks_row(merged, rank);
	if (row && !row->mixed && row->state != RANK_MISSING && row->state != RANK_DAMAGED)
		is_same = strcmp(profile_text(merged, row->job), ranks_info(first, "job")) == 0 &&
			  strcmp(profile_text(merged, row->launch), ranks_info(first, "launch")) ==
				  0 &&
			  strcmp(profile_text(merged, row->process),
				 ranks_info(first, "launcher")) == 0;
	profile_free(merged);
	profile_free(first);
	return is_same;
}

int rank_input_files(const struct input *input, bool is_merged, const char *what,
		     struct input *files_out, struct proton_error *err)
{
	char *directory = is_merged ? directory_of(input->paths[0]) : NULL;
	struct stat status;
	bool is_there = directory && stat(directory, &status) == 0 && S_ISDIR(status.st_mode);

	*files_out = (struct input){0};
	if (!is_merged)
		input_init(files_out, input->paths, input->count);
	else if (is_there)
		input_init(files_out, &directory, 1);
	if (is_there && files_out->count && !input->is_mixed_allowed &&
	    !is_same_launch(input->paths[0], files_out)) {
		message("the profiles in %s are of another launch than %s: they are not read; "
			"merge them, or use --allow-mixed",
			directory, input->paths[0]);
		input_fini(files_out);
	}
	if (is_merged && !files_out->count)
		err_set(err, PROTON_E_INVALID,
			"%.100s needs the profiles of the ranks: %.200s is a merged file%s%.200s; "
			"name the directory of the profiles",
			what, input->paths[0],
			!directory ? ""
			: is_there ? ", and another launch is in "
				   : ", and there is no directory ",
			directory ? directory : "");
	free(directory);
	return files_out->count ? PROTON_OK : PROTON_E_INVALID;
}
