/*
 * Buffer clearing: prepares a device buffer for the next launch. Ring buffers need no clearing: the
 * unit's header has the number of records, and is valid only with its magic number, which the unit
 * writes last. So headers are zeroed. If ring buffers were full, their slack areas are zeroed too,
 * because only its age distinguishes a record there from one in the ring buffer. The copy engine
 * does it: a memset would be a kernel, which competes with the program's kernels.
 */
#ifndef BACKEND_INTRA_BUFFER_CLEAR_H
#define BACKEND_INTRA_BUFFER_CLEAR_H

#include <stdbool.h>

#include "backend/intra/device_buffers.h"
#include "intra/layout.h"

/* These functions only queue work on `stream`; the context is current. False if that failed. */

/* Headers of the CTAs that the last launch may have had. */
bool buffer_clear_headers(const struct buffer *buffer, const struct instrument_layout *layout,
			  void *stream);
/* Slack areas of their ring buffers. */
bool buffer_clear_slack(const struct buffer *buffer, const struct instrument_layout *layout,
			void *stream);
/* The whole buffer, for launches with any layout. */
bool buffer_clear_all(const struct buffer *buffer, void *stream);

struct shape buffer_clear_shape(const struct instrument_layout *layout);
/* True if a launch with this layout finds zeros where it needs them. */
bool buffer_clear_is_for(const struct buffer *buffer, const struct instrument_layout *layout);

/* At the end of a run; a context is current. */
void buffer_clear_fini(void);
void buffer_clear_forget(void);

#endif
