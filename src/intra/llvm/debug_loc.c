/* Parsing !DILocation metadata and grouping debug locations by source line. */
#include "intra/llvm/debug_loc.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* The number after `word`, or IR_NAME_NONE. */
static uint32_t number_after(struct slice line, const char *word)
{
	const char *at = slice_find(line, word);
	const char *end = line.at + line.length;
	uint32_t number = 0;

	if (!at)
		return IR_NAME_NONE;
	for (at += strlen(word); at < end && *at >= '0' && *at <= '9'; at++)
		number = number * 10 + (uint32_t)(*at - '0');
	return number;
}

/* A debug location: "!7 = !DILocation(line: 3, column: 9, scope: !4, inlinedAt: !5)". */
struct location {
	uint32_t line;
	uint32_t scope;
	uint32_t inlined_at;
	uint32_t number;
};

static bool is_same_line(const struct location *a, const struct location *b)
{
	return a->line == b->line && a->scope == b->scope && a->inlined_at == b->inlined_at;
}

static int compare_locations(const void *a, const void *b)
{
	const struct location *left = a;
	const struct location *right = b;

	if (left->line != right->line)
		return left->line < right->line ? -1 : 1;
	if (left->scope != right->scope)
		return left->scope < right->scope ? -1 : 1;
	if (left->inlined_at != right->inlined_at)
		return left->inlined_at < right->inlined_at ? -1 : 1;
	return (left->number > right->number) - (left->number < right->number);
}

bool debug_lines_init(struct debug_lines *sources, const struct ir_function *function)
{
	struct location *locations = NULL;
	size_t capacity = 0;
	size_t count = 0;

	*sources = (struct debug_lines){.function = function};
	sources->first = calloc(function->line_count, sizeof(*sources->first));
	if (!sources->first)
		return false;
	for (uint32_t i = function->end_line; i < function->line_count; i++) {
		struct slice line = function->lines[i];
		uint32_t number = slice_starts(line, "!") ? number_after(line, "!") : IR_NAME_NONE;

		/*
		 * Each metadata number takes a line of its own, so valid numbers are below the line
		 * count.
		 */
		if (!slice_find(line, "!DILocation(") || number >= function->line_count)
			continue;
		if (!array_reserve(&locations, &capacity, count + 1, sizeof(*locations))) {
			free(locations);
			return false;
		}
		locations[count++] = (struct location){
			.line = number_after(line, "line: "),
			.scope = number_after(line, "scope: !"),
			.inlined_at = number_after(line, "inlinedAt: !"),
			.number = number,
		};
	}
	if (count)
		qsort(locations, count, sizeof(*locations), compare_locations);
	for (size_t i = 0, first = 0; i < count; i++) {
		if (!is_same_line(&locations[first], &locations[i]))
			first = i;
		sources->first[locations[i].number] = locations[first].number + 1;
	}
	free(locations);
	return true;
}

void debug_lines_fini(struct debug_lines *sources)
{
	free(sources->first);
	*sources = (struct debug_lines){0};
}

uint32_t debug_loc_of(const struct ir_function *function, uint32_t line)
{
	return number_after(function->lines[line], ", !dbg !");
}

uint32_t debug_line_of(const struct debug_lines *sources, uint32_t line)
{
	uint32_t location = debug_loc_of(sources->function, line);

	return location < sources->function->line_count && sources->first[location]
		       ? sources->first[location] - 1
		       : location;
}
