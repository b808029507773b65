/*
 * Benchmark: CPU time of the thread that reads CUPTI's records, per kernel, with the structures of
 * the first interface and with the selected fields of the second, in turns. Records come from the
 * fake libcupti of the tests (PROTON_CUPTI_PATH, PROTON_CUDA_PATH), and stepping from one to the
 * next is done here: the real library's time for it is not part of the figures. Nor is the
 * cost of bringing records into the cache, because the fake has just written them.
 *
 * usage: bench_cupti_decode DIRECTORY [ROUNDS [KERNELS]]
 *
 * One line per round and side: "side<TAB>value": "first" and "second" in ns per kernel, "first
 * bytes" and "second bytes" per record.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/cupti_api.h"
#include "backend/gpu/records.h"
#include "bench_session.h"
#include "fake/fake_cupti.h"
#include "measuring.h"

static uint32_t (*launch)(const struct fake_launch *launch);
static int (*step)(void *subscriber, uint8_t *buffer, size_t valid_bytes,
		   struct cupti_activity **record);
static size_t record_bytes;

/* All records are of the same size, the distance of the first two. */
static int next(uint8_t *buffer, size_t valid_bytes, struct cupti_activity **record)
{
	uint8_t *at = *record ? (uint8_t *)*record + record_bytes : buffer;

	if (at + record_bytes > buffer + valid_bytes)
		return CUPTI_E_MAX_LIMIT_REACHED;
	*record = (void *)at;
	return CUPTI_OK;
}

static int next_selected(void *subscriber, uint8_t *buffer, size_t valid_bytes,
			 struct cupti_activity **record)
{
	struct cupti_activity *first = NULL;
	struct cupti_activity *second;

	if (!record_bytes && step(subscriber, buffer, valid_bytes, &first) == CUPTI_OK) {
		second = first;
		if (step(subscriber, buffer, valid_bytes, &second) == CUPTI_OK)
			record_bytes = (size_t)((uint8_t *)second - (uint8_t *)first);
	}
	return record_bytes ? next(buffer, valid_bytes, record) : CUPTI_E_MAX_LIMIT_REACHED;
}

static void find_launch(void)
{
	void *library = dlopen(getenv("PROTON_CUPTI_PATH"), RTLD_NOW | RTLD_LOCAL);
	void *symbol = library ? dlsym(library, "fake_launch") : NULL;

	if (!symbol)
		die("PROTON_CUPTI_PATH does not name the fake libcupti of the tests");
	memcpy(&launch, &symbol, sizeof(symbol));
}

static double run(const char *directory, const char *interface, long kernels)
{
	static const char *const names[] = {"gemm", "softmax", "norm", "rope"};
	uint64_t tokens[BENCH_LAYERS];
	double ns;
	int session;

	setenv("PROTON_CUPTI_INTERFACE", interface, 1);
	session = bench_session_start(directory, "decode", "cupti", "tree");
	record_bytes = *interface == '1' ? 240 : 0; /* the fake's, of CUPTI 13.5 */
	libcupti.cuptiActivityGetNextRecord = next;
	if (libcupti.cuptiActivityGetNextRecord_v2 != next_selected)
		step = libcupti.cuptiActivityGetNextRecord_v2;
	libcupti.cuptiActivityGetNextRecord_v2 = next_selected;
	bench_layers_enter(tokens);
	for (long i = 0; i < kernels; i++)
		launch(&(struct fake_launch){
			.call = CUPTI_CALL_LAUNCH_KERNEL,
			.name = names[i % 4],
			.context = &launch,
			.records = 1,
			.start_ns = 1000,
			.end_ns = 2000,
			.config = {.grid = {128, 1, 1}, .block = {256, 1, 1}},
		});
	bench_layers_exit(tokens);
	bench_session_end(session, "none");
	ns = (double)await_records_cost_ns() / (double)kernels;
	return ns;
}

int main(int argc, char **argv)
{
	int rounds = argc > 2 ? atoi(argv[2]) : 9;
	long kernels = argc > 3 ? atol(argv[3]) : 100000;

	if (argc < 2 || !getenv("PROTON_CUPTI_PATH"))
		die("usage: PROTON_CUPTI_PATH=FAKE PROTON_CUDA_PATH=FAKE bench_cupti_decode "
		    "DIRECTORY [ROUNDS [KERNELS]]");
	setenv("FAKE_CUPTI_VERSION", "130500", 1);
	find_launch();
	run(argv[1], "1", kernels);
	for (int i = 0; i < rounds; i++) {
		printf("first\t%.2f\n", run(argv[1], "1", kernels));
		printf("first bytes\t%zu\n", record_bytes);
		printf("second\t%.2f\n", run(argv[1], "2", kernels));
		printf("second bytes\t%zu\n", record_bytes);
		fflush(stdout);
	}
	return 0;
}
