/* Reading a working file while a process records into it, and after that process was killed. */
#include "unit/recorded.h"

#include <sched.h>

#include "model/trace_events.h"

/* New files grow fastest relative to their size; old ones take long to read. */
#define ROUNDS (TAP_IS_SANITIZED ? 3 : 10)
#define READS (TAP_IS_SANITIZED ? 2 : 4)
#define THREADS 3

struct work {
	int id;
	bool clears_phases;
};

static void *record_for_ever(void *arg)
{
	const struct work *work = arg;
	struct proton_metric metric = {.name = "steps", .type = PROTON_METRIC_INT64};

	for (long i = 0;; i++) {
		struct proton_error err;
		char name[64];
		uint64_t outer, inner;
		uint32_t phase;

		snprintf(name, sizeof(name), "thread %d", work->id);
		outer = proton_scope_enter(name);
		snprintf(name, sizeof(name), "step %ld", i % 20000);
		inner = proton_scope_enter(name);
		rec_kernel("k");
		metric.value.int64 = i;
		proton_metrics_add(proton_context_here(), &metric, 1, NULL);
		proton_scope_exit(inner, NULL);
		proton_scope_exit(outer, NULL);
		if (work->clears_phases && work->id == 0 && i % 100 == 99 &&
		    proton_phase_advance(PROTON_ALL_SESSIONS, &phase, &err) == PROTON_OK)
			proton_phase_clear(PROTON_ALL_SESSIONS, phase - 1, true, &err);
	}
	return NULL;
}

/* A process that records into "a" until it is killed. */
static pid_t begin_recording(const char *data, bool clears_phases)
{
	rec_dir();
	pid_t pid = fork();
	if (pid == 0) {
		struct proton_session_options options = {
			.size = sizeof(options),
			.name = rec_path("a"),
			.backend = "host",
			.data = data,
			.flags = PROTON_SESSION_QUIET,
		};
		static struct work works[THREADS];
		pthread_t thread;

		if (proton_start(&options, NULL, NULL) != PROTON_OK)
			_exit(1);
		for (int i = 0; i < THREADS; i++) {
			works[i] = (struct work){.id = i, .clears_phases = clears_phases};
			pthread_create(&thread, NULL, record_for_ever, &works[i]);
		}
		for (;;)
			pause();
	}
	while (!rec_exists("a.proton"))
		sched_yield();
	return pid;
}

/* A row that is in the profile has been filled. */
static void check_events(const struct profile_trace *trace)
{
	for (uint64_t i = 1; trace && i < trace->event_count; i++) {
		if (trace->events[i].kind == EVENT_NONE)
			continue;
		CHECK_NE(trace->events[i].start_ns, 0);
		CHECK_NE(trace->events[i].node, 0);
		CHECK_LT(trace->events[i].node, trace->node_count);
		CHECK_LT(trace->events[i].lane, trace->lane_count);
	}
}

static bool read_once(void)
{
	struct profile *profile;
	struct proton_error err;
	int status = profile_load_file(rec_path("a.proton"), &profile, &err);

	if (status == PROTON_E_FORMAT &&
	    (strstr(err.text, "exited during startup") || strstr(err.text, "it is empty")))
		return false;
	CHECK_OK(status, err);
	CHECK(!profile->is_damaged);
	CHECK(profile->is_unfinished);
	check_events(profile->trace);
	profile_free(profile);
	return true;
}

static void read_live(const char *data, bool clears_phases)
{
	for (int round = 0; round < ROUNDS; round++) {
		pid_t pid = begin_recording(data, clears_phases);

		for (int reads = 0; reads < READS;)
			reads += read_once();
		kill(pid, SIGKILL);
		CHECK_EQ(waitpid(pid, NULL, 0), pid);
		CHECK(read_once());
		unlink(rec_path("a.proton"));
	}
}

TEST(a_tree_is_whole_while_it_is_recorded)
{
	read_live("tree", false);
}

TEST(a_tree_is_whole_while_its_phases_are_cleared)
{
	read_live("tree", true);
}

TEST(a_trace_is_whole_while_it_is_recorded)
{
	read_live("trace", false);
}

TEST(a_corrupt_file_of_a_killed_process_is_reported_as_corrupt)
{
	struct profile *profile;
	struct row_node node;
	struct file_header header;

	rec_start("a");
	rec_kernel("k");
	int fd = open(rec_path("a.proton"), O_RDWR);
	CHECK_EQ(pread(fd, &header, sizeof(header), 0), sizeof(header));
	for (uint32_t i = 0; i < header.extent_count; i++) {
		off_t at = (off_t)(header.extents[i].offset + sizeof(node));

		if (header.extents[i].table != TABLE_NODES)
			continue;
		CHECK_EQ(pread(fd, &node, sizeof(node), at), sizeof(node));
		node.first_kernel = 77;
		CHECK_EQ(pwrite(fd, &node, sizeof(node), at), sizeof(node));
	}
	close(fd);
	CHECK_DONE(profile_load_file(rec_path("a.proton"), &profile, &err));
	CHECK(profile->is_damaged);
	profile_free(profile);
	rec_finalize(PROTON_ALL_SESSIONS, "none");
}
