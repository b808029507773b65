/* Benchmark: recording trace events, and writing them at the end. Prints one figure per line,
 * "name<TAB>unit<TAB>value".
 *
 * usage: bench_trace DIRECTORY [ROUNDS [EVENTS]]
 *
 * Costs of scopes and launches are medians over ROUNDS (default 5) of a loop's mean, in sessions
 * with data="tree" and data="trace" that take turns. Then sessions of EVENTS events (default one
 * million: scopes, launches and kernels, arrows between these) are written in each format. Memory
 * is the process's own (RssAnon, without pages of the mapped file), the largest that a thread which
 * looks every millisecond saw, beyond what it was before.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <libproton/proton.h>

#include "base/clock.h"
#include "bench_session.h"
#include "measuring.h"
#include "record/names/frames.h"
#include "record/record.h"

#define STREAMS 4u

static const char *directory;
static int rounds;

static void scopes(long count)
{
	uint32_t frame = proton_frame("train_step", 10);

	for (long i = 0; i < count; i++)
		proton_scope_exit(proton_scope_enter_frame(frame), NULL);
}

static uint32_t gpu(void)
{
	return devices_add(&(struct device){.type = "CUDA", .arch = "90", .name = "bench"});
}

/* The work of a backend: on the launching thread, and later with the kernel's record. */
static void launch_on(uint32_t device, uint32_t kernel, uint32_t number)
{
	struct proton_context where = proton_context_here();
	const struct trace_event *launch = record_launch_begin(where, number, LAUNCH_KERNEL);
	uint64_t now_ns = clock_monotonic_ns();

	record_launch_end();
	record_kernel(where, &(struct execution){.frame = kernel,
						 .device = device,
						 .stream = 7 + number % STREAMS,
						 .correlation = number,
						 .start_ns = now_ns + 1000,
						 .end_ns = now_ns + 1200,
						 .config = {.grid = {128, 1, 1},
							    .block = {256, 1, 1},
							    .registers_per_thread = 64},
						 .launch = launch});
}

/* The launching thread's part alone. */
static void launches(long count)
{
	for (long i = 0; i < count; i++) {
		record_launch_begin(proton_context_here(), (uint32_t)i + 1, LAUNCH_KERNEL);
		record_launch_end();
	}
}

static void launches_and_kernels(long count)
{
	uint32_t device = gpu();
	uint32_t kernel = frames_as_kernel(proton_frame("matmul_kernel", 13));

	for (long i = 0; i < count; i++)
		launch_on(device, kernel, (uint32_t)i + 1);
}

/* Median ns per call of `body` with either kind of data, the two taking turns. */
static void measure(const char *name, void (*body)(long count), long count)
{
	static const char *const kinds[] = {"tree", "trace"};
	double values[2][ROUNDS_MAX];
	char text[128];

	for (int r = 0; r < rounds; r++) {
		for (int k = 0; k < 2; k++) {
			uint64_t layers[BENCH_LAYERS];
			uint64_t start_ns;
			int session = bench_session_start(directory, "paths", "host", kinds[k]);

			bench_layers_enter(layers);
			body(count / 10);
			start_ns = clock_monotonic_ns();
			body(count);
			values[k][r] = (double)(clock_monotonic_ns() - start_ns) / (double)count;
			bench_layers_exit(layers);
			bench_session_end(session, "none");
		}
	}
	for (int k = 0; k < 2; k++) {
		snprintf(text, sizeof(text), "%s, data=\"%s\"", name, kinds[k]);
		print_median(text, "ns", values[k], rounds);
	}
}

/* Anonymous memory of the process, in megabytes. */
static double own_mb(void)
{
	FILE *file = fopen("/proc/self/status", "re");
	char line[256];
	double kilobytes = 0;

	while (file && fgets(line, sizeof(line), file))
		sscanf(line, "RssAnon: %lf", &kilobytes);
	if (file)
		fclose(file);
	return kilobytes / 1e3;
}

static atomic_bool is_done;
static double peak_mb;

static void *watch_memory(void *unused)
{
	(void)unused;
	while (!atomic_load(&is_done)) {
		double now_mb = own_mb();

		if (now_mb > peak_mb)
			peak_mb = now_mb;
		usleep(1000);
	}
	return NULL;
}

/* Ends the session; returns how much the memory grew. */
static double finalize_watched(int session, const char *format)
{
	pthread_t watcher;
	double before_mb = own_mb();

	peak_mb = before_mb;
	atomic_store(&is_done, false);
	if (pthread_create(&watcher, NULL, watch_memory, NULL) != 0)
		die("no thread");
	bench_session_end(session, format);
	atomic_store(&is_done, true);
	pthread_join(watcher, NULL);
	return peak_mb - before_mb;
}

/* A third each of scopes, launches and kernels, in twenty different layers. */
static void record_events(long events)
{
	uint32_t device = gpu();
	uint32_t kernels[20];
	uint32_t layers[20];
	char name[64];

	for (int i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "layer_%d.forward", i);
		layers[i] = proton_frame(name, strlen(name));
		snprintf(name, sizeof(name), "layer_norm_forward_kernel_%d", i);
		kernels[i] = frames_as_kernel(proton_frame(name, strlen(name)));
	}
	for (long i = 0; i < events / 3; i++) {
		uint64_t token = proton_scope_enter_frame(layers[i % 20]);

		launch_on(device, kernels[i % 20], (uint32_t)i + 1);
		proton_scope_exit(token, NULL);
	}
}

static void bench_writing(long events, const char *format, const char *suffix)
{
	double values[ROUNDS_MAX];
	double peaks[ROUNDS_MAX];
	double megabytes = 0;
	char name[128];

	for (int r = 0; r < rounds; r++) {
		int session = bench_session_start(directory, "events", "host", "trace");
		uint64_t start_ns;

		record_events(events);
		start_ns = clock_monotonic_ns();
		peaks[r] = finalize_watched(session, format);
		values[r] = (double)(clock_monotonic_ns() - start_ns) / 1e9;
		megabytes = bench_session_megabytes(directory, "events", suffix);
	}
	snprintf(name, sizeof(name), "finalize %ld events as %s", events, format);
	print_median(name, "s", values, rounds);
	snprintf(name, sizeof(name), "size of %ld events as %s", events, format);
	print_result(name, "MB", megabytes);
	snprintf(name, sizeof(name), "memory to write %ld events as %s", events, format);
	print_median(name, "MB", peaks, rounds);
}

int main(int argc, char **argv)
{
	long events = 1000000;

	if (argc < 2)
		die("usage: bench_trace DIRECTORY [ROUNDS [EVENTS]]");
	directory = argv[1];
	rounds = rounds_of(argc > 2 ? argv[2] : NULL, 5);
	if (argc > 3)
		events = atol(argv[3]);
	measure("scope enter+exit, by frame", scopes, 1000000);
	measure("launch begin+end", launches, 1000000);
	measure("launch begin+end and its kernel's record", launches_and_kernels, 500000);
	bench_writing(events, "chrome_trace", "chrome_trace");
	bench_writing(events, "perfetto", "pftrace");
	bench_writing(events, "proton", "proton");
	bench_writing(events, "hatchet", "hatchet");
	return 0;
}
