/*
 * symbol/ptx_lines: any bytes as PTX. Lines are in order, each chain of calls ends, and lookups of
 * lines and of source lines find frames that exist.
 */
#include <stdint.h>
#include <stdlib.h>

#include "symbol/ptx_lines.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

static void check_frame(const struct line_frames *frames, uint32_t frame)
{
	while (frame) {
		uint32_t caller = frame <= frames->count ? frames->frames[frame - 1].caller : frame;

		if (caller >= frame || !frames->frames[frame - 1].file)
			abort();
		frame = caller;
	}
}

static void check(const struct ptx_lines *ptx, struct line_frames *frames)
{
	for (size_t i = 0; i < ptx->count; i++) {
		uint32_t frame = ptx->lines[i].frame;
		struct line_frame source;

		if (i && ptx->lines[i].line <= ptx->lines[i - 1].line)
			abort();
		if (ptx_lines_at(ptx, ptx->lines[i].line) != frame)
			abort();
		check_frame(frames, frame);
		if (!frame)
			continue;
		source = frames->frames[frame - 1];
		check_frame(frames, ptx_lines_of(ptx, source.file, source.line, frames));
	}
	ptx_lines_at(ptx, 0);
	ptx_lines_at(ptx, UINT32_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	struct line_frames frames;
	struct ptx_lines ptx;

	if (line_frames_init(&frames, length, NULL) != PROTON_OK)
		return 0;
	if (ptx_lines_read(&ptx, (const char *)bytes, length, &frames) == PROTON_OK)
		check(&ptx, &frames);
	ptx_lines_fini(&ptx);
	line_frames_fini(&frames);
	return 0;
}
