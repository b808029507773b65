/*
 * A recorded profile of a given size, for bench/viewer.py: steps of 100 layers of 100 operators,
 * each with its kernel, flops and bytes. About half of the nodes are kernels.
 *
 * usage: make_nodes DIRECTORY NODES FORMAT    writes DIRECTORY/nodes.FORMAT
 */
#include <stdio.h>
#include <stdlib.h>

#include <libproton/proton.h>

#include "record/names/frames.h"
#include "record/record.h"

#define LAYERS 100
#define OPERATORS 100

static void record_operator(long i)
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
	record_kernel(where, &(struct execution){.end_ns = 1000 + (uint64_t)i % 9000});
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

	if (argc != 4) {
		fprintf(stderr, "usage: make_nodes DIRECTORY NODES FORMAT\n");
		return 2;
	}
	nodes = atol(argv[2]);
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
				record_operator(i++);
			proton_scope_exit(token, NULL);
		}
		proton_scope_exit(step, NULL);
	}
	if (proton_finalize(PROTON_ALL_SESSIONS, argv[3], &err) == PROTON_OK)
		return 0;
failed:
	fprintf(stderr, "make_nodes: %s\n", err.text);
	return 2;
}
