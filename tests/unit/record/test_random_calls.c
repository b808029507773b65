/*
 * Random calls of threads: scopes, states, metrics of every type and kernels, while phases advance
 * and other sessions start, pause and end. A tree and a trace count exactly what was done.
 */
#include "unit/recorded_trace.h"

#include "base/array.h"

#define CALLERS 12
#define STEPS (TAP_IS_SANITIZED ? 40 : 1000)

static _Atomic int ended;

/* The calls of a thread. */
struct done {
	int64_t n;
	double x;
	int64_t v;
	uint64_t kernels;
	uint64_t metrics;
};

struct caller {
	pthread_t thread;
	uint32_t seed;
	struct done done;
};

static uint32_t draw(struct caller *caller, uint32_t below)
{
	return ((caller->seed = caller->seed * 1664525 + 1013904223) >> 16) % below;
}

static void add_random(struct caller *caller)
{
	int64_t pair[2] = {draw(caller, 9), 1};
	struct proton_metric metrics[] = {
		{.name = "n", .type = PROTON_METRIC_INT64, .value.int64 = -pair[0]},
		{.name = "x", .type = PROTON_METRIC_DOUBLE, .value.float64 = 0.5},
		{.name = "v", .type = PROTON_METRIC_INT64_VECTOR, .count = 2, .value.int64s = pair},
		{.name = "text", .type = PROTON_METRIC_STRING, .value.string = "t"},
		{.name = "last (pty)", .type = PROTON_METRIC_INT64, .value.int64 = 7},
	};
	uint32_t count = 1 + draw(caller, ARRAY_LENGTH(metrics));

	CHECK_EQ(proton_metrics_add(proton_context_here(), metrics, count, NULL), PROTON_OK);
	caller->done.metrics += count;
	caller->done.n -= pair[0];
	caller->done.x += count > 1 ? 0.5 : 0;
	caller->done.v += count > 2 ? pair[0] : 0;
}

static void run_kernel(struct caller *caller, bool has_state)
{
	if (has_state)
		proton_state_enter("state");
	rec_kernel("k");
	if (has_state)
		proton_state_exit();
	caller->done.kernels++;
}

static void step(struct caller *caller, int depth)
{
	char name[3] = {'s', (char)('0' + draw(caller, 4)), '\0'};
	uint64_t token = draw(caller, 2) ? proton_scope_enter(name)
					 : proton_scope_enter_timed(name);

	for (uint32_t left = 1 + draw(caller, 3); left; left--) {
		uint32_t act = draw(caller, 8);

		if (act < 3)
			add_random(caller);
		else if (act < 5)
			run_kernel(caller, act == 4);
		else if (depth < 4)
			step(caller, depth + 1);
	}
	if (depth && draw(caller, 5) == 0)
		return; /* the exit of the scope around it ends it, as after an exception */
	CHECK_EQ(proton_scope_exit(token, NULL), PROTON_OK);
	if (draw(caller, 5) == 0)
		CHECK_EQ(proton_scope_exit(token, NULL), PROTON_OK); /* changes nothing */
}

static void *call_at_random(void *data)
{
	struct caller *caller = data;
	char name[32];

	snprintf(name, sizeof(name), "thread%u", caller->seed);
	for (int i = 0; i < STEPS; i++) {
		uint64_t token = proton_scope_enter(name);

		step(caller, 0);
		CHECK_EQ(proton_scope_exit(token, NULL), PROTON_OK);
	}
	atomic_fetch_add(&ended, 1);
	return NULL;
}

static void add_node(const struct profile *profile, const struct profile_node *node,
		     struct done *sum)
{
	for (uint32_t k = node->first_kernel; k; k = profile->kernels[k].next)
		sum->kernels += profile->kernels[k].count;
	for (uint32_t v = node->first_value; v; v = profile->values[v].next) {
		const struct profile_value *value = &profile->values[v];
		const char *name = profile_text(profile, profile->metrics[value->metric].name);

		if (strcmp(name, "n") == 0)
			sum->n += value->as.int64;
		else if (strcmp(name, "x") == 0)
			sum->x += value->as.float64;
		else if (strcmp(name, "v") == 0) /* the length, then the elements */
			sum->v += (int64_t)profile->words[value->as.vector + 1];
	}
}

/* The sum of the nodes below `node`. */
static void add_subtree(const struct profile *profile, uint32_t node, struct done *sum)
{
	add_node(profile, &profile->nodes[node], sum);
	for (uint32_t child = profile->nodes[node].first_child; child;
	     child = profile->nodes[child].next_sibling)
		add_subtree(profile, child, sum);
}

static void check_done(const char *file, const struct caller *callers)
{
	struct profile *profile = rec_load(file);
	uint64_t metrics = 0;
	char name[32];

	for (uint32_t i = 0; i < CALLERS; i++) {
		struct done sum = {0};

		snprintf(name, sizeof(name), "thread%u", i);
		add_subtree(profile, rec_node(profile, name), &sum);
		CHECK_EQ(sum.n, callers[i].done.n);
		CHECK_NEAR(sum.x, callers[i].done.x, 0);
		CHECK_EQ(sum.v, callers[i].done.v);
		CHECK_U64(sum.kernels, callers[i].done.kernels);
		metrics += callers[i].done.metrics;
	}
	if (profile->trace)
		CHECK_U64(count_samples_of_events(profile), metrics);
}

TEST(random_calls_of_threads_are_counted_exactly_while_sessions_and_phases_change)
{
	struct caller callers[CALLERS];
	int tree = rec_start("tree");
	int trace = trace_start("trace");

	for (uint32_t i = 0; i < CALLERS; i++) {
		callers[i] = (struct caller){.seed = i};
		CHECK_EQ(pthread_create(&callers[i].thread, NULL, call_at_random, &callers[i]), 0);
	}
	for (uint32_t phase = 0; phase < 10 || atomic_load(&ended) < CALLERS; phase++) {
		int other = phase % 2 ? rec_start("other") : trace_start("other");
		size_t length;
		char *bytes;

		CHECK_EQ(proton_phase_advance(phase % 3 ? tree : trace, NULL, NULL), PROTON_OK);
		CHECK_EQ(proton_deactivate(other, phase % 3 == 0, NULL), PROTON_OK);
		CHECK_EQ(proton_data_get(tree, 0, "hatchet_msgpack", &bytes, &length, NULL),
			 PROTON_OK);
		proton_free(bytes);
		CHECK_EQ(proton_activate(other, NULL), PROTON_OK);
		rec_finalize(other, phase % 5 ? "none" : "hatchet");
	}
	for (uint32_t i = 0; i < CALLERS; i++)
		CHECK_EQ(pthread_join(callers[i].thread, NULL), 0);
	rec_finalize(PROTON_ALL_SESSIONS, "proton");
	check_done("tree.proton", callers);
	check_done("trace.proton", callers);
}
