/* Benchmark: the recorder on the recording thread. Prints one figure per line,
 * "name<TAB>unit<TAB>value".
 *
 * usage: bench_record DIRECTORY [ROUNDS [NODES]]
 *
 * Each figure is the median over ROUNDS (default 5) of a loop's mean. The launch path is a fake
 * launch: context of the calling thread, kernel below it, one finished record, as a backend does
 * it, without the two clock readings of a host kernel.
 */
#include <stdio.h>
#include <stdlib.h>

#include <libproton/proton.h>

#include "base/clock.h"
#include "bench_session.h"
#include "measuring.h"
#include "record/names/frames.h"
#include "record/record.h"

static const char *directory;
static int rounds;

/* Median ns per call of `body`, which runs `count` iterations. */
static void measure(const char *name, void (*body)(long count), long count)
{
	double values[ROUNDS_MAX];

	body(count / 10); /* warm-up: contexts exist, pages are there */
	for (int r = 0; r < rounds; r++) {
		uint64_t start_ns = clock_monotonic_ns();

		body(count);
		values[r] = (double)(clock_monotonic_ns() - start_ns) / (double)count;
	}
	print_median(name, "ns", values, rounds);
}

static void scope_by_name(long count)
{
	for (long i = 0; i < count; i++)
		proton_scope_exit(proton_scope_enter("train_step"), NULL);
}

static void scope_by_frame(long count)
{
	uint32_t frame = proton_frame("train_step", 10);

	for (long i = 0; i < count; i++)
		proton_scope_exit(proton_scope_enter_frame(frame), NULL);
}

static void scope_timed(long count)
{
	uint32_t frame = proton_frame("timed_step", 10);

	for (long i = 0; i < count; i++)
		proton_scope_exit(proton_scope_enter_timed_frame(frame), NULL);
}

static void launch(long count)
{
	uint32_t kernel = frames_as_kernel(proton_frame("matmul_kernel", 13));

	for (long i = 0; i < count; i++)
		record_kernel(proton_context_here(),
			      &(struct execution){.frame = kernel,
						  .start_ns = 0,
						  .end_ns = 1000 + (uint64_t)i % 1000});
}

static void host_kernel(long count)
{
	uint32_t frame = proton_frame("matmul_kernel", 13);

	for (long i = 0; i < count; i++) {
		proton_kernel_begin(frame);
		proton_kernel_end();
	}
}

static void metric(long count)
{
	struct proton_metric flops = {
		.name = "flops", .type = PROTON_METRIC_DOUBLE, .value.float64 = 1e9};

	for (long i = 0; i < count; i++)
		proton_metrics_add(proton_context_here(), &flops, 1, NULL);
}

static void bench_paths(void)
{
	uint64_t layers[BENCH_LAYERS];
	int session;

	measure("scope enter+exit, by name, nothing live", scope_by_name, 3000000);
	session = bench_session_start(directory, "paths", "host", "tree");
	bench_layers_enter(layers);
	measure("scope enter+exit, by name", scope_by_name, 3000000);
	measure("scope enter+exit, by frame", scope_by_frame, 3000000);
	measure("timed scope enter+exit, by frame", scope_timed, 1000000);
	measure("launch recorded in an existing context", launch, 3000000);
	measure("host kernel begin+end", host_kernel, 1000000);
	measure("metric value added", metric, 1000000);
	bench_layers_exit(layers);
	bench_session_end(session, "none");
}

/* Half scopes, half kernels below them; every tenth with metrics, as launch metadata gives them. */
static void record_nodes(long nodes)
{
	struct proton_metric metrics[] = {
		{.name = "flops16", .type = PROTON_METRIC_DOUBLE, .value.float64 = 2.5e9},
		{.name = "bytes", .type = PROTON_METRIC_INT64, .value.int64 = 1 << 20},
	};
	uint32_t kernel = proton_frame("layer_norm_forward_kernel", 25);

	for (long i = 0; i < nodes / 2; i++) {
		struct proton_context where;
		char name[64];
		uint64_t token;

		snprintf(name, sizeof(name), "request_%ld/decode", i);
		token = proton_scope_enter(name);
		proton_op_enter(kernel, &where);
		if (i % 10 == 0)
			proton_metrics_add(where, metrics, 2, NULL);
		record_kernel(where, &(struct execution){.end_ns = 12345});
		proton_op_exit();
		proton_scope_exit(token, NULL);
	}
}

static void bench_finalize(long nodes, const char *format)
{
	double values[ROUNDS_MAX];
	double recording[ROUNDS_MAX];
	double megabytes = 0;
	char name[128];
	int few = rounds < 5 ? rounds : 5;

	for (int r = 0; r < few; r++) {
		int session = bench_session_start(directory, "nodes", "host", "tree");
		uint64_t start_ns;

		start_ns = clock_monotonic_ns();
		record_nodes(nodes);
		recording[r] = (double)(clock_monotonic_ns() - start_ns) / (double)nodes;
		start_ns = clock_monotonic_ns();
		bench_session_end(session, format);
		values[r] = (double)(clock_monotonic_ns() - start_ns) / 1e9;
		megabytes = bench_session_megabytes(directory, "nodes", format);
	}
	snprintf(name, sizeof(name), "finalize %ld nodes as %s", nodes, format);
	print_median(name, "s", values, few);
	snprintf(name, sizeof(name), "size of %ld nodes as %s", nodes, format);
	print_result(name, "MB", megabytes);
	snprintf(name, sizeof(name), "new context recorded, %ld nodes, for %s", nodes, format);
	print_median(name, "ns", recording, few);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		die("usage: bench_record DIRECTORY [ROUNDS [NODES]]");
	/* The nodes of a profile that is to be finalized have one parent. */
	setenv("PROTON_MAX_CHILDREN", "0", 1);
	setenv("PROTON_MAX_NAMES", "0", 1);
	directory = argv[1];
	rounds = rounds_of(argc > 2 ? argv[2] : NULL, 5);
	if (argc > 3) { /* how far a profile grows: only that */
		bench_finalize(atol(argv[3]), "proton");
		return 0;
	}
	bench_paths();
	for (long nodes = 100000; nodes <= 1000000; nodes *= 10) {
		bench_finalize(nodes, "hatchet");
		bench_finalize(nodes, "hatchet_msgpack");
		bench_finalize(nodes, "proton");
	}
	return 0;
}
