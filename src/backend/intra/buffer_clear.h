/*
 * Making a buffer ready for the next launch. What is in rings needs no clearing: a unit's header
 * says how many records there are, and is believed if its magic number is there, which the unit
 * writes last. So headers are zeroed, and where rings were full the slack behind them (a record
 * there is told from one in the ring by its age), by a copy engine: to fill memory would be a
 * kernel, which takes turns with the program's.
 */
#ifndef BACKEND_INTRA_BUFFER_CLEAR_H
#define BACKEND_INTRA_BUFFER_CLEAR_H

#include <stdbool.h>

#include "backend/intra/device_buffers.h"
#include "intra/layout.h"

/* All of these only queue the work on `stream`; the context is current. False: it failed. */

/* The headers of the CTAs that the last launch may have had. */
bool buffer_clear_headers(const struct buffer *buffer, const struct instrument_layout *layout,
			  void *stream);
/* The slack behind their rings. */
bool buffer_clear_slack(const struct buffer *buffer, const struct instrument_layout *layout,
			void *stream);
/* All of it: for launches of any layout. */
bool buffer_clear_all(const struct buffer *buffer, void *stream);

struct shape buffer_clear_shape(const struct instrument_layout *layout);
/* True if a launch of the layout finds zeros where they have to be. */
bool buffer_clear_is_for(const struct buffer *buffer, const struct instrument_layout *layout);

/* A run has ended; some context is current. */
void buffer_clear_fini(void);
void buffer_clear_forget(void);

#endif
