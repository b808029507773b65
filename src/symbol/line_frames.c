/* Frames of a line table: an array, and a hash table that finds equal ones. */
#include "symbol/line_frames.h"

#include "base/array.h"

int line_frames_init(struct line_frames *frames, size_t bytes, struct proton_error *err)
{
	*frames = (struct line_frames){0};
	return strings_init(&frames->strings, ((bytes >> 16) * 4 + 16) << 16, err);
}

void line_frames_fini(struct line_frames *frames)
{
	strings_fini(&frames->strings);
	free(frames->frames);
	hash_table_fini(&frames->numbers);
	*frames = (struct line_frames){0};
}

const char *line_frames_text(struct line_frames *frames, const char *text, size_t length)
{
	uint32_t id = strings_add(&frames->strings, text, length);

	return id == STRING_NONE ? NULL : string_text(&frames->strings, id);
}

static bool is_equal(const struct line_frame *a, const struct line_frame *b)
{
	return a->file == b->file && a->function == b->function && a->line == b->line &&
	       a->column == b->column && a->caller == b->caller;
}

uint32_t line_frames_add(struct line_frames *frames, struct line_frame frame)
{
	uint64_t words[] = {(uintptr_t)frame.file, (uintptr_t)frame.function,
			    (uint64_t)frame.line << 32 | frame.column, frame.caller};
	uint64_t hash = hash_bytes(words, sizeof(words)), at = hash;
	uint32_t number;

	while ((number = hash_table_next(&frames->numbers, hash, &at)))
		if (is_equal(&frames->frames[number - 1], &frame))
			return number;
	number = (uint32_t)frames->count + 1;
	if (!array_reserve(&frames->frames, &frames->capacity, number, sizeof(*frames->frames)) ||
	    !hash_table_add(&frames->numbers, hash, number))
		return 0;
	frames->frames[frames->count++] = frame;
	return number;
}
