/* Parsing lines, regions and locations of MLIR text, and writing markers as MLIR. */
#include "intra/ttgir/mlir_text.h"

#include <stdio.h>

#include "base/array.h"
#include "base/hash.h"

#define PREFIX_TRIES 1000u
#define NUMBER_MAX 10000u /* of warps, of partitions */
#define LINE_NUMBER_MAX 999999999u
#define STEPS_MAX 128
#define CALLERS_MAX 8

bool mlir_opens_region(struct slice trimmed)
{
	return trimmed.length && trimmed.at[trimmed.length - 1] == '{';
}

bool mlir_closes_region(struct slice trimmed)
{
	return trimmed.length && trimmed.at[0] == '}';
}

bool mlir_begins_partition(struct slice trimmed)
{
	return slice_take(&trimmed, "default") || slice_take(&trimmed, "partition");
}

/* ------------------------------------------------------------------ lines */

/* "%x = ", "%x:3 = " or "%x, %y = "; returns the first SSA name. */
static struct slice take_results(struct slice *rest)
{
	const char *equals = rest->length && rest->at[0] == '%' ? slice_find(*rest, " = ") : NULL;
	struct slice name = {rest->at, 0};

	if (!equals)
		return name;
	for (name.length = 1; slice_is_name_char(name.at[name.length]);)
		name.length++;
	*rest = slice_between(equals + 3, slice_end(*rest));
	return name;
}

void mlir_line_read(struct slice line, struct mlir_line *out)
{
	struct slice rest = slice_trim(line);
	const char *location = slice_ends(rest, ")") ? slice_find_last(rest, " loc(") : NULL;

	*out = (struct mlir_line){.indent = slice_between(line.at, rest.at)};
	out->location = slice_between(location ? location + 1 : slice_end(rest), slice_end(rest));
	out->result = take_results(&rest);
	slice_take(&rest, "\""); /* the generic form, as of "tt.reduce" */
	out->op = slice_take_name(&rest);
	if (out->op.length && (out->op.at[0] == '.' || !memchr(out->op.at, '.', out->op.length)))
		out->op.length = 0;
	out->rest = rest;
}

bool mlir_is_loop(const struct mlir_line *line)
{
	return slice_is(line->op, "scf.for") || slice_is(line->op, "scf.while");
}

uint32_t mlir_number_after(struct slice line, const char *key)
{
	uint32_t number = 0;

	return slice_take_past(&line, key) && slice_take_number(&line, NUMBER_MAX, &number) ? number
											    : 0;
}

/* ------------------------------------------------------------------ regions */

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

/* Collects the aliases of the lines. False if out of memory. */
static bool read_aliases(struct mlir_regions *lines)
{
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
		if (!ARRAY_ADD(lines->aliases, lines->alias_count, alias))
			return false;
	}
	ARRAY_SORT(lines->aliases, lines->alias_count, compare_aliases);
	return true;
}

static int match_regions(struct mlir_regions *lines, struct proton_error *err)
{
	uint32_t open[MLIR_DEPTH_MAX];
	uint32_t depth = 0;

	for (uint32_t i = 0; i < lines->count; i++) {
		struct slice trimmed = lines->at[i].trimmed;

		if (!lines->at[i].is_code)
			continue;
		if (mlir_closes_region(trimmed)) {
			if (!depth)
				return err_set(err, PROTON_E_UNSUPPORTED,
					       "line %u: unmatched end of a region", i + 1);
			lines->at[open[depth - 1]].end = i;
			if (mlir_opens_region(trimmed))
				lines->at[open[depth - 1]].next = i;
			else if (lines->at[open[--depth]].next == MLIR_NO_LINE)
				lines->at[open[depth]].next = i;
		} else if (mlir_opens_region(trimmed)) {
			if (depth == MLIR_DEPTH_MAX)
				return err_set(err, PROTON_E_UNSUPPORTED,
					       "line %u: regions are nested more than %u deep",
					       i + 1, MLIR_DEPTH_MAX);
			open[depth++] = i;
		}
	}
	if (depth)
		return err_set(err, PROTON_E_UNSUPPORTED, "unterminated region");
	return PROTON_OK;
}

static struct mlir_region_line read_line(struct slice text)
{
	struct slice trimmed = slice_trim(text);
	struct mlir_region_line line = {
		.text = text,
		.trimmed = trimmed,
		.is_code = trimmed.length && *trimmed.at != '#' && *trimmed.at != '/',
		.end = MLIR_NO_LINE,
		.next = MLIR_NO_LINE,
	};

	if (line.is_code)
		mlir_line_read(text, &line.line);
	return line;
}

int mlir_regions_read(struct slice text, struct mlir_regions *out, struct proton_error *err)
{
	struct slice line;
	int status = PROTON_OK;

	*out = (struct mlir_regions){0};
	while (status == PROTON_OK && slice_take_line(&text, &line))
		if (!ARRAY_ADD(out->at, out->count, read_line(line)))
			status = err_nomem(err);
	if (status == PROTON_OK)
		status = read_aliases(out) ? match_regions(out, err) : err_nomem(err);
	if (status != PROTON_OK)
		mlir_regions_fini(out);
	return status;
}

void mlir_regions_fini(struct mlir_regions *lines)
{
	FREE_ALL(lines->at, lines->aliases);
	*lines = (struct mlir_regions){0};
}

/* ------------------------------------------------------------------ markers */

int mlir_writer_init(struct mlir_writer *writer, struct slice text, bool is_amd,
		     struct proton_error *err)
{
	*writer = (struct mlir_writer){
		.is_amd = is_amd || slice_find(text, "ttg.target = \"hip:"),
	};
	out_init(&writer->out, -1);
	for (uint32_t i = 0; i < PREFIX_TRIES; i++) {
		snprintf(writer->prefix, MLIR_PREFIX_MAX, "%%proton_");
		if (i)
			snprintf(writer->prefix, MLIR_PREFIX_MAX, "%%proton_v%u_", i);
		if (!slice_find(text, writer->prefix))
			return PROTON_OK;
	}
	return err_set(err, PROTON_E_UNSUPPORTED,
		       "all SSA names of the form %%proton_... are in use");
}

int mlir_writer_finish(struct mlir_writer *writer, bool is_changed, char **text_out,
		       size_t *length_out, struct proton_error *err)
{
	if (is_changed)
		return out_finish_text(&writer->out, text_out, length_out, err);
	out_fini(&writer->out);
	return PROTON_OK;
}

void mlir_write_line(struct mlir_writer *writer, struct slice line)
{
	out_bytes(&writer->out, line.at, line.length);
	out_byte(&writer->out, '\n');
}

static void write_quoted(const struct marker *marker, struct out *out)
{
	out_byte(out, '"');
	for (size_t i = 0; i < marker->name_length; i++) {
		unsigned char c = (unsigned char)marker->name[i];

		if (c == '"' || c == '\\' || c < ' ' || c >= 127)
			out_printf(out, "\\%02X", c);
		else
			out_byte(out, (char)c);
	}
	out_byte(out, '"');
}

void mlir_write_marker(struct mlir_writer *writer, struct slice indent, struct slice location,
		       const struct marker *marker)
{
	struct out *out = &writer->out;

	out_bytes(out, indent.at, indent.length);
	if (writer->is_record) {
		out_text(out, marker->is_end ? "proton.record end " : "proton.record start ");
		write_quoted(marker, out);
	} else {
		out_printf(out, "%s%u = tt.elementwise_inline_asm \"", writer->prefix,
			   writer->marker_count);
		marker_write(marker->is_event, marker->is_end, marker->name, marker->name_length,
			     out);
		out_printf(out,
			   "\" {constraints = \"=%c\", packed_element = 1 : i32, pure = false} "
			   "-> i32",
			   writer->is_amd ? 'v' : 'r');
		out_text(out, location.length ? " " : "");
		out_bytes(out, location.at, location.length);
	}
	out_byte(out, '\n');
	writer->marker_count++;
}

bool mlir_read_marker(const struct mlir_line *line, struct marker *out)
{
	struct slice text = slice_trim(line->rest);

	if (!slice_is(line->op, "tt.elementwise_inline_asm") || mlir_opens_region(text) ||
	    !slice_take(&text, "\"") || !slice_find(text, "\""))
		return false;
	text = slice_take_until(&text, '"');
	return marker_parse(text.at, text.length, out);
}

/* ------------------------------------------------------------------ locations */

/*
 * A location is "loc(...)" with a file and line, a name, a call site, a fused list or an alias.
 * Nested locations are followed in a loop with a limited number of steps.
 */

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
	return slice_take(rest, ":") && slice_take_number(rest, LINE_NUMBER_MAX, out);
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
