/*
 * Instrumentation mode: `NAME[:KEY=VALUE]...`, as users write it and as the objects of
 * triton_proton.mode print themselves. docs/guide/intra-kernel.md lists the keys.
 *
 *     default:granularity=warp_4:sampling_strategy=selective:sampling_options=0,3:auto=loads,dots
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

/* What gets automatic scopes: bits of instrument_mode.autos. */
enum instrument_auto {
	INSTRUMENT_AUTO_LOADS = 1u << 0,
	INSTRUMENT_AUTO_DOTS = 1u << 1,
	INSTRUMENT_AUTO_STORES = 1u << 2,
	INSTRUMENT_AUTO_WAITS = 1u << 3,
	INSTRUMENT_AUTO_LOOPS = 1u << 4,
	INSTRUMENT_AUTO_PARTITIONS = 1u << 5,
	INSTRUMENT_AUTO_REDUCE = 1u << 6,
	INSTRUMENT_AUTO_SCAN = 1u << 7,
	INSTRUMENT_AUTO_CONVERT = 1u << 8,
	INSTRUMENT_AUTO_LOCAL = 1u << 9,
	INSTRUMENT_AUTO_TMEM = 1u << 10,
	INSTRUMENT_AUTO_ATOMIC = 1u << 11,
	INSTRUMENT_AUTO_CALL = 1u << 12,
	INSTRUMENT_AUTO_ASM = 1u << 13,
	INSTRUMENT_AUTO_ALL = (1u << 14) - 1,
	INSTRUMENT_AUTO_MATH = 1u << 14, /* not in all: its cost was not measured */
};

enum instrument_buffer {
	/* ring buffers in shared memory, copied to global memory at kernel exit */
	INSTRUMENT_BUFFER_SHARED,
	INSTRUMENT_BUFFER_GLOBAL, /* ring buffers in global memory */
};

/* Data that a warp keeps. */
enum instrument_tree {
	INSTRUMENT_TREE_RECORDS,
	INSTRUMENT_TREE_SUMS, /* if possible, else records */
	/* records if it is certain that few are made and all are kept; else sums */
	INSTRUMENT_TREE_AUTO,
};

#define INSTRUMENT_LAUNCHES_ALL UINT32_MAX

struct instrument_mode {
	uint32_t autos;          /* bits of enum instrument_auto */
	uint32_t budget;         /* percent of the time for automatic scopes; 0: no limit. The
				  * default is 5 with the key `auto` */
	uint32_t warps_per_unit; /* granularity; the whole CTA is INSTRUMENT_UNIT_MAX; 0 means 1 */
	uint64_t warps;          /* bit i: warp i is sampled; 0: all */
	enum instrument_buffer buffer;
	uint32_t buffer_bytes; /* per CTA; 0: as much as does not reduce occupancy */
	uint32_t cta_stride;   /* every n-th CTA records; 0 means 1 */
	uint32_t launches; /* launches per kernel that a trace keeps, or INSTRUMENT_LAUNCHES_ALL */
	bool has_launches; /* the mode has the key `launches` */
	bool time_shift;   /* subtract the record overhead from durations */
	bool sched_barriers; /* AMD: nothing is scheduled across a record */
	enum instrument_tree tree;
};

/* Parses `text`; NULL and "" mean "default". E_INVALID with an error message. */
int instrument_mode_read(const char *text, struct instrument_mode *mode, struct proton_error *err);

/*
 * Writes what the mode changes in a compiled kernel, in a canonical spelling without commas. Modes
 * that produce equal code have equal keys. Part of Triton's cache key.
 */
void instrument_mode_key(const struct instrument_mode *mode, struct out *out);
