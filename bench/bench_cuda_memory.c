/*
 * How much a long session grows: resident memory of this process before and after launching empty
 * kernels below a fixed set of scopes, after a warm-up that has filled every pool.
 *
 * usage: bench_cuda_memory DIRECTORY [LAUNCHES [WARM_UP]]
 *
 * Lines "name<TAB>value": "warm KiB", "after KiB", "us per launch".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libproton/proton.h>

#include "bench_session.h"
#include "cuda_driver.h"
#include "measuring.h"

#define SCOPES 16

static long resident_kib(void)
{
	FILE *status = fopen("/proc/self/status", "re");
	char line[256];
	long kib = -1;

	while (status && fgets(line, sizeof(line), status))
		if (strncmp(line, "VmRSS:", 6) == 0)
			kib = atol(line + 6);
	if (status)
		fclose(status);
	return kib;
}

/* The launches are spread over the scopes. Us per launch, the mean of the parts. */
static double launch(long launches)
{
	double us = 0;

	for (int i = 0; i < SCOPES; i++) {
		char name[32];
		uint64_t token;

		snprintf(name, sizeof(name), "part %d", i);
		token = proton_scope_enter(name);
		us += cuda_launch_loop_us(launches / SCOPES);
		proton_scope_exit(token, NULL);
	}
	return us / SCOPES;
}

int main(int argc, char **argv)
{
	long launches = argc > 2 ? atol(argv[2]) : 10000000;
	long warm_up = argc > 3 ? atol(argv[3]) : 1000000;
	double us;
	int session;

	if (argc < 2)
		die("usage: bench_cuda_memory DIRECTORY [LAUNCHES [WARM_UP]]");
	cuda_open();
	session = bench_session_start(argv[1], "memory", "cupti", "tree");
	launch(warm_up);
	printf("warm KiB\t%ld\n", resident_kib());
	us = launch(launches);
	printf("after KiB\t%ld\n", resident_kib());
	printf("us per launch\t%.4f\n", us);
	bench_session_end(session, "hatchet");
	return 0;
}
