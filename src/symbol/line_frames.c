/* Frames of a line table: hash index over an array. */
#include "symbol/line_frames.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/hash.h"

#define FIRST_SLOTS 256u

int line_frames_init(struct line_frames *frames, size_t bytes, struct proton_error *err)
{
	*frames = (struct line_frames){.slot_count = FIRST_SLOTS};
	frames->slots = calloc(FIRST_SLOTS, sizeof(*frames->slots));
	if (!frames->slots)
		return err_nomem(err);
	return strings_init(&frames->strings, ((bytes >> 16) * 4 + 16) << 16, err);
}

void line_frames_fini(struct line_frames *frames)
{
	strings_fini(&frames->strings);
	free(frames->frames);
	free(frames->slots);
	*frames = (struct line_frames){0};
}

const char *line_frames_text(struct line_frames *frames, const char *text, size_t length)
{
	uint32_t id = strings_add(&frames->strings, text, length);

	return id == STRING_NONE ? NULL : string_text(&frames->strings, id);
}

/* The slot of an equal frame, or else the free one for it. */
static uint32_t *slot_of(const struct line_frames *frames, const struct line_frame *frame)
{
	uint64_t words[] = {(uintptr_t)frame->file, (uintptr_t)frame->function,
			    (uint64_t)frame->line << 32 | frame->column, frame->caller};
	size_t slot = hash_bytes(words, sizeof(words)) & (frames->slot_count - 1);

	for (;; slot = (slot + 1) & (frames->slot_count - 1)) {
		const struct line_frame *other = &frames->frames[frames->slots[slot] - 1];

		if (!frames->slots[slot] ||
		    (other->file == frame->file && other->function == frame->function &&
		     other->line == frame->line && other->column == frame->column &&
		     other->caller == frame->caller))
			return &frames->slots[slot];
	}
}

static bool grow(struct line_frames *frames)
{
	uint32_t *old = frames->slots;
	uint32_t *slots = calloc(frames->slot_count * 2, sizeof(*slots));

	if (!slots)
		return false;
	frames->slots = slots;
	frames->slot_count *= 2;
	for (size_t i = 0; i < frames->count; i++)
		*slot_of(frames, &frames->frames[i]) = (uint32_t)i + 1;
	free(old);
	return true;
}

uint32_t line_frames_add(struct line_frames *frames, struct line_frame frame)
{
	uint32_t *slot = slot_of(frames, &frame);

	if (*slot)
		return *slot;
	if (frames->count * 2 >= frames->slot_count) {
		if (!grow(frames))
			return 0;
		slot = slot_of(frames, &frame);
	}
	if (!array_reserve(&frames->frames, &frames->capacity, frames->count + 1,
			   sizeof(*frames->frames)))
		return 0;
	frames->frames[frames->count++] = frame;
	*slot = (uint32_t)frames->count;
	return *slot;
}
