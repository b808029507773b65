/* Parsing lines of LLVM IR: names, instructions and markers. */
#include "intra/llvm/ir_text.h"

#include "base/array.h"

struct slice ir_name_at(const char *at, const char *end)
{
	struct slice rest = slice_between(at, end);

	if (at == end || *at != '"')
		return slice_take_name(&rest);
	const char *quote = memchr(at + 1, '"', rest.length - 1);
	return slice_between(at, quote ? quote + 1 : at);
}

bool ir_is_number(struct slice name)
{
	uint32_t number;

	return slice_take(&name, "%") && slice_take_number(&name, UINT32_MAX, &number) &&
	       !name.length;
}

struct slice ir_operation_of(struct slice line)
{
	if (!slice_starts(line, "%") || !slice_take_past(&line, " = "))
		line.length = 0;
	return line;
}

/* Debug records ("#dbg_value(...)") are not instructions. */
bool ir_is_instruction(struct slice line)
{
	line = slice_trim(line);
	return line.length && *line.at != ';' && !slice_starts(line, "#dbg");
}

bool ir_is_define(struct slice line)
{
	return slice_take(&line, "define ");
}

bool ir_is_end(struct slice line)
{
	return slice_is(line, "}");
}

void ir_write_without(struct slice text, const char *const *words, size_t count, struct out *out)
{
	while (text.length) {
		size_t i = 0;

		while (i < count && !slice_take(&text, words[i]))
			i++;
		if (i < count)
			continue;
		out_byte(out, *text.at);
		slice_skip(&text, 1);
	}
}

/* The text without blanks and escaped line ends ("\0A") around it. */
static struct slice trim_escapes(struct slice text)
{
	static const char *const blanks[] = {"\\09", "\\0A", "\\0D"};
	size_t length;

	do {
		text = slice_trim(text);
		length = text.length;
		for (size_t i = 0; i < ARRAY_LENGTH(blanks); i++) {
			if (slice_ends(text, blanks[i]))
				text.length -= strlen(blanks[i]);
			slice_take(&text, blanks[i]);
		}
	} while (text.length < length);
	return text;
}

/* The first text in quotes that contains a marker; false if there is none. */
static bool find_assembly(struct slice line, struct slice *before, struct slice *text)
{
	struct slice rest = line;

	if (!slice_find(line, "// proton.")) /* most lines */
		return false;
	while (slice_find(rest, "\"")) {
		slice_take_until(&rest, '"');
		*before = slice_between(line.at, rest.at - 1);
		if (!slice_find(rest, "\""))
			return false;
		*text = slice_take_until(&rest, '"');
		if (slice_find(*text, "// proton."))
			return slice_find(*before, " asm") && !slice_starts(line, ";");
	}
	return false;
}

/* "%12 = call i32 asm", with any other words between those. */
static bool read_call(struct slice call, struct slice *result)
{
	const char *assembly = slice_find_last(call, " asm");

	call = slice_trim(slice_between(call.at, assembly));
	if (!call.length || *call.at != '%')
		return false;
	*result = (struct slice){call.at, 1 + ir_name_at(call.at + 1, assembly).length};
	if (slice_ends(call, "()")) /* the whole type of the function */
		call = slice_trim(slice_between(call.at, slice_end(call) - 2));
	return result->length > 1 && result->length <= IR_RESULT_MAX && result->at[1] != '"' &&
	       slice_find(call, " call ") && slice_ends(call, " i32");
}

bool ir_marker_of(struct slice line, struct ir_marker *out)
{
	struct slice call, text;

	if (!find_assembly(line, &call, &text))
		return false;
	text = trim_escapes(text);
	return marker_parse(text.at, text.length, &out->marker) && read_call(call, &out->result);
}

bool ir_is_unknown_marker(struct slice line)
{
	struct ir_marker marker;
	struct slice call, text;

	return find_assembly(line, &call, &text) && !ir_marker_of(line, &marker) &&
	       (slice_find(text, "// proton.record ") || slice_find(text, "// proton.event "));
}

int ir_parse_error(uint32_t line, struct proton_error *err)
{
	return err_set(err, PROTON_E_UNSUPPORTED, "cannot parse line %u of the kernel's LLVM IR",
		       line + 1);
}

/* ------------------------------------------------------------------ names */

bool ir_names_init(struct ir_names *map, uint32_t count)
{
	*map = (struct ir_names){.capacity = count};
	map->names = calloc(count + 1, sizeof(*map->names));
	if (map->names && hash_table_reserve(&map->index, count))
		return true;
	ir_names_fini(map);
	return false;
}

void ir_names_fini(struct ir_names *map)
{
	free(map->names);
	hash_table_fini(&map->index);
	*map = (struct ir_names){0};
}

uint32_t ir_names_find(const struct ir_names *map, struct slice name)
{
	uint64_t hash = hash_bytes(name.at, name.length);
	uint64_t at = hash;
	uint32_t found;

	while ((found = hash_table_next(&map->index, hash, &at)) != 0)
		if (slices_equal(map->names[found - 1].name, name))
			return map->names[found - 1].number;
	return IR_NAME_NONE;
}

bool ir_names_add(struct ir_names *map, struct slice name, uint32_t number)
{
	uint32_t count = (uint32_t)map->index.count;

	if (count >= map->capacity || ir_names_find(map, name) != IR_NAME_NONE)
		return false;
	map->names[count] = (struct ir_name){name, number};
	return hash_table_add(&map->index, hash_bytes(name.at, name.length), count + 1);
}
