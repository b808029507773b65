/* Checks of what the pass assumes about Triton's kernels. */
#include "intra/llvm/check_kernel.h"

static const char memory[] = "@global_smem";

static int check_parameters(const struct ir_function *kernel, uint32_t expected,
			    struct proton_error *err)
{
	if (!expected || kernel->parameter_count == expected)
		return PROTON_OK;
	return err_set(err, PROTON_E_UNSUPPORTED,
		       "the kernel has %u parameters instead of %u, so the one for the profile's "
		       "buffer is unknown",
		       kernel->parameter_count, expected);
}

/* The constant offset after the name of the memory: "@global_smem, i64 4096)". */
static uint32_t offset_at(struct slice after)
{
	uint32_t bits;
	uint32_t offset = 0;

	if (slice_take(&after, ", i") && slice_take_number(&after, 64, &bits) &&
	    slice_take(&after, " ") && slice_take_number(&after, UINT32_MAX, &offset) &&
	    slice_starts(after, ")"))
		return offset;
	return 0;
}

/* The ring buffers follow the kernel's shared memory. Its size comes from Triton's metadata. */
static int check_shared(const struct ir_function *kernel, uint32_t shared_bytes,
			struct proton_error *err)
{
	for (uint32_t i = 0; i < kernel->line_count; i++) {
		struct slice line = kernel->lines[i];
		const char *found;

		if (!slice_starts(line, "%") && !slice_starts(line, "store ") &&
		    !slice_find(line, "call "))
			continue;
		while ((found = slice_find(line, memory)) != NULL) {
			uint32_t offset;

			line = slice_between(found + strlen(memory), slice_end(line));
			offset = offset_at(line);
			if (offset >= shared_bytes)
				return err_set(
					err, PROTON_E_UNSUPPORTED,
					"the kernel uses shared memory at byte %u, but has only "
					"%u bytes in its metadata",
					offset, shared_bytes);
		}
	}
	return PROTON_OK;
}

int check_kernel(const struct ir_function *kernel, const struct instrument_options *options,
		 struct proton_error *err)
{
	int status = check_parameters(kernel, options->parameter_count, err);

	return status == PROTON_OK ? check_shared(kernel, options->shared_bytes, err) : status;
}
