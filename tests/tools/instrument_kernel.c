/*
 * Runs the LLVM IR instrumentation pass by hand. Reads the text from standard input, writes the new
 * text (unchanged if there are no markers) to standard output, and the layout and other results to
 * standard error.
 *
 * Usage: instrument ARCH [key=value...], keys: warps, threads, parameters, shared, limit, per_sm,
 * buffer (shared | global), bytes, unit, sampled (mask), stride, barriers, sums, hoist. Exits
 * with status 1 and an error message if the text cannot be instrumented.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "intra/llvm/llvm_pass.h"

static uint64_t number_of(const char *key, int count, char **words, uint64_t otherwise)
{
	size_t length = strlen(key);

	for (int i = 0; i < count; i++)
		if (strncmp(words[i], key, length) == 0 && words[i][length] == '=')
			return strtoull(words[i] + length + 1, NULL, 0);
	return otherwise;
}

static bool has(const char *word, int count, char **words)
{
	for (int i = 0; i < count; i++)
		if (strcmp(words[i], word) == 0)
			return true;
	return false;
}

static enum instrument_tree tree_of(int count, char **words)
{
	if (has("tree=auto", count, words))
		return INSTRUMENT_TREE_AUTO;
	return number_of("sums", count, words, 0) ? INSTRUMENT_TREE_SUMS : INSTRUMENT_TREE_RECORDS;
}

static struct instrument_options options_of(const char *arch, int count, char **words)
{
	bool is_amd = strncmp(arch, "gfx", 3) == 0;

	return (struct instrument_options){
		.arch = arch,
		.warp_count = (uint32_t)number_of("warps", count, words, 4),
		.threads_per_warp = (uint32_t)number_of("threads", count, words, is_amd ? 64 : 32),
		.parameter_count = (uint32_t)number_of("parameters", count, words, 0),
		.shared_bytes = (uint32_t)number_of("shared", count, words, 0),
		.shared_limit = (uint32_t)number_of("limit", count, words, 0),
		.shared_per_processor = (uint32_t)number_of("per_sm", count, words, 0),
		.buffer = has("buffer=global", count, words) ? INSTRUMENT_BUFFER_GLOBAL
							     : INSTRUMENT_BUFFER_SHARED,
		.buffer_bytes = (uint32_t)number_of("bytes", count, words, 0),
		.warps_per_unit = (uint32_t)number_of("unit", count, words, 0),
		.warps = number_of("sampled", count, words, 0),
		.cta_stride = (uint32_t)number_of("stride", count, words, 0),
		.sched_barriers = number_of("barriers", count, words, 0) != 0,
		.tree = tree_of(count, words),
		.hoists = number_of("hoist", count, words, 0) != 0,
		.has_extremes = number_of("extremes", count, words, 0) != 0,
	};
}

static void print_layout(const struct instrument_result *result)
{
	struct out out;

	out_init(&out, -1);
	layout_write(&result->layout, &out);
	fprintf(stderr, "%.*s", (int)out.length, out.bytes ? out.bytes : "");
	fprintf(stderr, "#shared %u\n#records %u\n#ignored %u\n#buffer %s\n#can_hoist %d\n",
		result->shared_bytes, result->record_count, result->ignored_markers,
		result->buffer == INSTRUMENT_BUFFER_GLOBAL ? "global" : "shared",
		result->can_hoist);
	if (*result->records_reason)
		fprintf(stderr, "#why %s\n", result->records_reason);
	if (result->ignored_markers)
		fprintf(stderr, "#reason %s\n", result->ignored_reason);
	out_fini(&out);
}

int main(int argc, char **argv)
{
	struct instrument_options options;
	struct instrument_result result;
	struct proton_error err;
	char *text;
	size_t length;

	if (argc < 2) {
		fprintf(stderr, "usage: instrument ARCH [key=value...]\n");
		return 2;
	}
	options = options_of(argv[1], argc - 2, argv + 2);
	if (file_read_all("-", 0, &text, &length, &err) != PROTON_OK ||
	    instrument_llvm(text, length, &options, &result, &err) != PROTON_OK) {
		fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	print_layout(&result);
	fwrite(result.text ? result.text : text, 1, result.text ? result.length : length, stdout);
	instrument_result_fini(&result);
	free(text);
	return 0;
}
