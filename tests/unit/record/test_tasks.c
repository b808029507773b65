/* record/task: scopes and states of tasks that alternate on a thread. */
#include "unit/recorded.h"

static _Thread_local struct proton_task running;
static _Thread_local bool has_loop;

static bool provide(struct proton_task *out)
{
	*out = running;
	return has_loop;
}

static void begin(void)
{
	rec_start("a");
	proton_tasks_provider_set(provide);
	has_loop = true;
}

static void run(uint64_t task, uint64_t origin)
{
	running = (struct proton_task){task, origin};
}

static struct profile *finish(void)
{
	run(0, 0);
	has_loop = false;
	return rec_finish();
}

static uint64_t enter_in(uint64_t task, uint64_t origin, const char *name)
{
	run(task, origin);
	proton_tasks_follow();
	return proton_scope_enter(name);
}

static uint64_t next_place;

static uint64_t provide_place(void)
{
	return ++next_place;
}

static uint32_t provide_scopes(void)
{
	struct proton_open_scope scopes[8];
	uint32_t count = proton_scopes_open(scopes, 8);
	uint32_t context = PROTON_CONTEXT_ROOT;

	for (uint32_t i = 0; i < count; i++) {
		char place[32];
		int length = snprintf(place, sizeof(place), "%d", (int)scopes[i].place);

		context = proton_context_child(context, proton_frame(place, (size_t)length));
		context = proton_context_child(context, scopes[i].frame);
	}
	return context;
}

TEST(open_scopes_have_places_and_those_of_the_origin_come_first)
{
	struct proton_error err;
	struct proton_open_scope one;
	uint64_t outer, origin;

	proton_context_provider_set(provide_scopes, NULL);
	proton_scope_place_set(provide_place);
	CHECK_LE(0, rec_start_as("a", "python+scopes", &err));
	proton_tasks_provider_set(provide);
	has_loop = true;
	outer = proton_scope_enter("outer");
	enter_in(1, 0, "a");
	rec_kernel("k");
	origin = proton_task_origin();
	enter_in(2, origin, "b");
	rec_kernel("k");
	CHECK_U64(proton_scopes_open(&one, 1), 1);
	run(0, 0);
	rec_kernel("k");
	proton_scope_exit(outer, NULL);
	CHECK_U64(proton_scopes_open(&one, 1), 0);
	EXPECT(finish(), {"1/outer/2/a/k", 1}, {"1/outer/-1/a/3/b/k", 1}, {"1/outer/k", 1});
}

TEST(tasks_have_separate_scopes)
{
	uint64_t a, b;

	begin();
	a = enter_in(1, 0, "a");
	b = enter_in(2, 0, "b");
	run(1, 0);
	rec_kernel("k");
	run(3, 0);
	rec_kernel("k");
	run(1, 0);
	proton_scope_exit(a, NULL);
	rec_kernel("k");
	run(2, 0);
	rec_kernel("k");
	proton_scope_exit(b, NULL);
	EXPECT(finish(), {"a/k", 1}, {"b/k", 1}, {"k", 2});
}

TEST(a_task_begins_where_it_was_made)
{
	uint64_t outer, origin, own, scope;

	begin();
	own = proton_scope_enter("own");
	outer = enter_in(1, 0, "outer");
	origin = proton_task_origin();
	proton_scope_exit(outer, NULL);
	run(2, origin);
	rec_kernel("k");
	scope = proton_scope_enter("inner");
	rec_kernel("k");
	proton_scope_exit(scope, NULL);
	run(0, 0);
	rec_kernel("k");
	proton_scope_exit(own, NULL);
	EXPECT(finish(), {"own/outer/k", 1}, {"own/outer/inner/k", 1}, {"own/k", 1});
}

TEST(a_scope_exited_by_another_task_changes_nothing)
{
	uint64_t first, second;

	begin();
	first = enter_in(1, 0, "first");
	second = enter_in(1, 0, "second");
	run(2, 0);
	CHECK_OK(proton_scope_exit(first, NULL), (struct proton_error){0});
	CHECK_OK(proton_scope_exit(first, NULL), (struct proton_error){0});
	rec_kernel("other");
	run(1, 0);
	rec_kernel("k");
	proton_scope_exit(second, NULL);
	rec_kernel("k");
	/* The task has no stack any more. */
	run(2, 0);
	CHECK_OK(proton_scope_exit(second, NULL), (struct proton_error){0});
	EXPECT(finish(), {"first/second/k", 1}, {"k", 1}, {"other", 1});
}

TEST(states_belong_to_tasks)
{
	begin();
	run(1, 0);
	proton_tasks_follow();
	proton_state_enter("one");
	run(2, 0);
	rec_kernel("k");
	proton_state_enter("two");
	run(1, 0);
	rec_kernel("k");
	proton_state_exit();
	rec_kernel("k");
	run(2, 0);
	proton_state_exit();
	EXPECT(finish(), {"one/k", 1}, {"k", 2});
}

TEST(the_end_of_the_session_ends_scopes_of_tasks)
{
	uint64_t a, own;

	begin();
	own = proton_scope_enter("own");
	a = enter_in(1, 0, "a");
	enter_in(2, 0, "b");
	rec_finalize(PROTON_ALL_SESSIONS, "none");
	rec_start("a");
	run(1, 0);
	CHECK_OK(proton_scope_exit(a, NULL), (struct proton_error){0});
	run(0, 0);
	CHECK_OK(proton_scope_exit(own, NULL), (struct proton_error){0});
	rec_kernel("k");
	EXPECT(finish(), {"k", 1});
}

static void *loop(void *name)
{
	uint64_t tokens[8];

	has_loop = true;
	for (int round = 0; round < 50; round++) {
		for (uint64_t task = 1; task <= 8; task++)
			tokens[task - 1] = enter_in(task, 0, name);
		for (uint64_t task = 8; task >= 1; task--) {
			run(task, 0);
			rec_kernel("k");
			proton_scope_exit(tokens[task - 1], NULL);
		}
	}
	return NULL;
}

TEST(tasks_on_several_threads_keep_their_scopes)
{
	static char names[4][4] = {"w", "x", "y", "z"};
	pthread_t threads[4];

	begin();
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, loop, names[i]);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	EXPECT(finish(), {"w/k", 400}, {"z/k", 400});
}
