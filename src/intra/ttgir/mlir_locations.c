/*
 * MLIR locations: "loc(...)" with a file and line, a name, a call site, a fused list or an alias.
 * Nested locations are followed in a loop with a limited number of steps.
 */
#include "intra/ttgir/mlir_text.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/hash.h"

#define STEPS_MAX 128
#define CALLERS_MAX 8
#define NUMBER_MAX 999999999u

static int compare_aliases(const void *a, const void *b)
{
	struct slice left = ((const struct mlir_alias *)a)->name;
	struct slice right = ((const struct mlir_alias *)b)->name;
	size_t shorter = left.length < right.length ? left.length : right.length;
	int order = shorter ? memcmp(left.at, right.at, shorter) : 0;

	if (order)
		return order;
	return ORDER_OF(left.length, right.length);
}

bool mlir_locations_read(struct mlir_regions *lines)
{
	size_t capacity = 0;

	for (uint32_t i = 0; i < lines->count; i++) {
		struct slice line = lines->at[i].text;
		struct slice start = line;
		struct mlir_alias alias;
		const char *equals = slice_take(&start, "#loc") ? slice_find(line, " = loc(")
								: NULL;

		if (!equals)
			continue;
		alias = (struct mlir_alias){
			.name = slice_between(line.at, equals),
			.body = slice_trim(slice_between(equals + 3, slice_end(line))),
		};
		if (!ARRAY_ADD(lines->aliases, capacity, lines->alias_count, alias))
			return false;
	}
	ARRAY_SORT(lines->aliases, lines->alias_count, compare_aliases);
	return true;
}

/* ------------------------------------------------------------------ one location */

/* Removes "..." and returns its text without quotes. A quote inside is written \22. */
static bool take_string(struct slice *rest, struct slice *string)
{
	struct slice text = *rest;

	if (!slice_take(&text, "\"") || !slice_find(text, "\""))
		return false;
	*string = slice_take_until(&text, '"');
	*rest = text;
	return true;
}

static bool take_number(struct slice *rest, uint32_t *out)
{
	return slice_take(rest, ":") && slice_take_number(rest, NUMBER_MAX, out);
}

static struct slice find_alias(const struct mlir_regions *lines, struct slice name)
{
	struct mlir_alias key = {.name = name};
	const struct mlir_alias *found = NULL;

	if (lines->alias_count)
		found = bsearch(&key, lines->aliases, lines->alias_count, sizeof(key),
				compare_aliases);
	return found ? found->body : (struct slice){name.at, 0};
}

/* The content of "WORD(...)" or "WORD[...]", after WORD was removed. */
static struct slice inside(struct slice rest)
{
	if (rest.length < 2)
		return (struct slice){rest.at, 0};
	return (struct slice){rest.at + 1, rest.length - 2};
}

static bool is_of_triton(struct slice file)
{
	return slice_find(file, "/triton/language/") || slice_find(file, "/triton/experimental/");
}

/* A location as a chain of file locations: the callee's, its caller's, and so on. */
struct path {
	const struct mlir_regions *lines;
	struct slice rest;
	struct slice callers[CALLERS_MAX];
	uint32_t caller_count;
	uint32_t step_count;
};

/* The first location of "fused[...]". */
static struct slice first_of_fused(struct slice rest)
{
	slice_skip(&rest, slice_before(rest, "[").length);
	return slice_before(inside(rest), ",");
}

/* Takes one step inwards. True at a file location; its file includes the directories. */
static bool step_in(struct path *path, struct mlir_location *place)
{
	struct slice rest = slice_trim(path->rest);
	struct slice string;

	if (rest.length && rest.at[0] == '#') {
		rest = find_alias(path->lines, rest);
	} else if (slice_take(&rest, "loc(")) {
		rest.length -= rest.length > 0;
	} else if (slice_take(&rest, "callsite")) {
		struct slice caller = inside(rest);

		rest = slice_before(caller, " at ");
		slice_skip(&caller, rest.length);
		slice_take(&caller, " at ");
		if (path->caller_count < CALLERS_MAX)
			path->callers[path->caller_count++] = caller;
	} else if (slice_take(&rest, "fused")) {
		rest = first_of_fused(rest);
	} else if (take_string(&rest, &string)) {
		if (rest.length && rest.at[0] == '(') {
			rest = inside(rest); /* a name for another location */
		} else if (take_number(&rest, &place->line)) {
			take_number(&rest, &place->column);
			place->file = string;
			return true;
		} else {
			rest.length = 0;
		}
	} else {
		rest.length = 0;
	}
	path->rest = rest;
	return false;
}

/* The next file location; false if there is none. */
static bool next_place(struct path *path, struct mlir_location *place)
{
	*place = (struct mlir_location){.file = {path->rest.at, 0}};
	for (; path->step_count < STEPS_MAX && path->rest.length; path->step_count++) {
		if (!step_in(path, place))
			continue;
		path->rest.length = 0;
		if (path->caller_count)
			path->rest = path->callers[--path->caller_count];
		return true;
	}
	return false;
}

bool mlir_is_same_line(const struct mlir_location *a, const struct mlir_location *b)
{
	return a->line == b->line && slices_equal(a->file, b->file);
}

/* The place with the file's directories removed. */
static struct mlir_location without_folder(struct mlir_location place)
{
	const char *folder = slice_find_last(place.file, "/");

	if (folder)
		place.file = slice_between(folder + 1, slice_end(place.file));
	return place;
}

struct mlir_frames mlir_locations_frames(const struct mlir_regions *lines, struct slice location)
{
	struct path path = {.lines = lines, .rest = location};
	struct mlir_frames frames = {.count = 0};
	struct mlir_location place;
	struct mlir_location last = {.file = {location.at, 0}};

	while (frames.count < MLIR_FRAMES_MAX && next_place(&path, &place)) {
		last = place;
		if (!is_of_triton(place.file))
			frames.at[frames.count++] = without_folder(place);
	}
	if (!frames.count && last.file.length)
		frames.at[frames.count++] = without_folder(last);
	return frames;
}

uint64_t mlir_locations_key(const struct mlir_regions *lines, struct slice location)
{
	struct path path = {.lines = lines, .rest = location};
	struct mlir_location place;
	uint64_t key = 0;

	while (next_place(&path, &place)) {
		key = hash_u64(key ^ hash_bytes(place.file.at, place.file.length));
		key = hash_u64(key ^ ((uint64_t)place.line << 32 | place.column));
	}
	return key;
}
