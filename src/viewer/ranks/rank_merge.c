/* Merging ranks: ranks of files, chunks of ranks, and the tree of chunks. */
#include "viewer/ranks/rank_merge.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "format/rank.h"
#include "model/load.h"
#include "model/merge.h"
#include "model/ranks.h"
#include "model/save_profile.h"
#include "viewer/print/progress.h"
#include "viewer/print/xalloc.h"
#include "viewer/ranks/rank_names.h"

/* ------------------------------------------------------------------ files */

/* The number after "rank" in a file name; RANK_NONE: none. */
static uint32_t rank_of_path(const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *at = strstr(slash ? slash + 1 : path, "rank");
	char digits[16] = "";
	uint32_t rank = RANK_NONE;
	size_t length = at ? strspn(at + 4, "0123456789") : 0;

	if (!length || length >= sizeof(digits))
		return RANK_NONE;
	memcpy(digits, at + 4, length);
	return rank_parse(digits, &rank) ? rank : RANK_NONE;
}

void rank_job_init(struct rank_job *job, char *const *paths, size_t count)
{
	*job = (struct rank_job){.paths = paths, .path_count = count, .max_nodes = RANK_NODES_MAX};
	job->starts = xcalloc(count + 1, sizeof(*job->starts));
	for (size_t i = 0; i < count; i++) {
		uint32_t rank = rank_of_path(paths[i]);

		if (!i || rank == RANK_NONE || rank != rank_of_path(paths[i - 1]))
			job->starts[job->rank_count++] = i;
	}
	job->starts[job->rank_count] = count;
}

void rank_job_fini(struct rank_job *job)
{
	free(job->starts);
	*job = (struct rank_job){0};
}

size_t rank_job_chunks(const struct rank_job *job)
{
	return (job->rank_count + RANK_CHUNK - 1) / RANK_CHUNK;
}

/* A file; an empty profile that is marked as corrupt if it cannot be read. */
static struct profile *load_file(const char *path)
{
	struct profile *profile = NULL;

	progress_begin("reading", path);
	if (profile_load_file(path, &profile, NULL) != PROTON_OK) {
		profile = profile_new();
		if (!profile)
			xgive_up();
		profile->is_damaged = true;
	}
	progress_end();
	return profile;
}

/* The rank that the profile says, else that of its name, else its number among the files. */
static uint32_t rank_of(const struct rank_job *job, size_t number, const struct profile *profile)
{
	uint32_t rank = rank_of_path(job->paths[job->starts[number]]);
	uint32_t recorded;

	if (rank_parse(ranks_info(profile, "rank"), &recorded))
		return recorded;
	return rank != RANK_NONE ? rank : (uint32_t)number;
}

/* All files of one rank as one profile. */
static struct profile *load_rank(const struct rank_job *job, size_t number)
{
	size_t start = job->starts[number];
	size_t end = job->starts[number + 1];
	struct profile *sum;
	struct merge *merge;

	if (end - start == 1)
		return load_file(job->paths[start]);
	sum = profile_new();
	merge = sum ? merge_new(sum) : NULL;
	if (!merge)
		xgive_up();
	for (size_t i = start; i < end; i++) {
		struct profile *profile = load_file(job->paths[i]);

		merge_source(merge, profile);
		merge_tree(merge);
		profile_free(profile);
	}
	merge_free(merge);
	return sum;
}

struct profile *rank_job_load(const struct rank_job *job, size_t number, uint32_t *rank_out)
{
	struct profile *profile = load_rank(job, number);

	*rank_out = rank_of(job, number, profile);
	rank_names_unify(profile, *rank_out);
	return profile;
}

/* ------------------------------------------------------------------ parts */

void rank_parts_fini(struct rank_parts *parts)
{
	for (size_t i = 0; i < parts->count; i++)
		free(parts->items[i].bytes);
	free(parts->items);
	*parts = (struct rank_parts){0};
}

/* Ends a merge; the result as bytes of a part. Frees both. */
static int save_part(struct merge *merge, struct profile *target, struct rank_part *part,
		     struct proton_error *err)
{
	struct out out;
	size_t length = 0;
	int status;

	merge_free(merge);
	out_init(&out, -1);
	status = target->out_of_memory ? err_nomem(err) : profile_save(target, &out, err);
	profile_free(target);
	if (status == PROTON_OK)
		status = out_finish_text(&out, &part->bytes, &length, err);
	else
		out_fini(&out);
	part->length = length;
	return status;
}

static struct merge *begin(const struct rank_job *job, struct profile **target_out)
{
	struct merge *merge;

	*target_out = profile_new();
	merge = *target_out ? merge_new(*target_out) : NULL;
	if (!merge)
		xgive_up();
	merge_limit(merge, job->max_nodes);
	return merge;
}

static int merge_chunk(const struct rank_job *job, size_t chunk, struct rank_part *part,
		       struct proton_error *err)
{
	size_t end = (chunk + 1) * RANK_CHUNK;
	struct profile *target;
	struct merge *merge = begin(job, &target);

	*part = (struct rank_part){.index = chunk};
	for (size_t i = chunk * RANK_CHUNK; i < end && i < job->rank_count; i++) {
		uint32_t rank;
		struct profile *source = rank_job_load(job, i, &rank);
		const uint32_t *nodes;

		merge_source(merge, source);
		nodes = merge_tree(merge);
		ranks_add(target, source, nodes, merge_other(merge), rank);
		profile_free(source);
	}
	return save_part(merge, target, part, err);
}

static int add_part(struct merge *merge, struct profile *target, const struct rank_part *part,
		    struct proton_error *err)
{
	struct profile *source;
	const uint32_t *nodes;
	int status = profile_load_bytes("part", part->bytes, part->length, &source, err);

	if (status != PROTON_OK)
		return status;
	merge_source(merge, source);
	nodes = merge_tree(merge);
	ranks_add_part(target, source, nodes, merge_other(merge));
	profile_free(source);
	return PROTON_OK;
}

/* Replaces the last two parts, which are siblings. */
static int merge_last(const struct rank_job *job, struct rank_parts *parts,
		      struct proton_error *err)
{
	struct rank_part *left = &parts->items[parts->count - 2];
	struct rank_part *right = left + 1;
	struct rank_part sum = {.level = left->level + 1, .index = left->index / 2};
	struct profile *target;
	struct merge *merge = begin(job, &target);
	int status = add_part(merge, target, left, err);

	if (status == PROTON_OK)
		status = add_part(merge, target, right, err);
	if (status == PROTON_OK) {
		status = save_part(merge, target, &sum, err);
	} else {
		merge_free(merge);
		profile_free(target);
	}
	if (status != PROTON_OK)
		return status;
	free(left->bytes);
	free(right->bytes);
	*left = sum;
	parts->count--;
	return PROTON_OK;
}

int rank_merge_part(const struct rank_job *job, struct rank_parts *parts, struct rank_part part,
		    struct proton_error *err)
{
	int status = PROTON_OK;

	xreserve(&parts->items, &parts->capacity, parts->count + 1, sizeof(*parts->items));
	parts->items[parts->count++] = part;
	while (status == PROTON_OK && parts->count > 1) {
		const struct rank_part *left = &parts->items[parts->count - 2];

		if (left->level != left[1].level || left->index % 2 ||
		    left->index + 1 != left[1].index)
			break;
		status = merge_last(job, parts, err);
	}
	return status;
}

int rank_merge_chunks(const struct rank_job *job, size_t first, size_t end,
		      struct rank_parts *parts, struct proton_error *err)
{
	int status = PROTON_OK;

	for (size_t chunk = first; chunk < end && status == PROTON_OK; chunk++) {
		struct rank_part part;

		status = merge_chunk(job, chunk, &part, err);
		if (status == PROTON_OK)
			status = rank_merge_part(job, parts, part, err);
	}
	return status;
}

int rank_merge_finish(const struct rank_job *job, struct rank_parts *parts, struct profile **out,
		      struct proton_error *err)
{
	struct profile *target;
	struct merge *merge = begin(job, &target);
	int status = PROTON_OK;

	for (size_t i = 0; i < parts->count && status == PROTON_OK; i++)
		status = add_part(merge, target, &parts->items[i], err);
	merge_free(merge);
	if (status == PROTON_OK)
		ranks_complete(target);
	if (status == PROTON_OK && target->out_of_memory)
		status = err_nomem(err);
	if (status == PROTON_OK)
		*out = target;
	else
		profile_free(target);
	return status;
}

int rank_merge_all(char *const *paths, size_t count, size_t max_nodes, struct profile **out,
		   struct proton_error *err)
{
	struct rank_parts parts = {0};
	struct rank_job job;
	int status;

	rank_job_init(&job, paths, count);
	job.max_nodes = max_nodes;
	status = rank_merge_chunks(&job, 0, rank_job_chunks(&job), &parts, err);
	if (status == PROTON_OK)
		status = rank_merge_finish(&job, &parts, out, err);
	rank_parts_fini(&parts);
	rank_job_fini(&job);
	return status;
}
