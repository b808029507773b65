/* record/reuse: cleared names make space for new ones, and no name is ever wrong. */
#include "unit/recorded.h"

#include <sched.h>

#include "record/names/frames.h"
#include "record/sets/session.h"
#include "record/thread/adding.h"

static const char folded[] = "lost: name beyond the limits, in (other)";
static const char late[] = "lost: recorded after its phase was cleared";

static void set_children(const char *value)
{
	CHECK_EQ(setenv("PROTON_MAX_CHILDREN", value, 1), 0);
}

/*
 * A value that identifies the scope it was recorded in, even when summed. The number of the scope
 * is in its name, and some names are much longer than others.
 */
#define ONE (1ll << 20)

static const char *name_of_number(char *name, uint32_t number)
{
	sprintf(name, "r %u %.*s", number, (int)(number % 97 == 0 ? 150 : number % 13),
		"................................................................................"
		"......................................................................");
	return name;
}

static void add_number(struct proton_context where, uint32_t number)
{
	struct proton_metric metric = {
		.name = "number", .type = PROTON_METRIC_INT64, .value.int64 = number * ONE + 1};

	CHECK_EQ(proton_metrics_add(where, &metric, 1, NULL), PROTON_OK);
}

static void kernel_of_number(uint32_t number)
{
	char name[16];

	sprintf(name, "k %u", number % 7);
	rec_kernel(name);
}

static uint64_t enter_number(uint32_t number)
{
	char name[200];

	return proton_scope_enter(name_of_number(name, number));
}

static void request(uint32_t number)
{
	uint64_t token = enter_number(number);

	add_number(proton_scope_context(token), number);
	kernel_of_number(number);
	proton_scope_exit(token, NULL);
}

/* Every node has the values and kernels of the scope that its name says, or of "(other)". */
static uint32_t check_numbers(const struct profile *profile)
{
	uint32_t scopes = 0;

	for (uint32_t i = 1; i < profile->node_count; i++) {
		const struct profile_node *node = &profile->nodes[i];
		char text[256];
		unsigned number;

		profile_frame_text(profile, node->frame, text, sizeof(text));
		if (sscanf(text, "r %u", &number) != 1)
			continue;
		scopes++;
		for (uint32_t v = node->first_value; v; v = profile->values[v].next) {
			int64_t sum = profile->values[v].as.int64;

			CHECK_EQ(sum >> 20, (int64_t)number * (sum & (ONE - 1)));
		}
		for (uint32_t child = node->first_child; child;
		     child = profile->nodes[child].next_sibling) {
			unsigned kernel;

			profile_frame_text(profile, profile->nodes[child].frame, text,
					   sizeof(text));
			if (sscanf(text, "k %u", &kernel) == 1)
				CHECK_EQ(kernel, number % 7);
		}
	}
	return scopes;
}

TEST(each_phase_has_its_own_names_when_earlier_ones_are_cleared)
{
	uint64_t nodes = 0;
	uint64_t strings = 0;

	set_children("100");
	int session = rec_start("a");
	for (uint32_t phase = 0; phase < 300; phase++) {
		struct profile *profile;
		char path[200];

		for (uint32_t i = 0; i < 100; i++)
			request(phase * 100 + i);
		profile = rec_load_phase("a.proton", phase);
		CHECK_EQ(check_numbers(profile), 100);
		CHECK_EQ(rec_node(profile, "(other)"), REC_NOWHERE);
		CHECK(rec_node(profile, name_of_number(path, phase * 100 + 7)) != REC_NOWHERE);
		rec_next_phase(session);
		if (phase == 200) {
			nodes = rec_rows("a.proton", TABLE_NODES);
			strings = rec_rows("a.proton", TABLE_STRINGS);
		}
	}
	CHECK_U64(rec_counter(session, folded), 0);
	CHECK_U64(rec_rows("a.proton", TABLE_NODES), nodes);
	CHECK_LE(rec_rows("a.proton", TABLE_STRINGS), strings + 64); /* longer names move */
	rec_finalize(session, "none");
}

TEST(cleared_names_can_be_recorded_again)
{
	set_children("10");
	int session = rec_start("a");
	for (uint32_t phase = 0; phase < 50; phase++) {
		struct profile *profile;

		for (uint32_t i = 0; i < 8; i++)
			request((phase + i) % 20);
		request(1000); /* of every phase */
		profile = rec_load_phase("a.proton", phase);
		CHECK_EQ(check_numbers(profile), 9);
		rec_next_phase(session);
	}
	CHECK_U64(rec_counter(session, folded), 0);
	rec_finalize(session, "none");
}

TEST(kept_data_keeps_its_names)
{
	set_children("10");
	int session = rec_start("a");
	for (uint32_t i = 0; i < 10; i++)
		request(i);
	rec_advance(session);
	for (uint32_t i = 0; i < 10; i++)
		request(10 + i);
	/* The phase before the cleared one is kept: nothing is used again. */
	rec_advance(session);
	CHECK_DONE(proton_phase_clear(session, 1, false, &err));
	for (uint32_t i = 0; i < 10; i++)
		request(20 + i);
	CHECK_U64(rec_counter(session, folded), 20);
	struct profile *profile = rec_load_phase("a.proton", 0);
	CHECK_EQ(check_numbers(profile), 10);
	rec_finalize(session, "proton");
	profile = rec_load("a.proton");
	CHECK_EQ(check_numbers(profile), 10);
}

TEST(every_session_has_to_have_cleared_a_name)
{
	int a, b;

	set_children("10");
	a = rec_start("a");
	b = rec_start("b");
	for (uint32_t i = 0; i < 10; i++)
		request(i);
	rec_next_phase(a);
	for (uint32_t i = 0; i < 10; i++)
		request(10 + i);
	CHECK_U64(rec_counter(a, folded), 10);
	struct profile *profile = rec_load("b.proton");
	CHECK_EQ(check_numbers(profile), 10);
	rec_next_phase(a);
	rec_next_phase(b);
	for (uint32_t i = 0; i < 10; i++)
		request(20 + i);
	CHECK_U64(rec_counter(a, folded), 10);
	for (int file = 0; file < 2; file++) {
		profile = rec_load_phase(file ? "b.proton" : "a.proton", file ? 1 : 2);
		CHECK_EQ(check_numbers(profile), 10);
	}
	rec_finalize(a, "none");
	rec_finalize(b, "none");
}

TEST(an_open_scope_keeps_its_name)
{
	uint64_t outer, inner;

	set_children("10");
	int session = rec_start("a");
	outer = proton_scope_enter("outer");
	inner = proton_scope_enter("inner");
	for (uint32_t phase = 0; phase < 5; phase++) {
		for (uint32_t i = 0; i < 10; i++)
			request(phase * 10 + i);
		rec_next_phase(session);
	}
	rec_kernel("k");
	proton_scope_exit(inner, NULL);
	rec_kernel("k");
	rec_next_phase(session);
	for (uint32_t i = 0; i < 10; i++)
		request(100 + i);
	rec_kernel("k");
	proton_scope_exit(outer, NULL);
	for (uint32_t i = 0; i < 10; i++)
		request(200 + i);
	struct profile *profile = rec_load_phase("a.proton", 6);
	CHECK_EQ(check_numbers(profile), 8 + 9); /* "inner", "k" and "outer" have places */
	CHECK_EQ(rec_node(profile, "outer/inner"), REC_NOWHERE);
	CHECK_U64(rec_count(profile, "outer/k"), 1);
	CHECK(rec_node(profile, "outer/r 100 .........") != REC_NOWHERE);
	rec_finalize(session, "none");
}

TEST(a_frame_that_the_program_holds_keeps_its_name)
{
	uint32_t frame, length;

	set_children("10");
	int session = rec_start("a");
	proton_scope_exit(proton_scope_enter("mine"), NULL);
	frame = proton_frame("mine", 4);
	for (uint32_t i = 0; i < 100; i++) {
		request(i);
		rec_next_phase(session);
	}
	CHECK_EQ(proton_frame("mine", 4), frame);
	CHECK_STR(frames_text(frames_get(frame)->name, &length), "mine");
	proton_scope_exit(proton_scope_enter_frame(frame), NULL);
	CHECK(rec_node(rec_load_phase("a.proton", 100), "mine") != REC_NOWHERE);
	rec_finalize(session, "none");
}

TEST(records_that_arrive_after_their_phase_was_cleared_are_lost_under_any_name)
{
	struct proton_context kept[10];

	set_children("10");
	int session = rec_start("a");
	for (uint32_t i = 0; i < 10; i++) {
		uint64_t token = enter_number(i);

		kept[i] = proton_context_here();
		proton_scope_exit(token, NULL);
	}
	rec_next_phase(session);
	for (uint32_t i = 0; i < 10; i++)
		request(10 + i);
	for (uint32_t i = 0; i < 10; i++) {
		add_number(kept[i], i);
		add_number(proton_context_enter(kept[i], proton_frame("below", 5)), i);
	}
	CHECK_U64(rec_counter(session, late), 20);
	CHECK_U64(rec_counter(session, folded), 0);
	struct profile *profile = rec_load_phase("a.proton", 1);
	CHECK_EQ(check_numbers(profile), 10);
	for (uint32_t i = 1; i < profile->node_count; i++) {
		char text[256];

		profile_frame_text(profile, profile->nodes[i].frame, text, sizeof(text));
		CHECK(strcmp(text, "below") != 0);
	}
	rec_finalize(session, "none");
}

/* Clears phase 0 and makes names until the space is used up: phase 1 is unchanged. */
static void flood_after_clear(int session, uint32_t scopes)
{
	struct profile *profile = rec_load_phase("a.proton", 1);

	CHECK_EQ(check_numbers(profile), scopes);
	CHECK_DONE(proton_phase_clear(session, 0, true, &err));
	rec_advance(session);
	for (uint32_t i = 0; i < 40; i++)
		request(100 + i);
	profile = rec_load_phase("a.proton", 1);
	CHECK_EQ(check_numbers(profile), scopes);
	profile = rec_load("a.proton");
	check_numbers(profile);
}

TEST(a_name_of_two_phases_stays_until_both_are_cleared)
{
	set_children("10");
	int session = rec_start("a");
	for (uint32_t i = 0; i < 10; i++)
		request(i);
	rec_advance(session);
	for (uint32_t i = 0; i < 7; i++)
		request(i);
	flood_after_clear(session, 7);
	CHECK_U64(rec_counter(session, folded), 37);
	rec_finalize(session, "none");
}

TEST(pending_launches_keep_the_name_of_a_scope_entered_in_an_earlier_phase)
{
	uint64_t tokens[2];

	set_children("10");
	int session = rec_start("a");
	for (uint32_t i = 0; i < 8; i++)
		request(i);
	for (uint32_t i = 0; i < 2; i++) /* the second below the first */
		tokens[i] = enter_number(10 + i);
	rec_advance(session);
	struct proton_context where = proton_scope_context(tokens[1]);
	proton_scope_exit(tokens[0], NULL);
	flood_after_clear(session, 0);
	add_number(where, 11);
	struct profile *profile = rec_load_phase("a.proton", 1);
	CHECK_EQ(check_numbers(profile), 2);
	CHECK(rec_value(profile, "r 10 ........../r 11 ...........", "number"));
	rec_finalize(session, "none");
}

static void *take_context(void *where)
{
	*(struct proton_context *)where = proton_context_here();
	return NULL;
}

TEST(a_thread_that_was_in_the_main_threads_scope_keeps_its_name)
{
	struct proton_context where;
	pthread_t thread;

	set_children("10");
	int session = rec_start("a");
	for (uint32_t i = 0; i < 9; i++)
		request(i);
	uint64_t token = enter_number(10);
	rec_advance(session);
	CHECK_EQ(pthread_create(&thread, NULL, take_context, &where), 0);
	pthread_join(thread, NULL);
	proton_scope_exit(token, NULL);
	flood_after_clear(session, 0);
	add_number(where, 10);
	struct profile *profile = rec_load_phase("a.proton", 1);
	CHECK_EQ(check_numbers(profile), 1);
	CHECK(rec_value(profile, "r 10 ..........", "number"));
	rec_finalize(session, "none");
}

TEST(a_context_made_late_is_not_left_below_another_name)
{
	set_children("10");
	int session = rec_start("a");
	for (uint32_t i = 0; i < 9; i++)
		request(i);
	uint64_t token = enter_number(10);
	struct proton_context where = proton_context_here();
	proton_scope_exit(token, NULL);
	rec_advance(session);
	add_number(proton_context_enter(where, proton_frame("below", 5)), 10);
	flood_after_clear(session, 0);
	struct profile *profile = rec_load("a.proton");
	for (uint32_t i = 1; i < profile->node_count; i++) {
		char text[256];

		profile_frame_text(profile, profile->nodes[i].frame, text, sizeof(text));
		CHECK(strcmp(text, "below") != 0);
	}
	rec_finalize(session, "none");
}

TEST(a_remembered_name_is_forgotten_when_it_is_replaced)
{
	uint64_t known = 0;

	set_children("10");
	int session = rec_start("a");
	CHECK_EQ(proton_scope_enter_name(NULL, 0, &known), 0);
	proton_scope_exit(proton_scope_enter_name("mine", 4, &known), NULL);
	CHECK_NE(known, 0);
	uint64_t token = proton_scope_enter_name(NULL, 0, &known);
	CHECK_NE(token, 0);
	proton_scope_exit(token, NULL);
	for (uint32_t i = 0; i < 30; i++) {
		if (i % 10 == 0)
			rec_next_phase(session);
		request(i);
	}
	CHECK_EQ(proton_scope_enter_name(NULL, 0, &known), 0);
	rec_next_phase(session);
	token = proton_scope_enter_name("mine", 4, &known);
	CHECK_NE(token, 0);
	rec_kernel("k");
	proton_scope_exit(token, NULL);
	EXPECT(rec_load_phase("a.proton", 4), {"mine/k", 1});
	rec_finalize(session, "none");
}

TEST(events_of_kept_phases_keep_their_names)
{
	set_children("10");
	int session = REC_START(.data = "trace");
	for (uint32_t phase = 0; phase < 20; phase++) {
		if (phase)
			rec_next_phase(session);
		for (uint32_t i = 0; i < 10; i++)
			request(phase * 10 + i);
	}
	CHECK_U64(rec_counter(session, folded), 0);
	CHECK_EQ(check_numbers(rec_load_phase("a.proton", 19)), 10);
	rec_finalize(session, "none");
}

/* ------------------------------------------------------------------ tasks */

static _Thread_local struct proton_task running;

static bool provide(struct proton_task *out)
{
	*out = running;
	return true;
}

static void run_task(uint64_t id, uint64_t origin)
{
	running = (struct proton_task){id, origin};
	proton_tasks_follow();
}

TEST(a_task_that_waits_keeps_the_names_of_its_scopes)
{
	uint64_t tokens[3], origin, token;

	set_children("20");
	int session = rec_start("a");
	proton_tasks_provider_set(provide);
	for (uint32_t i = 0; i < 3; i++) {
		run_task(i + 1, 0);
		tokens[i] = enter_number(i);
	}
	run_task(0, 0);
	/* One is made in a scope that ends before it runs. */
	token = enter_number(10);
	origin = proton_task_origin();
	proton_scope_exit(token, NULL);
	for (uint32_t phase = 0; phase < 5; phase++) {
		for (uint32_t i = 0; i < 20; i++)
			request(100 + phase * 20 + i);
		rec_next_phase(session);
	}
	for (uint32_t i = 0; i < 3; i++) {
		run_task(i + 1, 0);
		add_number(proton_context_here(), i);
		proton_scope_exit(tokens[i], NULL);
	}
	run_task(4, origin);
	add_number(proton_context_here(), 10);
	run_task(0, 0);
	struct profile *profile = rec_load_phase("a.proton", 5);
	CHECK_EQ(check_numbers(profile), 4);
	CHECK(rec_value(profile, "r 10 ..........", "number"));
	CHECK(rec_value(profile, "r 2 ..", "number"));
	CHECK_DONE(proton_finalize(session, "none", &err));
}

/* ------------------------------------------------------------------ threads */

#define THREADS 4
#define TASKS 6u
#define KEPT 16u
static _Atomic bool is_over;
static _Atomic uint32_t next_number;

/* Scopes of all kinds: new, recent, nested, open for long, and late values. */
static void *storm(void *arg)
{
	uint32_t seed = (uint32_t)(uintptr_t)arg * 7919 + 1;

	struct {
		struct proton_context where;
		uint32_t number;
	} kept[KEPT] = {0};
	uint64_t known = 0;

	while (!atomic_load_explicit(&is_over, memory_order_relaxed)) {
		uint32_t random = (seed = seed * 1664525 + 1013904223) >> 8;
		uint32_t number = random % 3 ? atomic_fetch_add(&next_number, 1)
					     : atomic_load(&next_number) - random % 32 % 16;
		uint32_t slot = random / 3 % KEPT;
		uint64_t outer = enter_number(number & 0xffffff);
		uint64_t inner = 0;

		number &= 0xffffff;
		if (random / 64 % 4 == 0) {
			uint32_t below = (number + random % 8) & 0xffffff;

			inner = enter_number(below);
			add_number(proton_context_here(), below);
			if (random / 1024 % 2)
				proton_scope_exit(inner, NULL);
		}
		add_number(proton_scope_context(outer), number);
		if (random / 256 % 8 == 0)
			sched_yield();
		if (kept[slot].where.sessions)
			add_number(kept[slot].where, kept[slot].number);
		kept[slot].where = proton_scope_context(outer);
		kept[slot].number = number;
		if (!inner)
			kernel_of_number(number);
		proton_scope_exit(outer, NULL);
		if (random / 4096 % 64 == 0) {
			uint64_t token = proton_scope_enter_name("often", 5, &known);

			sched_yield();
			proton_scope_exit(token, NULL);
		}
	}
	return NULL;
}

/* Tasks that each have a scope open for a while. */
static void *take_turns(void *arg)
{
	struct {
		uint64_t id, token;
		uint32_t number;
	} tasks[TASKS] = {0};
	uint32_t seed = 3;
	uint64_t id = 0;

	(void)arg;
	while (!atomic_load_explicit(&is_over, memory_order_relaxed)) {
		uint32_t random = (seed = seed * 1664525 + 1013904223) >> 8;
		uint32_t task = random % TASKS;

		if (!tasks[task].token) {
			tasks[task].id = ++id;
			tasks[task].number = atomic_fetch_add(&next_number, 1) & 0xffffff;
			run_task(tasks[task].id, random / 64 % 64 ? 0 : proton_task_origin());
			tasks[task].token = enter_number(tasks[task].number);
			add_number(proton_scope_context(tasks[task].token), tasks[task].number);
			continue;
		}
		run_task(tasks[task].id, 0);
		add_number(proton_context_here(), tasks[task].number);
		if (random / 8 % 4)
			continue;
		proton_scope_exit(tasks[task].token, NULL);
		tasks[task].token = 0;
		if (random / 64 % 4 == 0)
			sched_yield();
	}
	return NULL;
}

/* Belongs to the main thread's scopes. */
static void *inherit(void *arg)
{
	(void)arg;
	while (!atomic_load_explicit(&is_over, memory_order_relaxed)) {
		struct proton_metric metric = {
			.name = "inherited", .type = PROTON_METRIC_INT64, .value.int64 = 1};

		CHECK_EQ(proton_metrics_add(proton_context_here(), &metric, 1, NULL), PROTON_OK);
		proton_scope_exit(proton_scope_enter("below"), NULL);
	}
	return NULL;
}

static void check_phase(int session, uint32_t phase)
{
	struct profile *profile;
	struct proton_error err;
	struct session *found = registry_get(session, &err);

	CHECK(found);
	adding_pause(found);
	CHECK_OK(store_profile(&found->store, phase, &profile, &err), err);
	adding_resume(found);
	pthread_mutex_unlock(&registry.lock);
	check_numbers(profile);
	profile_free(profile);
}

static void run_storm(const char *children, uint32_t phases)
{
	pthread_t threads[THREADS + 2];
	int a, b;

	set_children(children);
	a = rec_start("a");
	b = rec_start("b");
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, storm, (void *)i), 0);
	CHECK_EQ(pthread_create(&threads[THREADS], NULL, inherit, NULL), 0);
	proton_tasks_provider_set(provide);
	CHECK_EQ(pthread_create(&threads[THREADS + 1], NULL, take_turns, NULL), 0);
	for (uint32_t i = 0; i < phases; i++) {
		struct proton_error err;
		uint32_t phase;
		char name[32];
		uint64_t token;

		/* Not below "r": inherited scopes have no number. */
		snprintf(name, sizeof(name), "main %u", i);
		token = proton_scope_enter(name);
		sched_yield();
		phase = rec_advance(a);
		rec_advance(b);
		for (uint32_t wait = 0; wait < i % 4; wait++)
			sched_yield();
		/* Sometimes two phases are kept, sometimes the current one is cleared, too. */
		if (i % 5 != 4 && phase > 1)
			CHECK_OK(proton_phase_clear(a, phase - i % 3, true, &err), err);
		if (i % 2)
			CHECK_OK(proton_phase_clear(b, i / 2 % 2 ? i : i + 1, true, &err), err);
		if (i % 7 == 3)
			proton_deactivate(b, false, NULL);
		if (i % 7 == 5)
			proton_activate(b, NULL);
		if (i % 8 == 0)
			check_phase(i % 16 ? a : b, PHASE_ALL);
		proton_scope_exit(token, NULL);
	}
	atomic_store(&is_over, true);
	for (int i = 0; i < THREADS + 2; i++)
		pthread_join(threads[i], NULL);
	rec_finalize(a, "proton");
	rec_finalize(b, "proton");
	for (int i = 0; i < 2; i++) {
		struct profile *profile = rec_load(i ? "b.proton" : "a.proton");

		CHECK(!profile->is_damaged);
		check_numbers(profile);
	}
}

TEST(threads_never_record_under_another_threads_name)
{
	run_storm("64", TAP_IS_SANITIZED ? 300 : 3000);
	CHECK(reused_names_made() > 1000);
}

TEST(threads_share_a_small_limit_of_names)
{
	run_storm("12", TAP_IS_SANITIZED ? 300 : 3000);
}

TEST(a_killed_process_leaves_no_wrong_names)
{
	rec_dir();
	set_children("64");
	for (uint32_t round = 0; round < 12; round++) {
		struct timespec delay = {.tv_nsec = 4000000 + round * 1700000};
		struct profile *profile;
		struct proton_error err;
		pid_t pid = fork();

		if (pid == 0) {
			int session = rec_start("a");

			for (uint32_t i = 0;; i++) {
				request(i);
				if (i % 64 == 63)
					rec_next_phase(session);
			}
		}
		nanosleep(&delay, NULL);
		kill(pid, SIGKILL);
		CHECK_EQ(waitpid(pid, NULL, 0), pid);
		if (rec_exists("a.proton") &&
		    profile_load_file(rec_path("a.proton"), &profile, &err) == PROTON_OK) {
			CHECK(!profile->is_damaged);
			check_numbers(profile);
			profile_free(profile);
		}
		unlink(rec_path("a.proton"));
	}
}
