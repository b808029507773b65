/*
 * Benchmark: kernel launches on an NVIDIA GPU, on the launching thread: empty kernels in a C loop
 * with the driver API, in turns plain, with bare CUPTI (the floor: kernel records on, one store in
 * the launch callback, records only counted), and with a session of libproton.
 *
 * usage: bench_cuda_launch DIRECTORY [ROUNDS [LAUNCHES]]
 *
 * One line per round and side: "side<TAB>us per launch". All three run in one process: after each
 * turn nothing of it stays subscribed, which the plain turns check by the way.
 */
#include <stdio.h>
#include <stdlib.h>

#include <libproton/proton.h>

#include "bench_session.h"
#include "cuda_driver.h"
#include "cupti_floor.h"
#include "measuring.h"

static double ours_us(const char *directory, long launches)
{
	uint64_t token;
	double us;
	int session;

	session = bench_session_start(directory, "launch", "cupti", "tree");
	cuda_launch_loop_us(launches / 20);
	token = proton_scope_enter("loop");
	us = cuda_launch_loop_us(launches);
	proton_scope_exit(token, NULL);
	bench_session_end(session, "hatchet");
	return us;
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
		printf("ours\t%.4f\n", ours_us(argv[1], launches));
		printf("after\t%.4f\n", cuda_launch_loop_us(launches));
		fflush(stdout);
	}
	return 0;
}
