/* A machine with a CPU and two AMD GPUs, as the kernel driver shows it in files. */
#pragma once

#include "unit/recorded.h"

#define NODE_FIRST 1
#define NODE_SECOND 2

static void kfd_make_node(int node, const char *gpu_id, const char *properties)
{
	static const char *const names[] = {"name", "gpu_id", "properties"};
	const char *texts[] = {"node\n", gpu_id, properties};
	char path[128];

	snprintf(path, sizeof(path), "%s/nodes/%d", rec_dir(), node);
	mkdir(path, 0700);
	for (int i = 0; i < 3; i++) {
		FILE *file;

		snprintf(path, sizeof(path), "%s/nodes/%d/%s", rec_dir(), node, names[i]);
		file = fopen(path, "w");
		CHECK(file);
		fputs(texts[i], file);
		fclose(file);
	}
}

__attribute__((unused)) static void kfd_make_machine(void)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/nodes", rec_dir());
	mkdir(path, 0700);
	kfd_make_node(0, "0\n", "simd_count 0\n");
	kfd_make_node(NODE_FIRST, "101\n", "simd_count 1216\nunique_id 11\n");
	kfd_make_node(NODE_SECOND, "102\n", "simd_count 416\nunique_id 12\n");
	setenv("PROTON_KFD_TOPOLOGY", rec_dir(), 1);
}
