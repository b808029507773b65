/*
 * Locations of MLIR: "loc(...)" around a place, a name, a call, several at once, or an alias for
 * one of these. Nested ones are followed by a loop, a limited number of steps.
 */
#include "instrument/ttgir_text.h"

#include <stdlib.h>

#define STEPS_MAX 64
#define CALLERS_MAX 8

static int compare_aliases(const void *a, const void *b)
{
	struct span left = ((const struct ttgir_alias *)a)->name;
	struct span right = ((const struct ttgir_alias *)b)->name;
	size_t shorter = left.length < right.length ? left.length : right.length;
	int order = shorter ? memcmp(left.at, right.at, shorter) : 0;

	if (order)
		return order;
	return (left.length > right.length) - (left.length < right.length);
}

bool ttgir_locations_read(struct span text, struct ttgir_locations *out)
{
	struct span line;
	size_t capacity = 0;

	*out = (struct ttgir_locations){0};
	while (text_take_line(&text, &line)) {
		const char *equals;

		if (line.length < 4 || memcmp(line.at, "#loc", 4) != 0)
			continue;
		equals = span_find(line, " = loc(");
		if (!equals)
			continue;
		if (out->count == capacity) {
			struct ttgir_alias *grown;

			capacity = capacity ? capacity * 2 : 64;
			grown = realloc(out->aliases, capacity * sizeof(*grown));
			if (!grown) {
				ttgir_locations_fini(out);
				return false;
			}
			out->aliases = grown;
		}
		out->aliases[out->count++] = (struct ttgir_alias){
			.name = {line.at, (size_t)(equals - line.at)},
			.body = span_trim((struct span){
				equals + 3, line.length - (size_t)(equals + 3 - line.at)}),
		};
	}
	if (out->count)
		qsort(out->aliases, out->count, sizeof(*out->aliases), compare_aliases);
	return true;
}

void ttgir_locations_fini(struct ttgir_locations *locations)
{
	free(locations->aliases);
	*locations = (struct ttgir_locations){0};
}

/* ------------------------------------------------------------------ one location */

/* Takes "..." off, without the quotes. A quote inside is written \22. */
static bool take_string(struct span *rest, struct span *string)
{
	const char *end;

	if (!rest->length || rest->at[0] != '"')
		return false;
	end = memchr(rest->at + 1, '"', rest->length - 1);
	if (!end)
		return false;
	*string = (struct span){rest->at + 1, (size_t)(end - rest->at - 1)};
	rest->length -= (size_t)(end + 1 - rest->at);
	rest->at = end + 1;
	return true;
}

static bool take_number(struct span *rest, uint32_t *out)
{
	uint32_t number = 0;
	size_t i = 0;

	if (!span_take(rest, ":"))
		return false;
	for (; i < rest->length && rest->at[i] >= '0' && rest->at[i] <= '9' && i < 9; i++)
		number = number * 10 + (uint32_t)(rest->at[i] - '0');
	rest->at += i;
	rest->length -= i;
	*out = number;
	return i > 0;
}

static struct span without_folders(struct span file)
{
	const char *slash = span_find_last(file, "/");

	if (slash) {
		file.length -= (size_t)(slash + 1 - file.at);
		file.at = slash + 1;
	}
	return file;
}

/* What stands before the first `end` that is in no parentheses and in no string. */
static struct span until(struct span rest, const char *end)
{
	size_t depth = 0;
	bool is_string = false;
	size_t length = strlen(end);

	for (size_t i = 0; i < rest.length; i++) {
		char c = rest.at[i];

		if (!is_string && depth == 0 && rest.length - i >= length &&
		    memcmp(rest.at + i, end, length) == 0)
			return (struct span){rest.at, i};
		if (c == '"')
			is_string = !is_string;
		else if (!is_string && (c == '(' || c == '[' || c == '<'))
			depth++;
		else if (!is_string && (c == ')' || c == ']' || c == '>') && depth)
			depth--;
	}
	return rest;
}

static struct span find_alias(const struct ttgir_locations *locations, struct span name)
{
	struct ttgir_alias key = {.name = name};
	const struct ttgir_alias *found = NULL;

	if (locations->count)
		found = bsearch(&key, locations->aliases, locations->count, sizeof(key),
				compare_aliases);
	return found ? found->body : (struct span){name.at, 0};
}

/* "X at Y", with what stands before Y cut off. */
static struct span after(struct span rest, struct span before, size_t skip)
{
	size_t used = before.length + skip;

	if (used > rest.length)
		used = rest.length;
	return (struct span){rest.at + used, rest.length - used};
}

/* The inside of "WORD(...)" or "WORD[...]", once WORD is taken off. */
static struct span inside(struct span rest)
{
	if (rest.length < 2)
		return (struct span){rest.at, 0};
	return (struct span){rest.at + 1, rest.length - 2};
}

static bool is_of_triton(struct span file)
{
	return span_find(file, "/triton/language/") || span_find(file, "/triton/experimental/");
}

struct ttgir_place ttgir_place_of(const struct ttgir_locations *locations, struct span location)
{
	struct ttgir_place place = {.file = {location.at, 0}};
	struct span callers[CALLERS_MAX];
	size_t caller_count = 0;
	struct span rest = location;

	for (uint32_t step = 0; step < STEPS_MAX; step++) {
		struct span string;

		rest = span_trim(rest);
		if (rest.length && rest.at[0] == '#') {
			rest = find_alias(locations, rest);
		} else if (span_take(&rest, "loc(")) {
			rest.length -= rest.length > 0;
		} else if (span_take(&rest, "callsite")) {
			struct span both = inside(rest);

			rest = until(both, " at ");
			if (caller_count < CALLERS_MAX)
				callers[caller_count++] = after(both, rest, 4);
		} else if (span_take(&rest, "fused")) {
			struct span tag = until(rest, "[");

			rest = until(inside(after(rest, tag, 0)), ",");
		} else if (take_string(&rest, &string)) {
			if (rest.length && rest.at[0] == '(') {
				rest = inside(rest); /* a name for another place */
				continue;
			}
			if (!take_number(&rest, &place.line))
				break;
			take_number(&rest, &place.column);
			place.file = without_folders(string);
			if (!is_of_triton(string) || !caller_count)
				break;
			rest = callers[--caller_count];
		} else {
			break;
		}
	}
	return place;
}
