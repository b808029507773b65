/* Source lines of a sampled function, from the line table of its code object. */
#pragma once

#include "base/hash.h"
#include "model/profile.h"

struct line_table;

/* A line of a noinline function that the kernel calls: it is shown under that name. */
struct noinline_frame {
	uint32_t frame; /* the table's */
	uint32_t name;  /* string */
	uint32_t caller;
};

struct lines {
	struct profile *profile;
	struct profile_samples *samples;
	struct line_table *table; /* NULL: no line is known */
	uint32_t code_object;     /* that the table is of, index + 1 */
	uint32_t function;
	uint32_t name;   /* string: the function's name */
	const char *own; /* the table's name of the function */
	/* Numbered after the table's frames. */
	struct noinline_frame *noinline_frames;
	size_t noinline_count, noinline_capacity;
	struct hash_table by_frame; /* of noinline_frames: hash_pair(frame, name) to index + 1 */
};

/* Prepares for a function; the table of the previous one is used again if it is the same. */
void lines_open(struct lines *lines, struct profile *profile, struct profile_samples *samples,
		const struct profile_function *function);
void lines_close(struct lines *lines);

/*
 * A number for the line of an instruction with its callers; 0: not known. `samples` are counted by
 * how much is known about their lines.
 */
uint32_t lines_frame(struct lines *lines, uint32_t offset, uint64_t samples);
/* Adds the share of samples with lines to the profile's info. */
void lines_describe(const struct lines *lines);
/* The largest number. */
uint32_t lines_frame_max(const struct lines *lines);
/* The frame that `frame` was inlined into; 0: none. */
uint32_t lines_caller(const struct lines *lines, uint32_t frame);
/* The profile's frame of a line. */
uint32_t lines_profile_frame(const struct lines *lines, uint32_t frame);
