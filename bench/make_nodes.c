/*
 * A recorded profile of a given size, for bench/viewer.py and bench/ranks.py: steps of 100 layers
 * of 100 operators, each with its kernel, flops and bytes. About half of the nodes are kernels.
 * With a SEED times differ by up to 10 %. "killed" leaves the file of a killed process.
 *
 * usage: make_nodes DIRECTORY NODES FORMAT [SEED [killed]]    writes DIRECTORY/nodes.FORMAT
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include <libproton/proton.h>

#include "record/record.h"

#define LAYERS 100
#define OPERATORS 100

/* The duration of a kernel: some are 10 % longer in some profiles. */
static uint64_t duration_of(long i, long seed)
{
	uint64_t ns = 1000 + (uint64_t)i % 9000;
	uint64_t mixed = (uint64_t)(i * 31 + seed) * 0x9e3779b97f4a7c15ull >> 33;

	return seed ? ns + ns * (mixed % 100) / 1000 : ns;
}

static void record_operator(long i, long seed)
{
	struct proton_metric metrics[] = {
		{.name = "flops16", .type = PROTON_METRIC_DOUBLE, .value.float64 = 2.5e9},
		{.name = "bytes", .type = PROTON_METRIC_INT64, .value.int64 = 1 << 20},
	};
	struct proton_context where;
	char name[64];
	uint64_t token;
	int length;

	snprintf(name, sizeof(name), "operator_%ld", i % OPERATORS);
	token = proton_scope_enter(name);
	length = snprintf(name, sizeof(name), "kernel_%ld", i % 997);
	proton_op_enter(proton_frame(name, (size_t)length), &where);
	proton_metrics_add(where, metrics, 2, NULL);
	record_kernel(where, &(struct execution){.end_ns = duration_of(i, seed)});
	proton_op_exit();
	proton_scope_exit(token, NULL);
}

int main(int argc, char **argv)
{
	char path[4096];
	struct proton_session_options options = {
		.size = sizeof(options),
		.name = path,
		.backend = "host",
		.flags = PROTON_SESSION_QUIET,
	};
	struct proton_error err;
	int session;
	char name[64];
	long nodes;
	long seed;

	if (argc < 4 || argc > 6) {
		fprintf(stderr, "usage: make_nodes DIRECTORY NODES FORMAT [SEED [killed]]\n");
		return 2;
	}
	nodes = atol(argv[2]);
	seed = argc > 4 ? atol(argv[4]) : 0;
	snprintf(path, sizeof(path), "%s/nodes", argv[1]);
	if (proton_start(&options, &session, &err) != PROTON_OK)
		goto failed;
	for (long i = 0; i < nodes / 2;) {
		uint64_t step;

		snprintf(name, sizeof(name), "step_%ld", i / (LAYERS * OPERATORS));
		step = proton_scope_enter(name);
		for (int layer = 0; layer < LAYERS && i < nodes / 2; layer++) {
			uint64_t token;

			snprintf(name, sizeof(name), "layer_%d", layer);
			token = proton_scope_enter(name);
			for (int k = 0; k < OPERATORS && i < nodes / 2; k++)
				record_operator(i++, seed);
			proton_scope_exit(token, NULL);
		}
		proton_scope_exit(step, NULL);
	}
	if (argc > 5)
		raise(SIGKILL);
	if (proton_finalize(PROTON_ALL_SESSIONS, argv[3], &err) == PROTON_OK)
		return 0;
failed:
	fprintf(stderr, "make_nodes: %s\n", err.text);
	return 2;
}
