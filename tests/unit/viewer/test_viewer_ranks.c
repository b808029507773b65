/* viewer/ranks: merging the files of ranks, columns per rank, statistics of values, names. */
#include "unit/merged_ranks.h"

#include "base/array.h"
#include "viewer/query/pattern.h"
#include "viewer/ranks/rank_merge.h"
#include "viewer/ranks/rank_report.h"

#define RANKS 150u /* more than two chunks */

static struct proton_error err;

static uint32_t node_of(struct profile *profile, uint32_t parent, const char *name)
{
	return ranks_node(profile, parent, name, FRAME_NAME);
}

static void add_kernel(struct profile *profile, uint32_t node, uint64_t time_ns)
{
	ranks_kernel(
		profile, node,
		(struct profile_kernel){
			.count = 1, .total_ns = time_ns, .min_ns = time_ns, .max_ns = time_ns});
}

static void add_double(struct profile *profile, uint32_t node, const char *name, double value)
{
	uint32_t metric = profile_metric(profile, profile_string(profile, name, strlen(name)),
					 PROTON_METRIC_DOUBLE, 0);

	profile_value(profile, node, metric)->as.float64 = value;
}

static void add_int(struct profile *profile, uint32_t node, const char *name, int64_t value)
{
	uint32_t metric = profile_metric(profile, profile_string(profile, name, strlen(name)),
					 PROTON_METRIC_INT64, 0);

	profile_value(profile, node, metric)->as.int64 = value;
}

/* Time in "even" below "step" in even ranks only; "share" is an integer in the first 100 ranks. */
static struct profile *make_rank(uint32_t rank)
{
	struct profile *profile = profile_new();
	uint32_t step = node_of(profile, 0, "step");
	char text[16];

	add_kernel(profile, node_of(profile, step, "all"), 1000 + rank);
	if (rank % 2 == 0)
		add_kernel(profile, node_of(profile, step, "even"), 10 * (rank + 1));
	add_int(profile, step, "tokens", (int64_t)rank - 10);
	if (rank < 100)
		add_int(profile, step, "share", 2);
	else
		add_double(profile, step, "share", 0.5);
	snprintf(text, sizeof(text), "%u", rank);
	profile_info(profile, "rank", text);
	profile_info(profile, "world_size", "150");
	profile_info(profile, "version", rank ? "0.1.0" : "0.0.9");
	return profile;
}

static char directory[] = "/tmp/proton-ranks-XXXXXX"; /* has the job */

static char *write_rank(struct profile *profile, const char *name)
{
	char *path;
	struct out out;

	CHECK(asprintf(&path, "%s/%s.proton", directory, name) > 0);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	CHECK(fd >= 0);
	out_init(&out, fd);
	CHECK_OK(profile_save(profile, &out, &err), err);
	CHECK_OK(out_finish(&out, &err), err);
	out_fini(&out);
	close(fd);
	profile_free(profile);
	return path;
}

static char *paths[RANKS + 1];
static size_t path_count;

static void write_job(void)
{
	char name[16];

	CHECK(mkdtemp(directory) != NULL);
	for (uint32_t rank = 0; rank < RANKS; rank++) {
		snprintf(name, sizeof(name), "rank%06u", rank);
		paths[path_count++] = write_rank(make_rank(rank), name);
	}
}

static void remove_job(void)
{
	for (size_t i = 0; i < path_count; i++) {
		unlink(paths[i]);
		free(paths[i]);
	}
	rmdir(directory);
}

/* The merged job of the paths, with columns; saved and loaded again with `is_reloaded`. */
static struct profile *merge_job(bool is_reloaded)
{
	struct profile *profile;
	struct rank_job job;

	rank_job_init(&job, paths, path_count);
	job.is_mixed_allowed = true;
	CHECK_OK(rank_merge_all(&job, &profile, &err), err);
	rank_job_fini(&job);
	return is_reloaded ? ranks_reload(profile) : profile;
}

static uint32_t child(const struct profile *profile, uint32_t parent, const char *name)
{
	for (uint32_t node = profile->nodes[parent].first_child; node;
	     node = profile->nodes[node].next_sibling)
		if (strcmp(profile_text(profile, profile->frames[profile->nodes[node].frame].name),
			   name) == 0)
			return node;
	return 0;
}

static void check_columns(const struct profile *profile)
{
	uint32_t step = child(profile, 0, "step");
	const uint64_t *steps = ranks_column(profile, step);
	const uint64_t *even = ranks_column(profile, child(profile, step, "even"));

	CHECK(steps && even);
	CHECK(ranks_column(profile, 0) != NULL);
	CHECK_EQ(profile->ranks->count, RANKS);
	for (uint32_t rank = 0; rank < RANKS; rank++) {
		CHECK_EQ(profile->ranks->rows[rank].rank, rank);
		CHECK_U64(even[rank], rank % 2 ? 0 : 10 * (rank + 1));
		CHECK_U64(steps[rank], 1000 + rank + even[rank]);
	}
}

TEST(columns_have_the_time_of_each_rank)
{
	write_job();
	struct profile *profile = merge_job(false);
	check_columns(profile);
	profile = ranks_reload(profile);
	check_columns(profile);
	profile_free(profile);
	remove_job();
}

static int make_column(const struct rank_job *job, struct profile *profile, uint32_t node)
{
	struct rank_path *path = rank_paths_of(profile, &node, 1);
	int status = rank_times_columns(&job->times, profile, path, &node, 1, &err);

	free(path);
	return status;
}

TEST(columns_of_a_job_are_those_of_the_nodes_that_are_asked_for)
{
	struct rank_job job;
	struct profile *profile;
	uint32_t all;

	write_job();
	rank_job_init(&job, paths, path_count);
	CHECK_OK(rank_job_merge(&job, &profile, &err), err);
	CHECK_EQ(profile->ranks->column_count, 0);
	all = child(profile, child(profile, 0, "step"), "all");
	CHECK_OK(make_column(&job, profile, all), err);
	CHECK_EQ(profile->ranks->column_count, 1);
	CHECK_U64(ranks_column(profile, all)[149], 1149);
	CHECK(!ranks_column(profile, 0));
	rank_job_fini(&job);
	profile_free(profile);
	remove_job();
}

TEST(times_that_cannot_be_read_again_are_an_error)
{
	struct rank_job job;
	struct profile *profile;
	uint32_t step;

	write_job();
	rank_job_init(&job, paths, path_count);
	CHECK_OK(rank_job_merge(&job, &profile, &err), err);
	step = child(profile, 0, "step");
	CHECK_EQ(ftruncate(job.times.fd, (off_t)job.times.bytes - 1), 0);
	CHECK_EQ(make_column(&job, profile, step), PROTON_E_IO);
	CHECK_STR(err.text, "cannot read the temporary file of ranks: Input/output error");
	rank_job_fini(&job);
	profile_free(profile);
	remove_job();
}

static void check_tokens(const struct row_value_spread *spread)
{
	CHECK(spread != NULL);
	CHECK_EQ(spread->ranks, RANKS);
	CHECK_EQ(spread->type, PROTON_METRIC_INT64);
	CHECK(spread->sum.int64 == 149 * 150 / 2 - 10 * 150);
	CHECK(spread->min.int64 == -10 && spread->min_rank == 0);
	CHECK(spread->max.int64 == 139 && spread->max_rank == 149);
	CHECK_EQ(spread->bucket[0], 11); /* below 0.25: -10 to 0 */
	CHECK_EQ(spread->bucket[2], 3);  /* 1 to 3 */
	CHECK_EQ(spread->bucket[3], 12); /* 4 to 15 */
	for (uint32_t i = 0; i < SPREAD_TOP; i++) {
		CHECK_EQ(spread->top_rank[i], 149 - i);
		CHECK(spread->top[i].int64 == 139 - (int64_t)i);
	}
}

TEST(each_number_has_statistics_over_the_ranks)
{
	uint32_t step;

	write_job();
	struct profile *profile = merge_job(true);
	step = child(profile, 0, "step");
	CHECK_EQ(profile->metric_count, 2);
	check_tokens(value_spreads_find(&profile->ranks->values, step, 0));
	/* An integer in some ranks and a double in others is a double. */
	const struct row_value_spread *share = value_spreads_find(&profile->ranks->values, step, 1);
	CHECK(share != NULL);
	CHECK_EQ(share->type, PROTON_METRIC_DOUBLE);
	CHECK(share->sum.float64 == 225 && share->squares == 412.5);
	CHECK(share->min.float64 == 0.5 && share->min_rank == 100);
	CHECK(share->max.float64 == 2 && share->max_rank == 0);
	CHECK_EQ(share->top_rank[7], 7);
	CHECK(!value_spreads_find(&profile->ranks->values, 0, 0));
	profile_free(profile);
	remove_job();
}

TEST(second_profile_of_a_rank_is_a_duplicate)
{
	write_job();
	paths[path_count++] = write_rank(make_rank(7), "copy");
	struct profile *profile = merge_job(false);
	CHECK_EQ(profile->ranks->count, RANKS + 1);
	CHECK_EQ(profile->ranks->rows[7].state, RANK_FINISHED);
	CHECK_EQ(profile->ranks->rows[8].rank, 7);
	CHECK_EQ(profile->ranks->rows[8].state, RANK_DUPLICATE);
	CHECK_EQ(profile->ranks->rows[9].state, RANK_FINISHED);
	CHECK_STR(profile_text(profile, profile->ranks->rows[0].version), "0.0.9");
	CHECK_STR(profile_text(profile, profile->ranks->rows[9].version), "0.1.0");
	profile_free(profile);
	remove_job();
}

TEST(file_that_is_not_a_profile_is_a_damaged_rank_with_the_reason)
{
	write_job();
	CHECK_EQ(truncate(paths[3], 0), 0);
	CHECK_EQ(truncate(paths[4], 200), 0); /* in the tables */
	struct profile *profile = merge_job(false);
	CHECK_EQ(profile->ranks->rows[3].state, RANK_DAMAGED);
	CHECK_HAS(profile_text(profile, profile->ranks->rows[3].reason), "it is empty");
	CHECK_EQ(profile->ranks->rows[4].state, RANK_DAMAGED);
	CHECK_EQ(profile->ranks->rows[5].state, RANK_FINISHED);
	profile_free(profile);
	remove_job();
}

static void check_name(const char *name, const regex_t *pattern, const char *expected)
{
	struct profile *profile = profile_new();
	uint32_t node = node_of(profile, 0, name);

	profile->pid = 4321;
	rank_names_unify(profile, 17, pattern);
	CHECK_STR(profile_text(profile, profile->frames[profile->nodes[node].frame].name),
		  expected);
	profile_free(profile);
}

TEST(rank_process_id_and_addresses_in_names_become_stars)
{
	static const char *const cases[][2] = {
		{"send from rank 17", "send from rank *"},
		{"Rank=17 of 32", "Rank=* of 32"},
		{"rank17", "rank*"},
		{"rank 18", "rank 18"}, /* another rank: a peer */
		{"rank 170", "rank 170"},
		{"17", "17"}, /* only after "rank" */
		{"pid 4321", "pid *"},
		{"worker-4321.log", "worker-*.log"},
		{"x4321", "x4321"},
		{"conv43210", "conv43210"},
		{"f at 0x7f12ab34cd", "f at 0x*"},
		{"f at 0xabcdef", "f at 0x*"},
		{"0x10", "0x10"}, /* a constant */
		{"ffff", "ffff"},
		{"", ""},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		check_name(cases[i][0], NULL, cases[i][1]);
}

TEST(expression_of_the_user_takes_parts_out_of_names)
{
	regex_t pattern;

	CHECK_OK(pattern_compile(&pattern, "shard_\\d+|^tmp[a-z]*", 0, &err), err);
	check_name("load shard_3 and shard_14", &pattern, "load * and *");
	check_name("tmpabc of rank 17", &pattern, "* of rank *");
	check_name("no tmp", &pattern, "no tmp");
	regfree(&pattern);
	CHECK_OK(pattern_compile(&pattern, "x*", 0, &err), err);
	check_name("axxb", &pattern, "a*b"); /* nothing is not replaced */
	regfree(&pattern);
}

TEST(report_tells_that_waiting_of_further_contexts_is_not_known)
{
	static const char sentence[] = "the waiting in further contexts or communicators is not "
				       "known: a job has at most 65,536\n";

	for (int is_limited = 0; is_limited <= 1; is_limited++) {
		struct profile *profile = profile_new();
		struct wait_series series = {.row = {.node = node_of(profile, 0, "step"),
						     .occurrences = 1,
						     .stride = 1}};
		struct out out;

		series.row.flags = is_limited ? COLLECTIVE_LIMITED : 0;
		profile->waits = calloc(1, sizeof(*profile->waits));
		CHECK(ARRAY_ADD(profile->waits->series, profile->waits->count, series));
		out_init(&out, -1);
		wait_report_text(profile, 8, NAMES_SHORT, &out);
		out_byte(&out, '\0');
		CHECK_EQ(strstr(out.bytes, sentence) != NULL, is_limited);
		out_fini(&out);
		profile_free(profile);
	}
}
