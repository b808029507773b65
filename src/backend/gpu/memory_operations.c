/* Names of memory copies and memsets. */
#include "backend/gpu/records.h"

#include <stdio.h>

#include "record/names/frames.h"

static const char *const copy_names[COPY_KINDS] = {
	"?", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP",
};

static const char *const memory_names[MEMORY_KINDS] = {
	"Unknown", "Pageable", "Pinned",        "Device",
	"Array",   "Managed",  "Device Static", "Managed Static",
};

/* Frames by kind, source and destination of a copy, + 1. */
static uint32_t copy_frames[COPY_KINDS][MEMORY_KINDS][MEMORY_KINDS];
static uint32_t set_frames[MEMORY_KINDS];

static uint32_t frame_named(uint32_t *cached, const char *text, int length)
{
	uint32_t frame = frames_add(FRAME_KERNEL, text, (size_t)length);

	if (frame != FRAME_NONE)
		*cached = frame + 1;
	return frame;
}

uint32_t memory_operations_copy_frame(uint32_t copy, uint32_t from, uint32_t to)
{
	char text[64];

	copy = copy < COPY_KINDS ? copy : COPY_UNKNOWN;
	from = from < MEMORY_KINDS ? from : MEMORY_UNKNOWN;
	to = to < MEMORY_KINDS ? to : MEMORY_UNKNOWN;
	uint32_t *cached = &copy_frames[copy][from][to];
	if (*cached)
		return *cached - 1;
	int length = snprintf(text, sizeof(text), "Memcpy %s (%s -> %s)", copy_names[copy],
			      memory_names[from], memory_names[to]);
	return frame_named(cached, text, length);
}

uint32_t memory_operations_set_frame(uint32_t memory)
{
	char text[64];

	memory = memory < MEMORY_KINDS ? memory : MEMORY_UNKNOWN;
	uint32_t *cached = &set_frames[memory];
	if (*cached)
		return *cached - 1;
	int length = snprintf(text, sizeof(text), "Memset (%s)", memory_names[memory]);
	return frame_named(cached, text, length);
}
