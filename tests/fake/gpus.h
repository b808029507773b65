/*
 * Facts of real GPUs, which the fake drivers report. The first two of each vendor, which a machine
 * has by default, differ in every column: no test passes because all devices are alike. A memory
 * clock or bus width of 0 is not reported.
 */
#pragma once

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* The UUID of CUDA's GPU 0. Its number is the process: tests at the same time have other GPUs. */
#define FAKE_GPU_UUID "GPU-00010203-0405-0607-0809-0a0b%08x"

struct fake_gpu {
	const char *name;
	int major, minor;     /* compute capability */
	const char *gcn_arch; /* AMD: what hipGetDeviceProperties() reports */
	int processors;       /* SMs or CUs */
	int clock_khz;
	int memory_clock_khz;
	int bus_width_bits;
};

static const struct fake_gpu fake_cuda_gpus[] = {
	{"H100", 9, 0, NULL, 132, 1980000, 2619000, 5120},
	{"L4", 8, 9, NULL, 58, 2040000, 6251000, 192},
	{"H200", 9, 0, NULL, 132, 1980000, 3201000, 6144},
	{"B200", 10, 0, NULL, 148, 1965000, 3996000, 8192},
	{"RTX 5090", 12, 0, NULL, 170, 2407000, 14001000, 512},
	{"A100", 8, 0, NULL, 108, 1410000, 1593000, 5120},
	{"GB10", 12, 1, NULL, 48, 2418000, 0, 0},
	{"A40", 8, 6, NULL, 84, 1740000, 7251000, 384},
	{"T4", 7, 5, NULL, 40, 1590000, 5001000, 256},
};

static const struct fake_gpu fake_hip_gpus[] = {
	{"MI300X", 9, 4, "gfx942:sramecc+:xnack-", 304, 2100000, 1300000, 8192},
	{"MI250X", 9, 0, "gfx90a:sramecc+:xnack-", 110, 1700000, 1600000, 4096},
	{"MI355X", 9, 5, "gfx950:sramecc+:xnack-", 256, 2400000, 2000000, 8192},
	{"RX 7900 XTX", 11, 0, "gfx1100", 96, 2500000, 1250000, 384},
};

#define FAKE_GPUS_OF(table) table, sizeof(table) / sizeof((table)[0])

/* GPU `device`: by the names in the variable, else the first rows. NULL: there is none. */
static inline const struct fake_gpu *fake_gpu_at(const struct fake_gpu *table, size_t count,
						 const char *variable, int device)
{
	const char *names = getenv(variable);

	if (device < 0)
		return NULL;
	if (!names)
		return device < 2 ? &table[device] : NULL;
	for (; device > 0 && names; device--) {
		names = strchr(names, ',');
		names = names ? names + 1 : NULL;
	}
	for (size_t i = 0; names && i < count; i++)
		if (strlen(table[i].name) == strcspn(names, ",") &&
		    strncmp(table[i].name, names, strlen(table[i].name)) == 0)
			return &table[i];
	return NULL;
}

/* FAKE_CUDA_GPUS names them; FAKE_CUDA_MAJOR: all are the first one with this major version. */
static inline const struct fake_gpu *fake_cuda_gpu(int device)
{
	const char *major = getenv("FAKE_CUDA_MAJOR");

	for (size_t i = 0; major && i < sizeof(fake_cuda_gpus) / sizeof(fake_cuda_gpus[0]); i++)
		if (fake_cuda_gpus[i].major == atoi(major))
			return &fake_cuda_gpus[i];
	return fake_gpu_at(FAKE_GPUS_OF(fake_cuda_gpus), "FAKE_CUDA_GPUS", device);
}

static inline const struct fake_gpu *fake_hip_gpu(int device)
{
	return fake_gpu_at(FAKE_GPUS_OF(fake_hip_gpus), "FAKE_HIP_GPUS", device);
}
