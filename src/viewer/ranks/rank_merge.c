/* Merging ranks: ranks of files, chunks of ranks, and the tree of chunks. */
#include "viewer/ranks/rank_merge.h"

#include <stdio.h>

#include "base/array.h"
#include "format/rank.h"
#include "model/load.h"
#include "model/merge.h"
#include "model/ranks.h"
#include "model/save_profile.h"
#include "viewer/print/progress.h"
#include "viewer/print/xalloc.h"
#include "viewer/query/input.h"

/* ------------------------------------------------------------------ files */

void rank_job_init(struct rank_job *job, char *const *paths, size_t count)
{
	*job = (struct rank_job){.paths = paths,
				 .path_count = count,
				 .max_nodes = RANK_NODES_MAX,
				 .columns = RANK_COLUMNS_DEFAULT,
				 .times = RANK_TIMES_NONE};
	job->starts = xcalloc(count + 1, sizeof(*job->starts));
	for (size_t i = 0; i < count; i++) {
		uint32_t rank = rank_in_name(paths[i]);

		if (!i || rank == RANK_NONE || rank != rank_in_name(paths[i - 1]))
			job->starts[job->rank_count++] = i;
	}
	job->starts[job->rank_count] = count;
}

void rank_job_fini(struct rank_job *job)
{
	free(job->starts);
	rank_times_fini(&job->times);
	*job = (struct rank_job){0};
}

size_t rank_job_chunks(const struct rank_job *job)
{
	return (job->rank_count + RANK_CHUNK - 1) / RANK_CHUNK;
}

/* A file; an empty profile that is marked as corrupt, with the reason, if it cannot be read. */
static struct profile *load_file(struct rank_job *job, const char *path,
				 struct proton_error *reason)
{
	struct profile *profile = NULL;

	if (profile_load_next(path, NULL, &job->more_bytes, &profile, reason) != PROTON_OK) {
		profile = profile_new();
		if (!profile)
			xgive_up();
		profile->is_damaged = true;
	}
	job->bytes += profile->file_bytes;
	return profile;
}

/* The rank that the profile says, else that of its name, else its number among the files. */
static uint32_t rank_of(const struct rank_job *job, size_t number, const struct profile *profile)
{
	uint32_t rank = rank_in_name(job->paths[job->starts[number]]);
	uint32_t recorded;

	if (rank_parse(profile_info_text(profile, "rank"), &recorded))
		return recorded;
	return rank != RANK_NONE ? rank : (uint32_t)number;
}

/* The files of a rank, while they are added up. */
struct files {
	struct profile *first; /* the first that is not damaged, and its path */
	const char *path;
	char *mixed; /* how they differ, malloc'd; NULL: they do not */
};

/* Takes the profile. Damaged ones do not say what they are of. */
static void compare_file(struct files *files, struct profile *profile, const char *path)
{
	if (!files->mixed)
		files->mixed = rank_mix_of_file(profile, path);
	if (!files->mixed && files->first && !profile->is_damaged)
		files->mixed = rank_mix_of_two(files->first, files->path, profile, path);
	if (files->first || profile->is_damaged) {
		profile_free(profile);
		return;
	}
	files->first = profile;
	files->path = path;
}

/*
 * All files of one rank as one profile. The reason is that of the last one that is damaged; `mixed`
 * is how they differ, malloc'd, or NULL.
 */
static struct profile *load_rank(struct rank_job *job, size_t number, struct proton_error *reason,
				 char **mixed)
{
	size_t start = job->starts[number];
	size_t end = job->starts[number + 1];
	struct files files = {0};
	struct profile *sum;

	if (end - start == 1) {
		sum = load_file(job, job->paths[start], reason);
		*mixed = rank_mix_of_file(sum, job->paths[start]);
		return sum;
	}
	struct merge *merge = sum_begin(&sum);
	for (size_t i = start; i < end; i++) {
		struct profile *profile = load_file(job, job->paths[i], reason);
		const struct merge_maps *maps = merge_tree(merge, profile);

		if (maps)
			waits_copy(sum, profile, maps);
		compare_file(&files, profile, job->paths[i]);
	}
	merge_free(merge);
	profile_free(files.first);
	*mixed = files.mixed;
	return sum;
}

/* A rank with what the table of ranks says of it; `mixed` is malloc'd. */
struct source {
	struct profile *profile;
	struct proton_error reason;
	struct rank_origin origin;
	char *mixed;
};

static void load_source(struct source *source, struct rank_job *job, size_t number)
{
	*source = (struct source){.origin.number = (uint32_t)number};
	source->profile = load_rank(job, number, &source->reason, &source->mixed);
	source->origin.rank = rank_of(job, number, source->profile);
	source->origin.reason = source->reason.text;
	source->origin.mixed = source->mixed ? source->mixed : "";
	source->origin.files = (uint32_t)(job->starts[number + 1] - job->starts[number]);
	rank_names_unify(source->profile, source->origin.rank, job->names);
}

struct profile *rank_job_load(struct rank_job *job, size_t number, struct profile *roster,
			      uint32_t *rank_out)
{
	struct source source;

	load_source(&source, job, number);
	if (roster)
		ranks_note(roster, source.profile, &source.origin);
	free(source.mixed);
	*rank_out = source.origin.rank;
	return source.profile;
}

/* ------------------------------------------------------------------ memory */

/*
 * A node in few bytes of a file gets statistics, even if one rank has it. So a merged job may take
 * memory in proportion to its files, and a constant.
 */
#define JOB_BYTES_PER_BYTE 60u
#define JOB_BYTES_MORE (36ull << 20)
/* Ranks wait for others, up to a chunk, while they take no more than this. */
#define PENDING_BYTES_PER_BYTE 8u
#define PENDING_BYTES_MORE (16ull << 20)

/* Memory of a merged tree, with the hash tables by which it grows. */
static uint64_t cost_of(const struct profile *profile)
{
	const struct profile_ranks *ranks = profile->ranks;
	uint64_t cost = 3 * profile->strings.used + 110 * profile->frame_count +
			120 * profile->node_count + 110 * profile->value_count +
			150 * profile->kernel_count +
			sizeof(*profile->histograms) * profile->histogram_count +
			sizeof(*profile->configs) * profile->config_count +
			sizeof(*profile->words) * profile->word_count;

	if (ranks)
		cost += sizeof(*ranks->spreads) * ranks->spread_count +
			(sizeof(*ranks->values.rows) + 43) * ranks->values.count +
			ranks_pending_bytes(profile);
	return cost;
}

static int check_memory(const struct rank_job *job, const struct profile *target,
			struct proton_error *err)
{
	uint64_t max = JOB_BYTES_PER_BYTE * job->bytes + JOB_BYTES_MORE;

	if (cost_of(target) <= max)
		return PROTON_OK;
	return err_set(err, PROTON_E_RANGE,
		       "cannot merge the ranks: their statistics would take more than %llu MB of "
		       "memory, the limit for files of this size; use proton-merge --max-nodes",
		       (unsigned long long)(max >> 20));
}

/* ------------------------------------------------------------------ parts */

static void free_part(struct rank_part *part)
{
	profile_free(part->profile);
	free(part->bytes);
	part->profile = NULL;
	part->bytes = NULL;
}

void rank_parts_fini(struct rank_parts *parts)
{
	for (size_t i = 0; i < parts->count; i++)
		free_part(&parts->items[i]);
	free(parts->items);
	*parts = (struct rank_parts){0};
}

/* Ends a merge; its result is stored, or freed. */
static int end_merge(struct merge *merge, struct profile *target, int status, struct profile **out,
		     struct proton_error *err)
{
	merge_free(merge);
	if (status == PROTON_OK && target->out_of_memory)
		status = err_nomem(err);
	if (status == PROTON_OK)
		*out = target;
	else
		profile_free(target);
	return status;
}

int rank_part_pack(struct rank_part *part, struct proton_error *err)
{
	struct out out;
	size_t length = 0;

	if (!part->profile)
		return PROTON_OK;
	out_init(&out, -1);
	int status = profile_save(part->profile, &out, err);
	if (status == PROTON_OK)
		status = out_finish_text(&out, &part->bytes, &length, err);
	else
		out_fini(&out);
	part->length = length;
	profile_free(part->profile);
	part->profile = NULL;
	return status;
}

static struct merge *begin_merge(const struct rank_job *job, struct profile **target_out)
{
	struct merge *merge = sum_begin(target_out);

	merge_limit(merge, job->max_nodes);
	return merge;
}

static void add_rank(struct merge *merge, struct rank_job *job, size_t number,
		     struct profile *target)
{
	struct source source;

	load_source(&source, job, number);
	ranks_add(target, source.profile, merge_tree(merge, source.profile), &source.origin);
	profile_free(source.profile);
	free(source.mixed);
}

/* Makes statistics of the ranks from number `first` on, which are pending. */
static int settle_ranks(struct rank_job *job, size_t first, struct profile *target,
			struct proton_error *err)
{
	if ((job->columns || job->keeps_times) && !target->out_of_memory && target->ranks &&
	    target->ranks->pending)
		return rank_times_settle(&job->times, first, target, err);
	ranks_settle(target, NULL, NULL);
	return PROTON_OK;
}

static int merge_chunk(struct rank_job *job, size_t chunk, struct rank_part *part,
		       struct proton_error *err)
{
	size_t first = chunk * RANK_CHUNK;
	size_t last = first + RANK_CHUNK < job->rank_count ? first + RANK_CHUNK : job->rank_count;
	struct profile *target;
	struct merge *merge = begin_merge(job, &target);
	int status = PROTON_OK;

	*part = (struct rank_part){.index = chunk};
	for (size_t i = first; i < last && status == PROTON_OK; i++) {
		add_rank(merge, job, i, target);
		status = check_memory(job, target, err);
		if (status == PROTON_OK && i + 1 < last &&
		    ranks_pending_bytes(target) >
			    PENDING_BYTES_PER_BYTE * job->bytes + PENDING_BYTES_MORE) {
			status = settle_ranks(job, first, target, err);
			first = i + 1;
		}
	}
	if (status == PROTON_OK)
		status = settle_ranks(job, first, target, err);
	if (status == PROTON_OK)
		status = check_memory(job, target, err);
	return end_merge(merge, target, status, &part->profile, err);
}

/* Adds a part to a merge, and frees its content. */
static int add_part(struct rank_job *job, struct merge *merge, struct profile *target,
		    struct rank_part *part, struct proton_error *err)
{
	int status = PROTON_OK;

	if (!part->profile)
		status = profile_load_bytes("part", part->bytes, part->length, &part->profile, err);
	if (status != PROTON_OK)
		return status;
	ranks_add_part(target, part->profile, merge_tree(merge, part->profile));
	free_part(part);
	return check_memory(job, target, err);
}

static int merge_parts(struct rank_job *job, struct rank_part *parts, size_t count,
		       struct profile **out, struct proton_error *err)
{
	struct profile *target;
	struct merge *merge = begin_merge(job, &target);
	int status = PROTON_OK;

	for (size_t i = 0; i < count && status == PROTON_OK; i++)
		status = add_part(job, merge, target, &parts[i], err);
	return end_merge(merge, target, status, out, err);
}

/* Replaces the last two parts, which are siblings. */
static int merge_last(struct rank_job *job, struct rank_parts *parts, struct proton_error *err)
{
	struct rank_part *left = &parts->items[parts->count - 2];
	struct rank_part sum = {.level = left->level + 1, .index = left->index / 2};
	int status = merge_parts(job, left, 2, &sum.profile, err);

	if (status == PROTON_OK) {
		*left = sum;
		parts->count--;
	}
	return status;
}

static bool are_siblings(const struct rank_part *left, const struct rank_part *right)
{
	return left->level == right->level && left->index % 2 == 0 &&
	       left->index + 1 == right->index;
}

/* Only the last part is not packed: it is the next to be merged, or sent. */
int rank_merge_part(struct rank_job *job, struct rank_parts *parts, struct rank_part part,
		    struct proton_error *err)
{
	int status = PROTON_OK;

	job->bytes += part.bytes ? part.length : 0; /* it comes from another process */
	if (parts->count && !are_siblings(&parts->items[parts->count - 1], &part))
		status = rank_part_pack(&parts->items[parts->count - 1], err);
	XADD(parts->items, parts->count, part);
	while (status == PROTON_OK && parts->count > 1 &&
	       are_siblings(&parts->items[parts->count - 2], &parts->items[parts->count - 1]))
		status = merge_last(job, parts, err);
	return status;
}

static void show_progress(const struct rank_job *job, size_t first, size_t end)
{
	char text[32];

	snprintf(text, sizeof(text), "%zu ranks:",
		 (end * RANK_CHUNK < job->rank_count ? end * RANK_CHUNK : job->rank_count) -
			 first * RANK_CHUNK);
	progress_begin("merging", text);
}

int rank_merge_chunks(struct rank_job *job, size_t first, size_t end, struct rank_parts *parts,
		      struct proton_error *err)
{
	int status = PROTON_OK;

	xkeep_memory();
	if (!job->is_quiet && first < end)
		show_progress(job, first, end);
	for (size_t chunk = first; chunk < end && status == PROTON_OK; chunk++) {
		struct rank_part part;

		progress_count((chunk - first) * RANK_CHUNK);
		status = merge_chunk(job, chunk, &part, err);
		if (status == PROTON_OK)
			status = rank_merge_part(job, parts, part, err);
	}
	if (!job->is_quiet)
		progress_end();
	return status;
}

int rank_merge_finish(struct rank_job *job, struct rank_parts *parts, struct profile **out,
		      struct proton_error *err)
{
	struct profile *target;

	TRY(merge_parts(job, parts->items, parts->count, &target, err));
	ranks_complete(target);
	int status = target->out_of_memory ? err_nomem(err) : rank_mix_check(job, target, err);
	if (status == PROTON_OK)
		*out = target;
	else
		profile_free(target);
	return status;
}

int rank_job_merge(struct rank_job *job, struct profile **out, struct proton_error *err)
{
	AT_END(rank_parts_fini) struct rank_parts parts = {0};
	int status = rank_merge_chunks(job, 0, rank_job_chunks(job), &parts, err);

	if (status == PROTON_OK)
		status = rank_merge_finish(job, &parts, out, err);
	return status;
}

int rank_merge_all(struct rank_job *job, struct profile **out, struct proton_error *err)
{
	size_t worth;
	int status = rank_job_merge(job, out, err);

	if (status == PROTON_OK && job->columns) {
		uint32_t *nodes = rank_nodes_worth(*out, job->columns, &worth);
		struct rank_path *wanted = rank_paths_of(*out, nodes, worth);
		status = rank_times_columns(&job->times, *out, wanted, nodes, worth, err);
		free(wanted);
		free(nodes);
		if (status != PROTON_OK)
			profile_free(*out);
	}
	if (status == PROTON_OK && job->keeps_times)
		rank_turn_keep(*out, &job->times);
	return status;
}
