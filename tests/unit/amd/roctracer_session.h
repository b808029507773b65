/*
 * Support for tests of the roctracer backend: the fake libraries (tests/fake) as `fake`, a machine
 * with two GPUs, and short functions for sessions and launches.
 */
#ifndef TESTS_UNIT_AMD_ROCTRACER_SESSION_H
#define TESTS_UNIT_AMD_ROCTRACER_SESSION_H

#include "unit/fakes.h"
#include "unit/recorded.h"

#include <sys/stat.h>

#include "fake/fake_roctracer.h"

/* Nodes of the machine: a CPU, and two GPUs. */
#define NODE_FIRST 1
#define NODE_SECOND 2

#define FAKE_POINTER(type, name, arguments) type(*name) arguments;
static struct {
	FAKE_ROCTRACER_CONTROLS(FAKE_POINTER)
	/* Faults and errors in libamdhip64. */
	void (*hip_fail)(const char *name, uint32_t first, uint32_t count, int code);
	void (*hip_set_error)(int error);
	int (*push)(const char *message);
	int (*pop)(void);
} fake;
#undef FAKE_POINTER

static void write_text(const char *name, const char *text)
{
	FILE *file = fopen(rec_path(name), "w");

	CHECK(file);
	fputs(text, file);
	fclose(file);
}

static void make_node(int node, const char *gpu_id, const char *properties)
{
	static const char *const names[] = {"name", "gpu_id", "properties"};
	const char *texts[] = {"node\n", gpu_id, properties};
	char path[64];

	snprintf(path, sizeof(path), "nodes/%d", node);
	mkdir(rec_path(path), 0700);
	for (int i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "nodes/%d/%s", node, names[i]);
		write_text(path, texts[i]);
	}
}

static void make_machine(void)
{
	mkdir(rec_path("nodes"), 0700);
	make_node(0, "0\n", "simd_count 0\n");
	make_node(NODE_FIRST, "101\n", "simd_count 1216\nunique_id 11\n");
	make_node(NODE_SECOND, "102\n", "simd_count 416\nunique_id 12\n");
	setenv("PROTON_KFD_TOPOLOGY", rec_dir(), 1);
}

/* roctracer's controls, without loading HIP. */
static void find_roctracer(void)
{
	void *roctracer = fake_open("PROTON_ROCTRACER_PATH");

#define FIND(type, name, arguments) fake_find(&fake.name, roctracer, "fake_" #name);
	FAKE_ROCTRACER_CONTROLS(FIND)
#undef FIND
}

/* The program loads HIP. */
static void load_hip(void)
{
	void *hip = fake_open("PROTON_HIP_PATH");

	fake_find(&fake.hip_fail, hip, "fake_fail");
	fake_find(&fake.hip_set_error, hip, "fake_set_error");
}

__attribute__((unused)) static void load_roctx(void)
{
	void *roctx = fake_open("PROTON_ROCTX_PATH");

	fake_find(&fake.push, roctx, "roctxRangePushA");
	fake_find(&fake.pop, roctx, "roctxRangePop");
}

/* Once: threads may be using them. */
static void load_fake(void)
{
	static bool is_loaded;

	if (is_loaded)
		return;
	make_machine();
	find_roctracer();
	load_hip();
	is_loaded = true;
}

/* The session's id, or -1 with the error. */
static int start_with(struct proton_session_options options, struct proton_error *err)
{
	int session = -1;

	options.size = sizeof(options);
	options.backend = "roctracer";
	options.flags |= PROTON_SESSION_QUIET;
	if (!options.name)
		options.name = rec_path("a");
	return proton_start(&options, &session, err) == PROTON_OK ? session : -1;
}

/* A session "a" with these options; the test fails if it does not start. */
__attribute__((unused)) static int start_options(struct proton_session_options options)
{
	struct proton_error err = {0};
	int session;

	load_fake();
	session = start_with(options, &err);
	if (session < 0)
		FAIL("start: %s", err.text);
	return session;
}

__attribute__((unused)) static int start(void)
{
	return start_options((struct proton_session_options){0});
}

/* A launch with one record, on the first GPU. */
__attribute__((unused)) static struct fake_hip_launch kernel(const char *name, uint64_t duration_ns)
{
	return (struct fake_hip_launch){
		.call = "hipModuleLaunchKernel",
		.name = name,
		.records = 1,
		.node = NODE_FIRST,
		.start_ns = 1000,
		.end_ns = 1000 + duration_ns,
	};
}

__attribute__((unused)) static void launch_ns(const char *name, uint64_t duration_ns)
{
	struct fake_hip_launch launch = kernel(name, duration_ns);

	fake.launch(&launch);
}

/* Ends all sessions; returns the profile of "a". */
__attribute__((unused)) static struct profile *finish(void)
{
	rec_finalize(PROTON_ALL_SESSIONS, "proton");
	return rec_load("a.proton");
}

#endif
