/*
 * Device metrics of a GPU backend, from request to value: read by an append to a buffer in host
 * memory, at once or in each replay of a graph, and attributed when the value arrives.
 */
#pragma once

#include "record/thread/captured.h"

struct append_ring;
struct tensor;

/* State of one append; on the stack. */
struct append {
	struct append_ring *ring;
	uint64_t stream;
	bool is_capturing;
	bool is_refused; /* the stream accepts no work, because its capture has failed */
	bool is_pushed;
	int mode; /* the thread's capture mode, to be restored */
};

/* A vendor's way to read device memory in stream order, without waiting. */
struct tensors_reader {
	/*
	 * Finds out about the stream and prepares the append. Calls of the driver do not disturb a
	 * capture until end(), which has to be called in any case. E_UNSUPPORTED: the driver cannot
	 * do it.
	 */
	int (*begin)(struct append *append, uint64_t stream, uint64_t address,
		     struct proton_error *err);
	/* Appends the bytes under this id: now, or once per replay of the captured graph. */
	int (*launch)(struct append *append, uint64_t id, uint64_t address, uint32_t bytes,
		      struct proton_error *err);
	void (*end)(struct append *append);
	/* Delivers what has arrived, in order for each id. One caller at a time. */
	void (*drain)(void (*deliver)(uint64_t id, const void *bytes, uint32_t count));
	/* True if some buffer is at least half full. */
	bool (*is_filling)(void);
	/* Number of values lost in full buffers since the process began. */
	uint64_t (*lost)(void);
	const char *kernel;  /* name of its kernel; NULL: it has none */
	const char *library; /* that reports captured nodes, for messages */
	const char *graphs;  /* "CUDA" */
};

/* The error of a reader: `call` has failed. */
int tensors_refuse(int result, const char *call, struct proton_error *err);

/* `reader` stays valid. */
void tensors_start(const struct tensors_reader *reader);
/* After the last session, and after the graphs have been cleared. */
void tensors_stop(void);

/* read_metric() of the backend. */
int tensors_read(const struct device_metric *metric, struct proton_error *err);

/* True for the name of the append's kernel, to recognize it in unknown graphs. */
bool tensors_is_append(uint32_t frame);

/* The append being captured on this thread, held by a graph node; NULL if there is none. */
struct tensor *tensors_hold_captured(void);
/* The node was freed. */
void tensors_drop(struct tensor *tensor);
/* Adds one execution of it, in a replay launched at `launch`. From any thread. */
void tensors_executed(struct tensor *tensor, struct proton_context launch, uint64_t start_ns);

/* On the launching thread of a graph: drains the ring buffers if they are filling up. */
void tensors_relieve(void);

/* Periodically, while the program runs: adds the values that can be attributed with certainty. */
void tensors_catch_up(void);

/*
 * Two parts of a flush: tensors_collect(), after all work has run, takes the values that have
 * arrived; tensors_settle(), after its records have arrived, attributes values without a record to
 * the newest replay.
 */
void tensors_collect(void);
void tensors_settle(void);
