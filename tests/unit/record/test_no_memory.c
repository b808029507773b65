/*
 * A program without memory: the first, the second, ... allocation of the recorder fails, with and
 * without all later ones, in a program that makes all public calls. The program continues, and
 * all that its profile lacks is an error of a call or a counted loss.
 */
#include "unit/recorded_trace.h"

#include "unit/failing.h"

/* A child's report to its parent. */
struct result {
	long allocations;
	bool has_started;
	bool has_failed; /* some call returned an error */
	uint64_t nodes;
	uint64_t kernels;
	uint64_t values;
	int64_t sum;
	uint64_t events;
	uint64_t losses;
	uint64_t lines;
};

static struct result *result; /* shared with the child */

static void note(int status)
{
	result->has_failed |= status != PROTON_OK;
}

/* ------------------------------------------------------------------ the program */

static bool run_task(struct proton_task *out)
{
	out->id = 7;
	out->origin = 0;
	return true;
}

static uint32_t call_path(void)
{
	return proton_context_child(PROTON_CONTEXT_ROOT,
				    proton_frame_source("file.py", 7, "function", 8, 12));
}

static uint32_t call_depth(void)
{
	return 1;
}

static void add_metrics(struct proton_context where)
{
	static const int64_t pair[2] = {1, 2};
	const struct proton_metric metrics[] = {
		{.name = "n", .type = PROTON_METRIC_INT64, .value.int64 = 3},
		{.name = "x (exc)", .type = PROTON_METRIC_DOUBLE, .value.float64 = 0.5},
		{.name = "v", .type = PROTON_METRIC_INT64_VECTOR, .count = 2, .value.int64s = pair},
		{.name = "text", .type = PROTON_METRIC_STRING, .value.string = "some text"},
	};
	const struct proton_device_metric device = {
		.size = sizeof(device), .name = "d", .type = PROTON_METRIC_INT64, .count = 1};

	note(proton_metrics_add(where, metrics, 4, NULL));
	proton_metrics_add_device(where, &device, NULL); /* never on a CPU */
}

/* Scopes of every kind around kernels and metrics. */
static void enter_scopes(int step)
{
	uint64_t known = 0;
	struct proton_context where;
	uint64_t tokens[5];
	char name[32];

	snprintf(name, sizeof(name), "step %d", step);
	tokens[0] = proton_scope_enter(name);
	tokens[1] = proton_scope_enter_timed("timed");
	tokens[2] = proton_scope_enter_name(name, strlen(name), &known);
	tokens[3] = proton_scope_enter_frame(proton_scope_frame("by frame", 8));
	tokens[4] = proton_scope_enter_timed_name("also timed", 10, NULL);
	add_metrics(proton_scope_context(tokens[4]));
	proton_state_enter("state");
	proton_op_enter(proton_frame("op", 2), &where);
	rec_kernel("in an op");
	proton_collective(where, 1000);
	proton_op_exit();
	proton_state_exit();
	rec_kernel("k");
	add_metrics(proton_context_enter(proton_context_here(), proton_frame("below", 5)));
	proton_context_keep(proton_context_here().shadow);
	proton_origin_unknown();
	for (int i = 5; i-- > 0;)
		note(proton_scope_exit(tokens[i], NULL));
}

static void *run_thread(void *unused)
{
	(void)unused;
	enter_scopes(100);
	return NULL;
}

static void run_phases(int session)
{
	uint32_t phase;
	bool is_complete;
	char *bytes;
	size_t length;

	enter_scopes(50);
	note(proton_phase_advance(session, &phase, NULL));
	enter_scopes(51);
	if (proton_data_get(session, 0, "hatchet", &bytes, &length, NULL) == PROTON_OK)
		proton_free(bytes);
	note(proton_phase_is_complete(session, 0, &is_complete, NULL));
	note(proton_phase_clear(session, 0, true, NULL));
	enter_scopes(52);
}

static void run_calls(int session)
{
	struct proton_counter counters[64];
	pthread_t thread;
	double rate;
	size_t depth;

	proton_context_provider_set(call_path, call_depth);
	for (int step = 0; step < 150; step++)
		enter_scopes(step);
	note(proton_deactivate(session, true, NULL));
	note(proton_activate(session, NULL));
	if (pthread_create(&thread, NULL, run_thread, NULL) == 0)
		pthread_join(thread, NULL);
	proton_tasks_provider_set(run_task);
	proton_tasks_follow();
	proton_task_origin();
	enter_scopes(41);
	proton_tasks_provider_set(NULL);
	run_phases(session);
	note(proton_context_depth(session, &depth, NULL));
	note(proton_statistics(session, counters, 64, NULL) < 0);
	note(proton_peak_flops("CUDA", "90", 16, 132, 1e6, &rate, NULL));
	proton_nvtx_enable(true);
	proton_kernel_cache_add("/nowhere");
	proton_instrument_kernel(1, "kernel", "no layout", NULL);
	proton_instrument_launched(1, 0);
	proton_instrument_forget(1);
}

/* ------------------------------------------------------------------ its profiles */

static void read_profile(const char *file)
{
	if (!rec_exists(file))
		return;
	struct profile *profile = rec_load(file);
	result->nodes += profile->node_count;
	for (uint32_t i = 1; i < profile->kernel_count; i++)
		result->kernels += profile->kernels[i].count;
	result->values += profile->value_count;
	for (uint32_t i = 1; i < profile->value_count; i++)
		if (strcmp(profile_text(profile, profile->metrics[profile->values[i].metric].name),
			   "n") == 0)
			result->sum += profile->values[i].as.int64;
	for (uint32_t i = 0; i < profile->counter_count; i++)
		if (profile->counters[i].is_loss)
			result->losses += profile->counters[i].value;
}

static int start(const char *name, bool is_trace, const char *context)
{
	struct proton_error err;

	return is_trace ? trace_start_as(name, "host", context, &err)
			: rec_start_as(name, context, &err);
}

static void run_program(void)
{
	int tree = start("tree", false, "shadow");
	int source = start("source", false, "python");
	int trace = start("trace", true, "shadow");

	result->has_started = tree >= 0 && source >= 0 && trace >= 0;
	if (tree >= 0)
		run_calls(tree);
	result->allocations = number;
	fails_at = 0; /* there is memory again */
	number = 0;
	rec_finalize(PROTON_ALL_SESSIONS, "proton");
	read_profile("tree.proton");
	read_profile("source.proton");
	read_profile("trace.proton");
}

/* ------------------------------------------------------------------ one failure after another */

static struct result try_once(long n)
{
	int messages = memfd_create("messages", MFD_CLOEXEC);
	static char text[1 << 16];
	int status;

	*result = (struct result){0};
	fflush(NULL);
	pid_t child = fork();
	if (child == 0) {
		CHECK_LE(0, dup2(messages, STDERR_FILENO));
		number = 0;
		fails_at = n;
		run_program();
		fflush(NULL);
		_exit(0);
	}
	CHECK(child > 0 && waitpid(child, &status, 0) == child);
	ssize_t length = pread(messages, text, sizeof(text) - 1, 0);
	text[length > 0 ? length : 0] = '\0';
	close(messages);
	if (status)
		printf("# allocation %ld: status %x: %s\n", n, (unsigned)status, text);
	CHECK_EQ(status, 0);
	for (const char *line = text; (line = strchr(line, '\n')) != NULL; line++)
		result->lines++;
	return *result;
}

static bool is_whole(const struct result *got, const struct result *wanted)
{
	return got->nodes == wanted->nodes && got->kernels == wanted->kernels &&
	       got->values == wanted->values && got->sum == wanted->sum;
}

static void check_all(bool from_there, long step)
{
	long silent = 0;

	skip_if_emulated("thousands of runs take many minutes under an emulator");
	rec_dir();
	result = __real_mmap(NULL, sizeof(*result), PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(result != MAP_FAILED);
	fails_from_there = from_there;
	struct result wanted = try_once(0);
	CHECK(wanted.has_started && !wanted.has_failed && wanted.losses == 0);
	printf("# %ld allocations, %llu nodes, %llu kernels, %llu values\n", wanted.allocations,
	       (unsigned long long)wanted.nodes, (unsigned long long)wanted.kernels,
	       (unsigned long long)wanted.values);
	for (long n = 1; n <= wanted.allocations; n += step) {
		struct result got = try_once(n);

		if (got.has_started && !is_whole(&got, &wanted) && !got.losses && !got.has_failed)
			printf("# allocation %ld: %llu nodes, %llu kernels, %llu values, sum %lld: "
			       "nothing counted, %ld\n",
			       n, (unsigned long long)got.nodes, (unsigned long long)got.kernels,
			       (unsigned long long)got.values, (long long)got.sum, ++silent);
		if (got.has_started)
			CHECK_LE(got.lines, 6);
	}
	CHECK_EQ(silent, 0);
}

TEST(an_allocation_that_fails_is_an_error_or_a_counted_loss)
{
	check_all(false, 1);
}

TEST(a_program_without_memory_continues_and_its_losses_are_counted)
{
	check_all(true, 1);
}
