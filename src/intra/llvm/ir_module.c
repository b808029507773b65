/* Reading LLVM IR modules: finds the kernel, its callees and the markers in both. */
#include "intra/llvm/ir_module.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

#define LINE_MAX_COUNT (8u << 20)

static bool split_lines(const char *text, size_t length, struct ir_function *kernel)
{
	struct slice rest = {text, length};
	struct slice line;
	size_t capacity = 0;

	while (slice_take_line(&rest, &line)) {
		if (kernel->line_count == LINE_MAX_COUNT ||
		    !ARRAY_ADD(kernel->lines, capacity, kernel->line_count, line))
			return false;
	}
	return true;
}

/* The "(" of a "define" line, after the kernel name; NULL. */
static const char *parameters_of(struct slice line)
{
	const char *end = line.at + line.length;
	const char *at = memchr(line.at, '@', line.length);
	struct slice name;

	if (!at)
		return NULL;
	name = ir_name_at(at + 1, end);
	at = name.at + name.length;
	return name.length && at < end && *at == '(' ? at : NULL;
}

/*
 * Name of the last parameter of a "define" line if it is a pointer to global memory. Counts the
 * parameters.
 */
static struct slice last_parameter_of(struct slice line, uint32_t *count)
{
	const char *end = slice_end(line);
	struct slice before;
	const char *start = parameters_of(line);
	struct slice found = {NULL, 0};
	int depth = 0;

	*count = 1;
	for (const char *at = start; at && at < end; at++) {
		if (*at == '"') {
			at = memchr(at + 1, '"', (size_t)(end - at - 1));
			if (!at)
				return (struct slice){NULL, 0};
		} else if (*at == '(' || *at == '{' || *at == '[' || *at == '<') {
			depth++;
		} else if (*at == ')' || *at == '}' || *at == ']' || *at == '>') {
			if (--depth == 0)
				break;
		} else if (*at == ',' && depth == 1) {
			start = at;
			++*count;
		} else if (*at == '%' && depth == 1) {
			found.at = at;
			found.length = 1 + ir_name_at(at + 1, end).length;
			at += found.length - 1;
		}
	}
	/* `start` is at the "(" or "," before the parameter. */
	if (start && end - start > 2)
		start += start[1] == ' ' ? 2 : 1;
	if (!start || depth != 0 || found.length < 2 || found.length > IR_RESULT_MAX ||
	    found.at[1] == '"' || found.at < start)
		return (struct slice){NULL, 0};
	before = slice_between(start, found.at);
	return slice_take(&before, "ptr addrspace(1) ") ? found : (struct slice){NULL, 0};
}

static bool is_kernel(struct slice line)
{
	return ir_is_define(line) &&
	       (slice_find(line, " ptx_kernel ") || slice_find(line, " amdgpu_kernel "));
}

/* Finds the kernel, and counts the markers that cannot be parsed and those in other functions. */
static int find_kernel(struct ir_function *kernel, struct proton_error *err)
{
	bool is_found = false;
	bool is_in_kernel = false;
	bool has_markers = false;
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

/* Reads the instrumented callees, if there are markers outside the kernel, then the kernel. */
static int read_functions(struct ir_function *kernel, struct proton_error *err)
{
	const struct callees *callees;
	int status = PROTON_OK;

	if (kernel->outside_markers)
		status = callees_find(kernel, err);
	if (status != PROTON_OK)
		return status;
	callees = kernel->callees;
	return ir_function_read_body(kernel, callees ? callees->calls : NULL,
				     callees ? callees->call_count : 0, err);
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
	if (status == PROTON_OK && kernel->last_parameter.length)
		status = read_functions(kernel, err);
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
