/* Counters of a session: recorded and lost data. */
#ifndef RECORD_STORE_COUNTERS_H
#define RECORD_STORE_COUNTERS_H

enum counter {
#define COUNTER(id, name) COUNTER_##id,
#define LOSS(id, name) COUNTER_LOST_##id,
#include "record/store/counters.def"
#undef COUNTER
#undef LOSS
	COUNTER_COUNT
};

#endif
