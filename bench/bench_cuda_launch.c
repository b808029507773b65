/*
 * Benchmark: kernel launches on an NVIDIA GPU, on the launching thread: empty kernels in a C loop
 * with the driver API, in turns plain, with bare CUPTI (the floor: kernel records on, one store in
 * the launch callback, records only counted), and with a session of libproton.
 *
 * usage: bench_cuda_launch DIRECTORY [ROUNDS [LAUNCHES]]
 *
 * One line per round and side: "side<TAB>us per launch". All three run in one process: after each
 * turn nothing of it stays subscribed, which the plain turns check by the way. A line
 * "ours reading<TAB>us per launch" has the CPU time of the other threads, which read records, until
 * all have been read.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <libproton/proton.h>

#include "bench_session.h"
#include "cuda_driver.h"
#include "cupti_floor.h"
#include "measuring.h"

/* CPU time of all threads but this one. */
static double other_threads_us(void)
{
	struct timespec process;
	struct timespec thread;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &process);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &thread);
	return (double)(process.tv_sec - thread.tv_sec) * 1e6 +
	       (double)(process.tv_nsec - thread.tv_nsec) / 1e3;
}

static void measure_ours(const char *directory, long launches)
{
	struct proton_error err;
	uint64_t token;
	double before;
	double us;
	int session;

	session = bench_session_start(directory, "launch", "cupti", "tree");
	cuda_launch_loop_us(launches / 20);
	if (proton_deactivate(session, true, &err) || proton_activate(session, &err))
		die(err.text);
	before = other_threads_us();
	token = proton_scope_enter("loop");
	us = cuda_launch_loop_us(launches);
	proton_scope_exit(token, NULL);
	if (proton_deactivate(session, true, &err))
		die(err.text);
	printf("ours\t%.4f\n", us);
	printf("ours reading\t%.4f\n", (other_threads_us() - before) / (double)launches);
	bench_session_end(session, "hatchet");
}

int main(int argc, char **argv)
{
	int rounds = argc > 2 ? atoi(argv[2]) : 5;
	long launches = argc > 3 ? atol(argv[3]) : 200000;

	if (argc < 2)
		die("usage: bench_cuda_launch DIRECTORY [ROUNDS [LAUNCHES]]");
	cuda_open();
	cuda_launch_loop_us(launches);
	for (int i = 0; i < rounds; i++) {
		printf("plain\t%.4f\n", cuda_launch_loop_us(launches));
		if (floor_is_possible()) {
			floor_start();
			cuda_launch_loop_us(launches / 20);
			printf("floor\t%.4f\n", cuda_launch_loop_us(launches));
			floor_stop();
		}
		measure_ours(argv[1], launches);
		printf("after\t%.4f\n", cuda_launch_loop_us(launches));
		fflush(stdout);
	}
	return 0;
}
