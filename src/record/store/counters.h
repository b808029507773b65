/* Counters of a session: recorded and lost data. */
#ifndef RECORD_STORE_COUNTERS_H
#define RECORD_STORE_COUNTERS_H

enum counter {
	COUNTER_KERNELS,
	COUNTER_METRICS,
	COUNTER_MEMORY,
	COUNTER_INSIDE,         /* launches of instrumented kernels */
	COUNTER_UNSAMPLED,      /* such launches without a buffer; not a loss */
	COUNTER_ORIGIN_UNKNOWN, /* backward launches without a known forward operator; not a loss */
	COUNTER_SAMPLES,
	COUNTER_SAMPLES_PROFILER, /* of code that the vendor's library adds */
	COUNTER_SAMPLES_UNKNOWN,  /* without a function */
	COUNTER_GRAPH_BY_NAME,    /* kernels of replays that fit no captured one; not a loss */
	COUNTER_LOST_STORAGE,
	COUNTER_LOST_NO_TIME,   /* start or end is 0 */
	COUNTER_LOST_TIME,      /* the end is before the start */
	COUNTER_LOST_UNMATCHED, /* a record without a known launch */
	COUNTER_LOST_MEMORY,    /* a memory record without a known call */
	COUNTER_LOST_DROPPED,   /* the vendor library reports dropped records */
	COUNTER_LOST_MISSING,   /* a launch that received no record */
	COUNTER_LOST_PHASE,
	COUNTER_LOST_TYPE,
	COUNTER_LOST_VALUE, /* a device or graph metric that could not be read or attributed */
	COUNTER_LOST_NAME,
	COUNTER_LOST_RANGE,
	COUNTER_LOST_INSIDE,     /* overwritten intra-kernel records */
	COUNTER_LOST_PAIR,       /* unpaired intra-kernel starts or ends */
	COUNTER_LOST_DAMAGED,    /* intra-kernel records and launches that could not be decoded */
	COUNTER_LOST_COLLECTIVE, /* durations of collectives beyond the limit */
	COUNTER_LOST_SAMPLES,    /* times that a buffer of PC samples was full */
	COUNTER_COUNT
};

#endif
