/*
 * Texts of Chrome traces: frames, metric values of events as strings like upstream's and as
 * numbers, and the scopes of instrumented kernels.
 */
#pragma once

#include "base/buf.h"
#include "export/timeline.h"

/* Literals and numbers by hand, because a trace has millions of them. */

static inline char *put_text(char *at, const char *text, size_t length)
{
	memcpy(at, text, length);
	return at + length;
}

static inline char *put_u64(char *at, uint64_t value)
{
	char digits[20];
	size_t count = 0;

	do {
		digits[count++] = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	while (count)
		*at++ = digits[--count];
	return at;
}

/* Writes nanoseconds as microseconds with three decimals. */
static inline char *put_us(char *at, uint64_t ns)
{
	uint64_t rest = ns % 1000;

	at = put_u64(at, ns / 1000);
	*at++ = '.';
	*at++ = (char)('0' + rest / 100);
	*at++ = (char)('0' + rest / 10 % 10);
	*at++ = (char)('0' + rest % 10);
	return at;
}

#define PUT(at, literal) put_text(at, literal, sizeof(literal) - 1)
/* A literal, and then a number or a time. */
#define PUT_U64(at, literal, value) put_u64(PUT(at, literal), value)
#define PUT_US(at, literal, ns) put_us(PUT(at, literal), ns)

/* The frame's text, quoted; only the beginning if it has more than 1023 bytes. */
void chrome_quote_frame(const struct profile *profile, struct out *out, uint32_t frame);
/*
 * ["ROOT","a","b"]: the path to `node`, which is last; only the innermost 1024 frames of a deep
 * one.
 */
void chrome_call_stack(const struct profile *profile, struct out *out, uint32_t node);

/* Further metrics of an event are omitted; the tree has them. */
#define CHROME_VALUES_MAX 64u

struct chrome_value {
	const struct row_metric *metric;
	struct row_sample sample; /* the sum of the values added to the event */
};

struct chrome_values {
	const struct timeline *timeline;
	struct chrome_value values[CHROME_VALUES_MAX]; /* by name */
	uint32_t count;
};

/* Collects the values from row `first` of the event metric values on; 0: none. */
void chrome_values_read(struct chrome_values *values, const struct timeline *timeline,
			uint32_t first);
/* "name: <m1, 1.000000>, <m2, [1,2]>", quoted. */
void chrome_values_quote(const struct chrome_values *values, struct out *out, uint32_t frame);
/* ,"metrics":{"m1":"1.000000"},"values":{"m1":1.0} */
void chrome_values_write(const struct chrome_values *values, struct out *out);

/*
 * Intra-kernel scopes, with the fields of upstream Proton: process and thread are strings ("mm
 * Core7 CTA12", "warp 0 (line 1)"), and the arguments of each slice are the call stack of its
 * kernel and the times of its warp.
 */
struct chrome_intra {
	const struct timeline *timeline;
	struct out *out;
	char **names;     /* by node: its frame as JSON, or NULL */
	bool *has_events; /* an event precedes, so a comma is needed */
	/* The runs of the current warp of a CTA, in order of their starts; the current position. */
	struct chrome_run *runs;
	size_t run_count;
	const struct row_lane *lane;
	struct out pid; /* "pid":"mm Core7 CTA12" of the current CTA */
	struct out tid; /* "tid":"warp 0 (line 1)" of the current track */
};

void chrome_intra_fini(struct chrome_intra *intra);
/* A sink of timeline_walk() for TRACK_UNIT tracks. */
void chrome_intra_track(struct chrome_intra *intra, const struct timeline_track *track);
void chrome_intra_slice(struct chrome_intra *intra, const struct timeline_slice *slice);
