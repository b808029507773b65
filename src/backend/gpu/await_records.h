/*
 * Waiting at a flush for the records of launched work. The vendor's library delivers them in any
 * order, after some time, or never. At most one backend of a GPU vendor uses it at a time.
 */
#ifndef BACKEND_GPU_AWAIT_RECORDS_H
#define BACKEND_GPU_AWAIT_RECORDS_H

#include <stdbool.h>
#include <stdint.h>

struct await_vendor {
	/* Asks for complete records; one caller at a time. 0, or the vendor's error. */
	int (*flush)(void);
	/* Records dropped since the last call, which the vendor counts on request. May be NULL. */
	uint64_t (*take_dropped)(void);
	/* False if the library has no buffer to fill: no record may arrive. May be NULL. */
	bool (*has_buffers)(void);
	const char *name;  /* the library, for "no ... records were received" */
	const char *cause; /* why records may be missing, as the rest of that sentence */
};

/* With the first session. `vendor` stays valid. */
void await_records_start(const struct await_vendor *vendor);
/* Nothing is flushed until the next start: a call would attach to a library that is left. */
void await_records_stop(void);
/*
 * Flushes and waits until `launched` launches have their records, or until none has arrived for
 * some time: a long time, or a short one if some may never arrive (`in_doubt`). After the last call
 * with an unknown number of records (`last_shared`; 0: none) it waits until no more arrive. Missing
 * records are counted. 0, or the vendor's error.
 */
int await_records_flush(uint64_t launched, uint32_t last_shared, bool in_doubt);
/* Flushes complete records; false if another flush is in progress, which does the same. */
bool await_records_ask(void);
/* True if records were missing since the start. */
bool await_records_were_missed(void);

/* On the thread of the records. Any record: */
void await_records_note(void);
/* The record of a kernel launch that a flush waits for. */
void await_records_note_complete(void);
/* A record of a call with an unknown number of records. */
void await_records_note_shared(uint32_t correlation);
/* Records that were lost, for example in full buffers: counted in the profile. */
void await_records_note_dropped(uint64_t count);
/* The library got no buffer, so records are lost that only it counts. */
void await_records_note_refused(void);
/*
 * Around the records of a buffer: the counts above are then added at once, after all of them, and
 * the CPU time in between is counted as cost. Begin returns the start, for the end.
 */
uint64_t await_records_begin(void);
void await_records_end(uint64_t start_ns);
uint64_t await_records_cost_ns(void);

#endif
