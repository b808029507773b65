/* Estimates from windows: simulated loops, of which a store sees only the windows. */
#include "unit/recorded.h"
#include "unit/tap.h"

#include "base/clock.h"
#include "model/estimates.h"
#include "model/load.h"
#include "model/rollup.h"
#include "record/names/frames.h"
#include "record/store/devices.h"
#include "record/store/store_rows.h"

#define SECOND 1000000000ull
#define WINDOW (SECOND / 20)
#define KERNELS 4u

static const char *const names[KERNELS] = {"every", "small", "large", "rare"};
static const uint64_t lengths_ns[KERNELS] = {1000000, 700000, 2500000, 4000000};

static uint64_t random_state = 1;

static double uniform(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (double)(random_state >> 11) * 0x1p-53;
}

/* A loop of a server, its windows, and its true times. */
struct simulation {
	struct store store;
	uint32_t scope, contexts[KERNELS];
	uint32_t device;
	uint64_t begin_ns, end_ns;
	uint64_t open_ns; /* the window */
	uint64_t cycle_ns;
	uint64_t distance_ns;
	uint32_t windows;
	double growth; /* factor of the distance from window to window */
	double drift;  /* kernels become that much longer in the run */
	double change; /* the probability of another burst */
	bool is_open;
	double true_ns[KERNELS], true_count[KERNELS];
};

static void begin(struct simulation *run, uint64_t seconds)
{
	/* Makes the process ready. */
	if (!random_state)
		random_state = 1;
	CHECK_DONE(store_init(&run->store, NULL, false, &err));
	run->scope = context_tree_child(PROTON_CONTEXT_ROOT, frames_add(FRAME_NAME, "loop", 4));
	for (uint32_t i = 0; i < KERNELS; i++)
		run->contexts[i] = context_tree_child(run->scope, frames_add(FRAME_KERNEL, names[i],
									     strlen(names[i])));
	run->device = devices_add(&(struct device){.type = "CUDA", .arch = "90"});
	run->begin_ns = clock_monotonic_ns();
	run->end_ns = run->begin_ns + seconds * SECOND;
	store_windows_set_active(&run->store.windows, true, run->begin_ns);
	run->distance_ns = SECOND;
	run->open_ns = run->begin_ns;
}

static struct record_window window_of(const struct simulation *run)
{
	return (struct record_window){
		.open_ns = run->open_ns,
		.close_ns = run->open_ns + WINDOW,
		.group = run->windows ? (run->windows - 1) % ESTIMATES_GROUPS + 1 : 0,
		.weight = run->windows ? (double)run->distance_ns / WINDOW : 1,
		.slowness = 1,
	};
}

/* Closes windows that have ended, and opens the next; `now_ns` is that of the next launch. */
static void move_windows(struct simulation *run, uint64_t now_ns)
{
	while (now_ns >= run->open_ns + WINDOW) {
		struct record_window window = window_of(run);

		store_windows_set(&run->store, &window);
		run->cycle_ns = run->windows ? run->cycle_ns + run->distance_ns : window.close_ns;
		run->distance_ns = (uint64_t)((double)run->distance_ns * run->growth);
		run->open_ns = run->cycle_ns +
			       (uint64_t)(uniform() * (double)(run->distance_ns - WINDOW));
		run->windows++;
	}
}

static void launch(struct simulation *run, uint32_t kernel, uint64_t *now_ns)
{
	double age = (double)(*now_ns - run->begin_ns) / (double)(run->end_ns - run->begin_ns);
	uint64_t ns = (uint64_t)((double)lengths_ns[kernel] * (0.8 + 0.4 * uniform()) *
				 (1 + run->drift * age));

	move_windows(run, *now_ns);
	run->true_ns[kernel] += (double)ns;
	run->true_count[kernel] += 1;
	if (*now_ns >= run->open_ns)
		store_kernel(&run->store, run->contexts[kernel], run->scope, run->store.epoch,
			     &(struct execution){.device = run->device,
						 .start_ns = *now_ns,
						 .end_ns = *now_ns + ns});
	*now_ns += ns;
}

/* Requests come in bursts of other sizes; the rare kernel begins a burst. */
static void loop(struct simulation *run)
{
	uint64_t now_ns = run->begin_ns;
	bool is_large = false;

	while (now_ns < run->end_ns) {
		if (uniform() < run->change) {
			is_large = uniform() < 0.5;
			launch(run, 3, &now_ns);
		}
		launch(run, 0, &now_ns);
		launch(run, is_large ? 2 : 1, &now_ns);
		now_ns += (uint64_t)(uniform() * 1000000); /* the host */
	}
	move_windows(run, run->end_ns);
	store_windows_set_active(&run->store.windows, false, run->end_ns);
	/* A window that is open then ends with the program. */
	if (run->end_ns > run->open_ns) {
		struct record_window window = window_of(run);

		window.close_ns = run->end_ns;
		store_windows_set(&run->store, &window);
	}
	store_windows_finish(&run->store, run->end_ns);
}

static struct profile *settled(struct simulation *run)
{
	struct profile *profile = NULL;

	CHECK_DONE(store_profile(&run->store, PHASE_ALL, &profile, &err));
	store_fini(&run->store, true);
	return profile;
}

static struct column column_of(const struct profile *profile, const char *name)
{
	struct column column;

	CHECK_DONE(rollup_metric(profile, name, true, &column, &err));
	return column;
}

/* Runs in which the true time is in the interval: by kernel, and for their sum. */
struct tally {
	uint32_t seen[KERNELS + 1], covered[KERNELS + 1];
	double bias[KERNELS];
};

static void judge(const struct simulation *run, const struct profile *profile, struct tally *tally)
{
	struct column time = column_of(profile, "time (ns)");
	struct column interval = column_of(profile, ESTIMATES_INTERVAL);
	double sum_ns = 0;

	for (uint32_t i = 0; i < KERNELS; i++) {
		char path[64];
		uint32_t node;

		snprintf(path, sizeof(path), "loop/%s", names[i]);
		node = rec_node(profile, path);
		sum_ns += run->true_ns[i];
		if (node == REC_NOWHERE)
			continue; /* in no window */
		tally->seen[i]++;
		tally->bias[i] += time.value[node] / run->true_ns[i] - 1;
		tally->covered[i] += fabs(time.value[node] - run->true_ns[i]) <=
				     interval.value[node];
	}
	tally->seen[KERNELS]++;
	tally->covered[KERNELS] += fabs(time.value[0] - sum_ns) <= interval.value[0];
	column_fini(&time);
	column_fini(&interval);
}

/* A sanitizer has nothing to find in the shares, and sees each path in a few runs. */
#define RUNS (TAP_IS_SANITIZED ? 20u : 1000u)

static void check_coverage(struct simulation kind, uint64_t seconds, double max)
{
	struct tally tally = {0};

	rec_start("a");
	for (uint32_t i = 0; i < RUNS; i++) {
		struct simulation run = kind;
		struct profile *profile;

		begin(&run, seconds);
		loop(&run);
		profile = settled(&run);
		judge(&run, profile, &tally);
		profile_free(profile);
	}
	for (uint32_t i = 0; i <= KERNELS; i++) {
		double share = (double)tally.covered[i] / tally.seen[i];

		printf("# %s: %u runs, covered %.3f, bias %.4f\n", i < KERNELS ? names[i] : "all",
		       tally.seen[i], share, i < KERNELS ? tally.bias[i] / tally.seen[i] : 0);
		if (TAP_IS_SANITIZED)
			continue;
		CHECK(share >= 0.93);
		CHECK(share <= max);
	}
	rec_finalize(PROTON_ALL_SESSIONS, "none");
}

TEST(intervals_cover_the_true_times_in_95_of_100_runs)
{
	check_coverage((struct simulation){.growth = 1, .change = 0.1}, 100, 0.97);
}

TEST(intervals_cover_the_true_times_if_the_distance_grows)
{
	check_coverage((struct simulation){.growth = 1.02, .change = 0.1}, 200, 0.97);
}

TEST(intervals_cover_the_true_times_of_kernels_that_become_longer)
{
	check_coverage((struct simulation){.growth = 1, .change = 0.1, .drift = 1}, 100, 0.97);
}

/* There is one window in each distance, so the error is smaller than that of independent ones. */
TEST(intervals_are_too_long_if_a_loop_changes_as_slowly_as_the_windows_come)
{
	check_coverage((struct simulation){.growth = 1, .change = 0.02}, 100, 0.99);
}

/* A damaged file may have any words. */
TEST(words_of_any_value_give_numbers)
{
	static const double wrong[] = {NAN, INFINITY, -INFINITY, -1, 0, 1e300, 1e-300};

	rec_start("a");
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct simulation run = {.growth = 1};
		struct profile *profile;
		struct column time;
		uint32_t name = metric_names_add(ESTIMATES_METRIC);
		double words[ESTIMATES_WORDS];
		uint64_t now_ns;

		begin(&run, 1);
		now_ns = run.begin_ns;
		launch(&run, 0, &now_ns);
		for (uint32_t word = 0; word < ESTIMATES_WORDS; word++)
			words[word] = word % 2 ? wrong[i] : 1;
		store_metric_add_doubles(&run.store, 0, 0, name, words, ESTIMATES_WORDS);
		store_metric_add_doubles(&run.store, store_find_node(&run.store, run.contexts[0]),
					 0, name, words, ESTIMATES_WORDS);
		profile = settled(&run);
		time = column_of(profile, "time (ns)");
		CHECK(time.value[0] >= 0);
		CHECK(time.value[0] < 1e19);
		column_fini(&time);
		profile_free(profile);
	}
	rec_finalize(PROTON_ALL_SESSIONS, "none");
}

TEST(kernels_of_a_window_that_was_not_closed_count_like_the_others)
{
	struct simulation run = {.growth = 1};
	struct column time;

	rec_start("a");
	begin(&run, 10);
	uint64_t now_ns = run.begin_ns;
	launch(&run, 0, &now_ns);
	move_windows(&run, run.begin_ns + WINDOW);
	run.open_ns = now_ns;
	launch(&run, 1, &now_ns); /* the process is killed */
	struct profile *profile = settled(&run);
	time = column_of(profile, "time (ns)");
	/* The active time ends with the first window. */
	CHECK_NEAR(time.value[rec_node(profile, "loop/every")], run.true_ns[0], 1);
	CHECK_NEAR(time.value[rec_node(profile, "loop/small")], run.true_ns[1], 1);
	column_fini(&time);
	profile_free(profile);
	rec_finalize(PROTON_ALL_SESSIONS, "none");
}
