/* What a test tells the fake libcupti; the functions are found with dlsym(). */
#ifndef TESTS_FAKE_FAKE_CUPTI_H
#define TESTS_FAKE_FAKE_CUPTI_H

#include <stdbool.h>

#include "backend/cuda/cupti_abi.h"

struct fake_launch {
	uint32_t call; /* enum cupti_driver_call */
	const char *name;
	void *context;
	uint32_t device;
	uint32_t records; /* how many come of it */
	uint64_t start_ns;
	uint64_t end_ns;
	bool is_unseen;   /* no callback, as for a launch made before the start */
	uint64_t node_id; /* of the kernel in a graph */
};

uint32_t fake_launch(const struct fake_launch *launch);
/* Other API calls take correlation ids too. */
void fake_skip_correlations(uint32_t count);
/* Nobody is subscribed and nothing is enabled. */
bool fake_is_idle(void);
void fake_drop(size_t count);
/* A driver call without a launch, such as one that begins or ends a capture; enter and exit. */
void fake_call(uint32_t call, int result);
/* A graph event. Nodes, graphs and executable graphs are told by their ids. */
void fake_graph_event(uint32_t event, uint64_t node_id, uint64_t original_id, int node_type);

#endif
