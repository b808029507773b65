/*
 * Jobs as input of the viewer: which files are the ranks of a job, however they are given, and the
 * sum of each job once.
 */
#include "viewer/ranks/rank_job_input.h"

#include <stdio.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/hash.h"
#include "base/message.h"
#include "format/rank.h"
#include "model/ranks.h"
#include "viewer/print/xalloc.h"
#include "viewer/ranks/rank_merge.h"
#include "viewer/ranks/rank_report.h"

/* ------------------------------------------------------------------ which files are a job */

/* The directory of a job in a path: "a.ranks" of a.ranks/000-999/x; malloc'd. NULL: none. */
static char *directory_in(const char *path)
{
	const char *at = path;

	for (const char *end; (end = strchr(at, '/')) != NULL; at = end + 1) {
		size_t length = (size_t)(end - at);

		if (rank_is_job(at, length))
			return xstrndup(path, (size_t)(end - path));
		if (rank_is_range(at, length))
			return at == path ? xstrdup(".") : xstrndup(path, (size_t)(at - path) - 1);
	}
	return NULL;
}

static struct profile *look_at(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 && S_ISREG(status.st_mode) ? input_load_quietly(path)
								   : NULL;
}

/* The rank that a profile of a job of many tells; RANK_NONE: it is not of one, and is put back. */
static uint32_t recorded_rank(struct input *input, const char *path)
{
	struct profile *profile = look_at(path);
	uint32_t rank = RANK_NONE;
	uint32_t world = 0;

	if (profile && rank_parse(profile_info_text(profile, "world_size"), &world) && world > 1)
		rank_parse(profile_info_text(profile, "rank"), &rank);
	if (profile && rank == RANK_NONE)
		input_put_back(input, path, profile);
	else
		profile_free(profile);
	return rank;
}

/* Files with other names are a job if the first two tell ranks: only these are read twice. */
static bool are_ranks(struct input *input)
{
	uint32_t first = input->count > 1 ? recorded_rank(input, input->paths[0]) : RANK_NONE;
	uint32_t second = first != RANK_NONE ? recorded_rank(input, input->paths[1]) : RANK_NONE;

	return second != RANK_NONE && first != second;
}

/* True for a merged file in the directory of its ranks, which is put back. */
static bool is_merged(struct input *input, const char *path)
{
	struct profile *profile = rank_in_name(path) == RANK_NONE ? look_at(path) : NULL;
	bool is_merged = profile && profile->ranks;

	if (is_merged)
		input_put_back(input, path, profile);
	else
		profile_free(profile);
	return is_merged;
}

/* The name of the unit of a file: its job, if its path tells one, or itself. */
static char *unit_of(struct input *input, const char *path)
{
	char *directory = directory_in(path);
	const char *slash = strrchr(path, '/');

	if (directory && !is_merged(input, path))
		return directory;
	free(directory);
	if (directory || rank_of_name(path) == RANK_NONE)
		return xstrdup(path);
	return slash ? xstrndup(path, (size_t)(slash - path)) : xstrdup(".");
}

/* False for the files of one rank that are named one by one. */
static bool is_job(const struct input *input, const struct input_unit *unit)
{
	bool is_job = false;

	for (size_t i = unit->first; i < unit->first + unit->count && unit->is_job; i++) {
		AUTO_FREE char *directory = input->is_found[i] ? directory_in(input->paths[i])
							       : NULL;

		is_job = is_job || directory ||
			 rank_in_name(input->paths[i]) != rank_in_name(input->paths[unit->first]);
	}
	return is_job;
}

static void regroup(struct input *input, char **names)
{
	size_t count = input->count;

	input_regroup(input, (const char *const *)names);
	for (size_t i = 0; i < count; i++)
		free(names[i]);
	free(names);
}

void rank_input_init(struct input *input, char *const *paths, size_t count)
{
	bool has_job = false;

	input_init(input, paths, count);
	char **names = xcalloc(input->count, sizeof(*names));
	for (size_t i = 0; i < input->count; i++)
		names[i] = unit_of(input, input->paths[i]);
	regroup(input, names);
	names = xcalloc(input->count, sizeof(*names));
	for (size_t u = 0; u < input->unit_count; u++) {
		const struct input_unit *unit = &input->units[u];
		bool is_one = is_job(input, unit);

		has_job |= is_one;
		for (size_t i = unit->first; i < unit->first + unit->count; i++)
			names[i] = xstrdup(is_one ? unit->name : input->paths[i]);
	}
	for (size_t i = 0; !has_job && i < input->count && (i || are_ranks(input)); i++) {
		free(names[i]);
		names[i] = xstrdup("the files");
	}
	regroup(input, names);
}

/* ------------------------------------------------------------------ refusals */

/* Prints what is wrong with ranks. False: the command needs all of them. */
static bool is_accepted(struct input *input, const struct profile *profile)
{
	const struct profile_ranks *ranks = profile->ranks;
	bool is_complete = rank_report_state(profile);
	bool is_killed = false;

	if (is_complete || input->is_partial_allowed)
		return true;
	for (size_t i = 0; i < ranks->count; i++) {
		input->has_failed |= ranks->rows[i].reason != 0; /* it cannot be read */
		input->is_cut |= ranks->rows[i].state == RANK_DAMAGED;
		is_killed |= ranks->rows[i].state == RANK_KILLED;
	}
	if (is_killed)
		message("killed ranks may be still recording; their data so far is counted");
	if (!input->needs_complete)
		return true;
	message("%s needs complete profiles of all ranks; use --allow-partial to accept these",
		input->needs_complete);
	input->has_failed = true;
	return false;
}

/* ------------------------------------------------------------------ one after the other */

/* A hash of the numbers of a job, which does not depend on their order. */
static uint64_t fingerprint(const struct profile *profile)
{
	uint64_t sum = profile->node_count ^ profile->start_ns;

	for (size_t i = 1; i < profile->value_count; i++) {
		const struct profile_value *value = &profile->values[i];

		if (profile_is_number(profile->metrics[value->metric].type))
			sum += hash_u64((uint64_t)value->as.int64);
	}
	for (size_t i = 1; i < profile->kernel_count; i++)
		sum += hash_u64(profile->kernels[i].total_ns ^ hash_u64(profile->kernels[i].count));
	ARRAY_EACH(row, profile->ranks->rows, profile->ranks->count) {
		sum += hash_u64(row->time_ns ^ hash_u64(hash_pair(row->rank, row->pid)));
	}
	return sum;
}

/* True if the same job was read before, under another name. */
static bool is_copy(struct input *input, const struct profile *profile)
{
	uint64_t hash = fingerprint(profile);

	for (size_t i = 0; i < input->seen_count; i++)
		if (input->seen[i] == hash)
			return true;
	XADD(input->seen, input->seen_count, hash);
	return false;
}

static struct profile *load_rank(struct input *input, size_t number)
{
	uint32_t rank;
	struct profile *profile = rank_job_load(input->job, number, input->roster, &rank);

	if (profile->node_count > 1 || !profile->is_damaged)
		return profile;
	profile_free(profile);
	return NULL;
}

static struct profile *merge_unit(struct input *input, const struct input_unit *unit,
				  bool has_columns)
{
	struct profile *profile = NULL;
	struct proton_error err;
	AT_END(rank_job_fini) struct rank_job job;

	rank_job_init(&job, input->paths + unit->first, unit->count);
	job.is_mixed_allowed = input->is_mixed_allowed;
	job.columns = has_columns ? RANK_COLUMNS_DEFAULT : 0;
	job.keeps_times = input->keeps_times;
	if (rank_merge_all(&job, &profile, &err) != PROTON_OK) {
		message("%s", err.text);
		input->has_failed = true;
		profile = NULL;
	}
	return profile;
}

/* The profile that was loaded before by the rules for users; NULL: this view needs another. */
static struct profile *take_first(struct input *input, bool has_columns)
{
	bool is_accepted = !input->needs_complete || input->is_partial_allowed;
	bool is_same = input->store && input->unit_count == 1 && !input->next && !input->job &&
		       is_accepted && !has_columns && !input->keeps_times;
	struct profile *profile = is_same ? input->store->first : NULL;

	if (profile) {
		input->store->first = NULL;
		input->next = 1;
	}
	return profile;
}

struct profile *rank_input_next(struct input *input, bool has_columns)
{
	struct profile *first = take_first(input, has_columns);

	if (first)
		return first;
	while (input->next < input->unit_count) {
		const struct input_unit *unit = &input->units[input->next++];
		struct profile *profile = input->job     ? load_rank(input, input->next - 1)
					  : unit->is_job ? merge_unit(input, unit, has_columns)
							 : input_load_unit(input, unit);
		bool is_refused = profile && profile->ranks && !is_accepted(input, profile);

		if (profile && !is_refused && (!profile->ranks || !is_copy(input, profile)))
			return profile;
		if (profile && !is_refused) {
			message("%s is a job that was read already: it is counted once",
				unit->name);
			input->copies++;
		}
		profile_free(profile);
	}
	return NULL;
}

/* "2 jobs: a.ranks and b.ranks" */
static void report_sum(const struct input *input, size_t count)
{
	char text[400] = "";
	size_t used = 0, named = 0;
	bool are_jobs = true;

	if (input->is_sum_meant || input_is_refused(input))
		return;
	ARRAY_EACH(unit, input->units, input->unit_count) {
		are_jobs = are_jobs && unit->is_job;
		if (named < 3 && used < sizeof(text))
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s",
						 named++ ? ", " : "",
						 input_display_name(unit->name));
	}
	message("this is the sum of %zu %s: %s%s; --merge sum says that it is meant, --merge mean "
		"and --diff compare them",
		count, are_jobs ? "jobs" : "profiles that are not ranks of one job", text,
		input->unit_count > named ? ", ..." : "");
}

struct profile *rank_input_sum(struct input *input, bool has_columns)
{
	struct profile *first = rank_input_next(input, has_columns);
	struct profile *next = first ? rank_input_next(input, false) : NULL;
	struct profile *sum;
	size_t count = 1;

	if (!next) {
		if (first)
			first->is_damaged |= input->left_out > 0;
		return first;
	}
	struct merge *merge = sum_begin(&sum);
	xkeep_memory();
	sum_add(merge, first);
	for (; next; next = rank_input_next(input, false), count++)
		sum_add(merge, next);
	sum_end(merge, sum)->is_damaged |= input->left_out > 0;
	report_sum(input, count);
	return sum;
}

/* ------------------------------------------------------------------ one job */

/* Keeps the files of a unit; with a name, all files as one job. */
static void keep_unit(struct input *input, size_t kept, const char *all)
{
	char **names = xcalloc(input->count, sizeof(*names));
	const struct input_unit *unit = &input->units[kept];

	for (size_t i = 0; i < input->count; i++)
		if (all || (i >= unit->first && i < unit->first + unit->count))
			names[i] = xstrdup(all ? all : unit->name);
	regroup(input, names);
	input->next = 0;
}

bool rank_input_is_merged(const struct input *input)
{
	return !input->units[0].is_job;
}

int rank_input_job(struct input *input, bool has_columns, const char *what, struct profile **out,
		   struct proton_error *err)
{
	struct profile *profile = rank_input_next(input, has_columns);
	bool has_job = profile && profile->ranks;
	size_t kept = 0;

	err->text[0] = '\0';
	if (!profile)
		return PROTON_E_INVALID;
	for (size_t u = 0; u < input->unit_count; u++)
		has_job |= input->units[u].is_job;
	if (!has_job && (input->count > 1 || *profile_info_text(profile, "rank"))) {
		profile_free(profile);
		keep_unit(input, 0, "the files");
		profile = rank_input_next(input, has_columns);
		if (!profile)
			return PROTON_E_INVALID;
	}
	kept = input->next - 1;
	struct profile *other = rank_input_next(input, false);
	if (!other && profile->ranks) {
		keep_unit(input, kept, NULL);
		*out = profile;
		return PROTON_OK;
	}
	if (other)
		err_set(err, PROTON_E_INVALID,
			"%s is about one job, and the input has more: %s and %s; name one", what,
			input->units[kept].name, input->units[input->next - 1].name);
	else
		err_set(err, PROTON_E_INVALID,
			"%s needs the ranks of a job: %s is a profile without a rank; name a "
			"directory NAME.ranks, or a file of proton-merge",
			what, input_display_name(input->paths[0]));
	profile_free(other);
	profile_free(profile);
	return PROTON_E_INVALID;
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
static bool is_same_launch(const struct profile *merged, const struct input *files)
{
	struct profile *first = input_load_quietly(files->paths[0]);
	const struct row_rank *row = NULL;
	uint32_t rank;
	bool is_same = true;

	if (first && rank_parse(profile_info_text(first, "rank"), &rank))
		row = ranks_row(merged, rank);
	if (row && !row->mixed && row->state != RANK_MISSING && row->state != RANK_DAMAGED)
		is_same = strcmp(profile_text(merged, row->job), profile_info_text(first, "job")) ==
				  0 &&
			  strcmp(profile_text(merged, row->launch),
				 profile_info_text(first, "launch")) == 0 &&
			  strcmp(profile_text(merged, row->process),
				 profile_info_text(first, "launcher")) == 0;
	profile_free(first);
	return is_same;
}

int rank_input_files(const struct input *input, const struct profile *job, const char *what,
		     struct input *files_out, struct proton_error *err)
{
	bool is_merged = rank_input_is_merged(input);
	AUTO_FREE char *directory = is_merged ? directory_of(input->paths[0]) : NULL;
	struct stat status;
	bool is_there = directory && stat(directory, &status) == 0 && S_ISDIR(status.st_mode);

	*files_out = (struct input){0};
	if (!is_merged)
		rank_input_init(files_out, input->paths, input->count);
	else if (is_there)
		rank_input_init(files_out, &directory, 1);
	files_out->needs_complete = input->needs_complete;
	files_out->is_partial_allowed = input->is_partial_allowed;
	files_out->is_mixed_allowed = input->is_mixed_allowed;
	if (is_there && files_out->count && !input->is_mixed_allowed &&
	    !is_same_launch(job, files_out)) {
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
	return files_out->count ? PROTON_OK : PROTON_E_INVALID;
}

int rank_input_expand(struct input *input, const char *what, struct proton_error *err)
{
	struct profile *profile = input->count == 1 ? input_load_quietly(input->paths[0]) : NULL;
	struct input files;

	if (profile && !profile->ranks)
		input_put_back(input, input->paths[0], profile);
	if (!profile || !profile->ranks)
		return PROTON_OK;
	int status = rank_input_files(input, profile, what, &files, err);
	profile_free(profile);
	input_fini(status == PROTON_OK ? input : &files);
	if (status == PROTON_OK)
		*input = files;
	return status;
}

/* ------------------------------------------------------------------ the ranks of a job */

static void split(struct input *input)
{
	struct rank_job *job = xcalloc(1, sizeof(*job));
	char **names = xcalloc(input->count, sizeof(*names));

	rank_job_init(job, input->paths, input->count);
	for (size_t r = 0; r < job->rank_count; r++)
		for (size_t i = job->starts[r]; i < job->starts[r + 1]; i++)
			names[i] = xstrdup(input->paths[job->starts[r]]);
	regroup(input, names);
	job->is_mixed_allowed = input->is_mixed_allowed;
	input->job = job;
	input->roster = profile_new();
	if (!input->roster)
		xgive_up();
}

int rank_input_split(struct input *input, struct proton_error *err)
{
	char *const *paths = input->paths;
	bool is_job = input->unit_count == 1 && input->units[0].is_job;
	int status = PROTON_OK;

	if (input->unit_count == 1 && !is_job)
		status = rank_input_expand(input, "this --merge", err);
	if (status == PROTON_OK && (is_job || input->paths != paths))
		split(input);
	return status;
}

int rank_input_judge(struct input *input, struct proton_error *err)
{
	int status = PROTON_OK;

	if (!input->job && input->copies && input->copies + 1 == input->unit_count)
		return err_set(err, PROTON_E_INVALID,
			       "this --merge compares the ranks of a job, or jobs; the others are "
			       "copies of %s: name only it",
			       input->units[0].name);
	if (!input->job)
		return PROTON_OK;
	ranks_complete(input->roster);
	status = rank_mix_check(input->job, input->roster, err);
	if (status == PROTON_OK && !is_accepted(input, input->roster)) {
		err->text[0] = '\0';
		status = PROTON_E_INVALID;
	}
	rank_job_fini(input->job);
	free(input->job);
	input->job = NULL;
	return status;
}
