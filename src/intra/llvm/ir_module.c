/*
 * Reading LLVM IR modules: finds the kernel, its callees and the markers in both, and checks what
 * the pass assumes about Triton's kernels.
 */

#include "base/array.h"
#include "intra/llvm/ir_function.h"

#define LINE_MAX_COUNT (8u << 20)

static bool split_lines(const char *text, size_t length, struct ir_function *kernel)
{
	struct slice rest = {text, length};
	struct slice line;

	while (slice_take_line(&rest, &line)) {
		if (kernel->line_count == LINE_MAX_COUNT ||
		    !ARRAY_ADD(kernel->lines, kernel->line_count, line))
			return false;
	}
	return true;
}

/* The parameters of a "define" line; empty if it cannot be parsed. */
static struct slice parameters_of(struct slice line)
{
	const char *at = memchr(line.at, '@', line.length);
	struct slice rest = line;

	if (!at)
		return (struct slice){line.at, 0};
	rest = slice_between(slice_end(ir_name_at(at + 1, slice_end(line))), slice_end(line));
	if (rest.at == at + 1 || !slice_take(&rest, "("))
		return (struct slice){line.at, 0};
	struct slice parameters = slice_before(rest, ")");
	if (parameters.length == rest.length)
		parameters.length = 0;
	return parameters;
}

/*
 * Name of the last parameter of a "define" line if it is a pointer to global memory. Counts the
 * parameters.
 */
static struct slice last_parameter_of(struct slice line, uint32_t *count)
{
	struct slice rest = parameters_of(line);
	struct slice last = slice_before(rest, ",");

	for (*count = 1; last.length < rest.length; ++*count) {
		slice_skip(&rest, last.length + 1);
		last = slice_before(rest, ",");
	}
	last = slice_trim(last);
	const char *at = slice_find_last(last, " %");
	struct slice name = slice_between(at ? at + 1 : slice_end(last), slice_end(last));
	if (!slice_starts(last, "ptr addrspace(1) ") || name.length < 2 ||
	    name.length > IR_RESULT_MAX || name.at[1] == '"' ||
	    ir_name_at(name.at + 1, slice_end(name)).length + 1 != name.length)
		name.length = 0;
	return name;
}

static bool is_kernel(struct slice line)
{
	return ir_is_define(line) &&
	       (slice_find(line, " ptx_kernel ") || slice_find(line, " amdgpu_kernel "));
}

/* Finds the kernel, and counts the markers that cannot be parsed and those in other functions. */
static int find_kernel(struct ir_function *kernel, struct proton_error *err)
{
	bool is_found = false, is_in_kernel = false, has_markers = false;
	struct ir_marker marker;

	for (uint32_t i = 0; i < kernel->line_count; i++) {
		struct slice line = kernel->lines[i];

		if (ir_is_end(line)) {
			if (is_in_kernel)
				kernel->end_line = i;
			is_in_kernel = false;
		} else if (is_kernel(line)) {
			if (is_found)
				return err_set(err, PROTON_E_UNSUPPORTED,
					       "the module contains more than one kernel");
			is_found = true;
			is_in_kernel = true;
			kernel->define_line = i;
			kernel->is_amd = slice_find(line, " amdgpu_kernel ");
		} else if (ir_marker_of(line, &marker)) {
			has_markers = true;
			kernel->outside_markers += !is_in_kernel;
		} else if (ir_is_unknown_marker(line)) {
			kernel->unknown_line = kernel->unknown_markers++ ? kernel->unknown_line : i;
		}
	}
	if (!has_markers)
		return PROTON_OK;
	if (!is_found || kernel->end_line <= kernel->define_line)
		return err_set(err, PROTON_E_UNSUPPORTED, "the module contains no kernel");
	kernel->last_parameter =
		last_parameter_of(kernel->lines[kernel->define_line], &kernel->parameter_count);
	if (!kernel->last_parameter.length)
		return err_set(err, PROTON_E_UNSUPPORTED,
			       "the kernel has no parameter for the profile's buffer");
	if (!slice_find(kernel->lines[kernel->define_line], "{"))
		return ir_parse_error(kernel->define_line, err);
	return PROTON_OK;
}

int ir_module_read(const char *text, size_t length, struct ir_function *kernel,
		   struct proton_error *err)
{
	int status;

	*kernel = (struct ir_function){0};
	if (!memmem(text, length, "// proton.", 10))
		return PROTON_OK; /* the common case costs one search */
	if (!split_lines(text, length, kernel))
		status = err_nomem(err);
	else
		status = find_kernel(kernel, err);
	if (status == PROTON_OK && kernel->outside_markers)
		status = callees_find(kernel, err);
	if (status == PROTON_OK && kernel->last_parameter.length)
		status = ir_function_read_body(kernel, err);
	if (status != PROTON_OK)
		ir_module_fini(kernel);
	return status;
}

void ir_module_fini(struct ir_function *kernel)
{
	callees_free(kernel->callees);
	free(kernel->lines);
	ir_function_fini(kernel);
}

/* ------------------------------------------------------------------ checks */

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

int ir_module_check(const struct ir_function *kernel, uint32_t parameter_count,
		    uint32_t shared_bytes, struct proton_error *err)
{
	if (parameter_count && kernel->parameter_count != parameter_count)
		return err_set(err, PROTON_E_UNSUPPORTED,
			       "the kernel has %u parameters instead of %u, so the one for the "
			       "profile's buffer is unknown",
			       kernel->parameter_count, parameter_count);
	/* The ring buffers follow the kernel's shared memory. Triton's metadata has its size. */
	for (uint32_t i = 0; i < kernel->line_count; i++) {
		struct slice line = kernel->lines[i];

		if (!slice_starts(line, "%") && !slice_starts(line, "store ") &&
		    !slice_find(line, "call "))
			continue;
		while (slice_take_past(&line, "@global_smem")) {
			uint32_t offset = offset_at(line);

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
