/*
 * Process-wide frames, shared by all threads and sessions as small integers.
 * Lookups of existing ones take no lock; additions take one. They are kept when sessions end,
 * because a program's contexts recur. Their meaning never changes, except for names that were
 * entered and cleared: see reused_names.h.
 */
#ifndef RECORD_NAMES_FRAMES_H
#define RECORD_NAMES_FRAMES_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "format/rows.h"

#define FRAME_NONE UINT32_MAX
/* "(other)": stands for names that exceed the limits of name_limits.h. */
#define FRAME_OTHER 1u
#define FRAME_OTHER_KERNEL 2u

extern pthread_mutex_t frames_lock; /* guards all additions */

/* Reserves the tables; idempotent, called by the first start. */
int frames_init(struct proton_error *err);
bool frames_are_ready(void);

/* The row of a frame; its strings are ids for frames_text(). */
const struct row_frame *frames_get(uint32_t frame);
const char *frames_text(uint32_t string, uint32_t *length_out);
uint32_t frames_string(const char *text, size_t length); /* STRING_NONE if out of memory */

/* The frame of a metric value; "(other)" above the limit. */
uint32_t frames_value_text(const char *text, size_t length);

/* Found or made, "(other)" above the limit; FRAME_NONE if out of memory. */
uint32_t frames_add(enum frame_kind kind, const char *name, size_t length);
/*
 * The frame of a name to enter below `parent`: like frames_add(), but "(other)" if `parent` has too
 * many children. An unlimited number of names therefore does not make an unlimited number of
 * frames.
 */
uint32_t frames_add_below(uint32_t parent, const char *name, size_t length);
/* The kernel frame of the same name. */
uint32_t frames_as_kernel(uint32_t frame);

/* The frame of a name; 0: none, or not found without the lock. Call it in a section. */
uint32_t frames_find_name(const char *name, size_t length);

#endif
