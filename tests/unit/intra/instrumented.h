/* Sessions and kernels for tests of the instrumentation backend. */
#pragma once

#include "unit/recorded.h"

#include "intra/layout.h"

/* Starts a session "a" of the instrumentation backend. */
static int instrumented_start(const char *data, const char *mode)
{
	return REC_START(.backend = "instrumentation", .data = data, .mode = mode,
			 .format = "proton");
}

/* Bytes of a CTA with the layout's units and ring buffers. */
static uint32_t instrumented_cta_bytes(const struct instrument_layout *layout)
{
	return (uint32_t)(layout_ring_at(layout, layout->unit_count) + 127) & ~127u;
}

/* Registers a kernel with this layout. */
static void instrumented_add(const struct instrument_layout *layout, uint64_t function,
			     const char *name)
{
	struct out out;
	size_t length;

	out_init(&out, -1);
	layout_write(layout, &out);
	char *text = out_take(&out, &length);
	CHECK_DONE(proton_instrument_kernel(function, name, text, &err));
	free(text);
	out_fini(&out);
}
