/* Frames of a line table, each stored once, and the strings that they contain. */
#pragma once

#include "base/hash.h"
#include "base/strings.h"
#include "symbol/line_table.h"

struct line_frames {
	struct strings strings;
	struct line_frame *frames; /* that with number 1 first */
	size_t count, capacity;
	struct hash_table numbers; /* of frames */
};

/* `bytes`: size of the input; the strings may have a small multiple of it. */
int line_frames_init(struct line_frames *frames, size_t bytes, struct proton_error *err);
void line_frames_fini(struct line_frames *frames);
/* A string that stays valid, the same pointer for the same text. NULL if out of memory. */
const char *line_frames_text(struct line_frames *frames, const char *text, size_t length);
/* The number of a frame; its strings are from line_frames_text(). 0 if out of memory. */
uint32_t line_frames_add(struct line_frames *frames, struct line_frame frame);
