/*
 * Benchmark: replay of a CUDA graph of empty kernels: in turns plain, with bare CUPTI (the floor),
 * and with a session of libproton. Each side captures and instantiates its own graph, because
 * CUPTI decides at that time whether nodes have records.
 *
 * usage: bench_cuda_graph DIRECTORY [ROUNDS [REPLAYS [NODES]]]
 *
 * Lines "side<TAB>us per replay" from the first launch to the end of the work on the GPU, and
 * "side host<TAB>us" for the launching thread alone.
 */
#include <stdio.h>
#include <stdlib.h>

#include <libproton/proton.h>

#include "base/clock.h"
#include "bench_session.h"
#include "cuda_driver.h"
#include "cupti_floor.h"
#include "measuring.h"

static long replays = 2000;
static int nodes = 100;

static void measure(const char *side)
{
	void *stream;
	void *graph;
	void *exec;
	uint64_t start_ns;
	uint64_t launched_ns;
	uint64_t end_ns;

	if (cuda.stream_create(&stream, 1) || cuda.capture_begin(stream, 2 /* relaxed */))
		die("cannot capture");
	for (int i = 0; i < nodes; i++)
		cuda_launch_empty(stream);
	if (cuda.capture_end(stream, &graph) || cuda.graph_instantiate(&exec, graph, 0))
		die("cannot instantiate the graph");
	for (int i = 0; i < 100; i++)
		cuda.graph_launch(exec, stream);
	cuda.synchronize();
	start_ns = clock_monotonic_ns();
	for (long i = 0; i < replays; i++)
		if (cuda.graph_launch(exec, stream))
			die("a replay failed");
	launched_ns = clock_monotonic_ns();
	cuda.synchronize();
	end_ns = clock_monotonic_ns();
	printf("%s\t%.4f\n", side, (double)(end_ns - start_ns) / 1e3 / (double)replays);
	printf("%s host\t%.4f\n", side, (double)(launched_ns - start_ns) / 1e3 / (double)replays);
	cuda.graph_exec_destroy(exec);
	cuda.graph_destroy(graph);
}

static void measure_ours(const char *directory)
{
	uint64_t token;
	int session;

	session = bench_session_start(directory, "graph", "cupti", "tree");
	token = proton_scope_enter("replays");
	measure("ours");
	proton_scope_exit(token, NULL);
	bench_session_end(session, "hatchet");
}

int main(int argc, char **argv)
{
	int rounds = argc > 2 ? atoi(argv[2]) : 5;

	if (argc < 2)
		die("usage: bench_cuda_graph DIRECTORY [ROUNDS [REPLAYS [NODES]]]");
	if (argc > 3)
		replays = atol(argv[3]);
	if (argc > 4)
		nodes = atoi(argv[4]);
	cuda_open();
	cuda_launch_loop_us(10000);
	for (int i = 0; i < rounds; i++) {
		measure("plain");
		if (floor_is_possible()) {
			floor_start();
			measure("floor");
			floor_stop();
		}
		measure_ours(argv[1]);
		measure("after");
		fflush(stdout);
	}
	return 0;
}
