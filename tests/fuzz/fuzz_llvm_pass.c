/* Fuzz target for the LLVM IR instrumentation pass: any text, with options from its last bytes. */
#include <stdlib.h>
#include <string.h>

#include "intra/llvm/llvm_pass.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void run(const char *text, size_t length, const struct instrument_options *options)
{
	struct instrument_result result;
	struct instrument_layout layout;
	struct proton_error err;
	struct out out;

	if (instrument_llvm(text, length, options, &result, &err) != PROTON_OK)
		return;
	if (result.text) {
		out_init(&out, -1);
		layout_write(&result.layout, &out);
		/* The pass's layout must be readable. */
		if (layout_read(out.bytes, out.length, &layout, &err) != PROTON_OK ||
		    layout.code_count != result.layout.code_count ||
		    layout.scope_count != result.layout.scope_count ||
		    layout.sum_count != result.layout.sum_count)
			abort();
		layout_fini(&layout);
		out_fini(&out);
	} else if (result.record_count || result.layout.scope_count) {
		abort();
	}
	instrument_result_fini(&result);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct instrument_options options = {.arch = "sm_90", .threads_per_warp = 32};
	uint8_t tail[8] = {0};
	char *text;

	if (size)
		memcpy(tail, data + size - (size < 8 ? size : 8), size < 8 ? size : 8);
	options.arch = tail[0] & 1 ? "gfx942" : "sm_90";
	options.threads_per_warp = tail[0] & 2 ? 64 : 32;
	options.mode.buffer = tail[0] & 4 ? INSTRUMENT_BUFFER_GLOBAL : INSTRUMENT_BUFFER_SHARED;
	options.mode.sched_barriers = tail[0] & 8;
	options.mode.tree = (enum instrument_tree)(tail[0] >> 4 & 3) % 3;
	options.has_extremes = tail[0] & 64;
	options.hoists = tail[0] & 64;
	options.warp_count = tail[1] % 34;
	options.mode.warps_per_unit = tail[2] & 3;
	options.mode.warps = tail[2] & 4 ? tail[3] : 0;
	options.mode.cta_stride = tail[4] & 7;
	options.shared_bytes = (uint32_t)tail[5] << 10;
	options.shared_limit = tail[6] & 1 ? 232448 : 0;
	options.mode.buffer_bytes = tail[7] & 1 ? (uint32_t)tail[7] << (tail[6] >> 4) : 0;
	/* A copy of the exact size, so out-of-bounds reads are detected. */
	text = malloc(size ? size : 1);
	if (!text)
		return 0;
	if (size)
		memcpy(text, data, size);
	run(text, size, &options);
	/* The text determines the vendor; most corpus files have four warps. */
	options.warp_count = 4;
	options.mode.warps = 0;
	run(text, size, &options);
	free(text);
	return 0;
}
