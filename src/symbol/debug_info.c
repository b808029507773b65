/* .debug_info: units, abbreviations, forms of values, and lists of ranges. */
#include "symbol/debug_info.h"

#include "base/array.h"

/* Forms of values that matter beyond how they are stored. */
enum {
	FORM_ADDR = 0x01,
	FORM_STRP = 0x0e,
	FORM_REF1 = 0x11,
	FORM_REF_UDATA = 0x15,
	FORM_INDIRECT = 0x16,
	FORM_STRX = 0x1a,
	FORM_ADDRX = 0x1b,
	FORM_LINE_STRP = 0x1f,
	FORM_IMPLICIT_CONST = 0x21,
	FORM_RNGLISTX = 0x23,
	FORM_STRX1 = 0x25,
	FORM_STRX4 = 0x28,
	FORM_ADDRX1 = 0x29,
	FORM_ADDRX4 = 0x2c,
};

/*
 * How the forms from 0 on are stored. Numbers: 1 to 8 bytes, (a)ddress, (o)ffset, (r)eference: one
 * of both, (u)nsigned and (s)igned LEB128, 0: not here. (t)ext. Blocks, which are skipped: after a
 * length of 1, 2 or 4 bytes (B, C, D) or in LEB128 (U), and (X) of 16 bytes. ?: unknown.
 */
static const char storage[] = "?a?CD248tUB11sou" /* DW_FORM_addr to udata */
			      "r1248u?oU0uu4oXo" /* DW_FORM_ref_addr to line_strp */
			      "80uu812341234";   /* DW_FORM_ref_sig8 to addrx4 */

/* Entries of .debug_rnglists. */
enum {
	RANGE_END = 0,
	RANGE_BASE_INDEX = 1,
	RANGE_INDEX_INDEX = 2,
	RANGE_INDEX_LENGTH = 3,
	RANGE_OFFSETS = 4,
	RANGE_BASE = 5,
	RANGE_START_END = 6,
	RANGE_START_LENGTH = 7,
};

enum {
	UNIT_COMPILE = 1,
	UNIT_PARTIAL = 3,
};

/* Units of work per byte of the file. A legitimate file needs fewer than two. */
#define BUDGET_PER_BYTE 16u

static const uint16_t codes[ATTRIBUTE_COUNT] = {
	[ATTRIBUTE_NAME] = 0x03,           [ATTRIBUTE_LINKAGE_NAME] = 0x6e,
	[ATTRIBUTE_LOW_PC] = 0x11,         [ATTRIBUTE_HIGH_PC] = 0x12,
	[ATTRIBUTE_RANGES] = 0x55,         [ATTRIBUTE_ORIGIN] = 0x31,
	[ATTRIBUTE_SPECIFICATION] = 0x47,  [ATTRIBUTE_CALL_FILE] = 0x58,
	[ATTRIBUTE_CALL_LINE] = 0x59,      [ATTRIBUTE_CALL_COLUMN] = 0x57,
	[ATTRIBUTE_LINES] = 0x10,          [ATTRIBUTE_STRINGS_BASE] = 0x72,
	[ATTRIBUTE_ADDRESSES_BASE] = 0x73, [ATTRIBUTE_RANGES_BASE] = 0x74,
};

static bool spend_budget(struct debug_info *debug)
{
	if (!debug->budget)
		return false;
	debug->budget--;
	return true;
}

void debug_info_init(struct debug_info *debug, const struct code_object *object)
{
	*debug = (struct debug_info){
		.info = code_object_section_content(object, ".debug_info"),
		.abbreviations = code_object_section_content(object, ".debug_abbrev"),
		.strings = code_object_section_content(object, ".debug_str"),
		.line_strings = code_object_section_content(object, ".debug_line_str"),
		.string_offsets = code_object_section_content(object, ".debug_str_offsets"),
		.addresses = code_object_section_content(object, ".debug_addr"),
		.old_ranges = code_object_section_content(object, ".debug_ranges"),
		.ranges = code_object_section_content(object, ".debug_rnglists"),
		.budget = (uint64_t)object->file.length * BUDGET_PER_BYTE,
		.table_offset = UINT64_MAX,
	};
}

/* ------------------------------------------------------------------ abbreviations */

/* The attribute specifications that follow; false if they cannot be read. */
static bool skip_specifications(struct debug_info *debug, struct reader *reader)
{
	uint64_t attribute, form;

	do {
		attribute = reader_uleb(reader);
		form = reader_uleb(reader);
		if (form == FORM_IMPLICIT_CONST)
			reader_sleb(reader);
		if (reader->is_over || !spend_budget(debug))
			return false;
	} while (attribute || form);
	return true;
}

static bool read_abbreviations(struct debug_info *debug, uint64_t offset)
{
	struct reader reader = reader_of(debug->abbreviations);
	struct debug_abbreviation abbreviation;

	if (debug->table_offset == offset)
		return true;
	debug->table_offset = UINT64_MAX;
	debug->table_count = 0;
	if (offset >= reader.span.length)
		return false;
	reader.at = (size_t)offset;
	while ((abbreviation.code = reader_uleb(&reader))) {
		abbreviation.tag = reader_uleb(&reader);
		abbreviation.has_children = reader_uint(&reader, 1);
		abbreviation.attributes = reader.at;
		if (!skip_specifications(debug, &reader))
			return false;
		if (!ARRAY_ADD(debug->table, debug->table_count, abbreviation)) {
			debug->is_out_of_memory = true;
			return false;
		}
	}
	debug->table_offset = offset;
	return !reader.is_over;
}

/* Compilers number abbreviations from 1. */
static const struct debug_abbreviation *find_abbreviation(struct debug_info *debug, uint64_t code)
{
	if (code <= debug->table_count && debug->table[code - 1].code == code)
		return &debug->table[code - 1];
	for (size_t i = 0; i < debug->table_count && spend_budget(debug); i++)
		if (debug->table[i].code == code)
			return &debug->table[i];
	return NULL;
}

/* ------------------------------------------------------------------ values */

bool debug_info_value(const struct debug_info *debug, struct reader *reader,
		      struct debug_value *value)
{
	char how = value->form < sizeof(storage) - 1 ? storage[value->form] : '?';
	size_t size = how >= '1' && how <= '8'                            ? (size_t)(how - '0')
		      : how == 'a' || (how == 'r' && debug->version == 2) ? debug->address_size
		      : how == 'o' || how == 'r'                          ? debug->offset_size
									  : 0;

	if (size) {
		value->number = reader_uint(reader, size);
		return true;
	}
	switch (how) {
	case 's':
		value->number = (uint64_t)reader_sleb(reader);
		break;
	case 'u':
		value->number = reader_uleb(reader);
		break;
	case 't':
		value->text = reader_text(reader);
		break;
	case 'B':
	case 'C':
	case 'D':
		reader_bytes(reader, reader_uint(reader, (size_t)1 << (how - 'B')));
		break;
	case 'U':
		reader_bytes(reader, reader_uleb(reader));
		break;
	case 'X':
		reader_bytes(reader, 16);
		break;
	default:
		return how == '0';
	}
	return true;
}

bool debug_info_read(struct debug_info *debug, struct reader *reader, struct debug_entry *entry)
{
	struct reader specifications = reader_of(debug->abbreviations);
	uint64_t code = reader_uleb(reader), attribute;

	*entry = (struct debug_entry){0};
	if (!code)
		return !reader->is_over;
	const struct debug_abbreviation *abbreviation = find_abbreviation(debug, code);
	if (!abbreviation)
		return false;
	entry->tag = abbreviation->tag;
	entry->has_children = abbreviation->has_children;
	specifications.at = abbreviation->attributes;
	do {
		struct debug_value value = {0};

		attribute = reader_uleb(&specifications);
		value.form = reader_uleb(&specifications);
		if (value.form == FORM_IMPLICIT_CONST)
			value.number = (uint64_t)reader_sleb(&specifications);
		if (!attribute && !value.form)
			break;
		if (value.form == FORM_INDIRECT)
			value.form = reader_uleb(reader);
		if (!spend_budget(debug) || !debug_info_value(debug, reader, &value))
			return false;
		for (size_t i = 0; i < ATTRIBUTE_COUNT; i++)
			if (codes[i] == attribute)
				entry->values[i] = value;
	} while (!reader->is_over && !specifications.is_over);
	return !reader->is_over;
}

/* The number at an index of a section, with index 0 at `base`. */
static bool indexed(struct span section, const struct debug_value *base, size_t size,
		    uint64_t index, uint64_t *number_out)
{
	struct span bytes = index < section.length
				    ? span_part(section, base->number + index * size, size)
				    : (struct span){0};
	struct reader reader = reader_of(bytes);

	if (!bytes.length)
		return false;
	*number_out = reader_uint(&reader, size);
	return true;
}

static bool is_between(uint64_t form, uint64_t first, uint64_t last)
{
	return form >= first && form <= last;
}

const char *debug_info_text(const struct debug_info *debug, const struct debug_value *value)
{
	uint64_t offset;

	if (value->form == FORM_STRP)
		return span_text(debug->strings, value->number);
	if (value->form == FORM_LINE_STRP)
		return span_text(debug->line_strings, value->number);
	if (value->form != FORM_STRX && !is_between(value->form, FORM_STRX1, FORM_STRX4))
		return value->text;
	return indexed(debug->string_offsets, &debug->root.values[ATTRIBUTE_STRINGS_BASE],
		       debug->offset_size, value->number, &offset)
		       ? span_text(debug->strings, offset)
		       : NULL;
}

static bool indexed_address(const struct debug_info *debug, uint64_t index, uint64_t *address_out)
{
	return indexed(debug->addresses, &debug->root.values[ATTRIBUTE_ADDRESSES_BASE],
		       debug->address_size, index, address_out);
}

static bool find_address(const struct debug_info *debug, const struct debug_value *value,
			 uint64_t *address_out)
{
	if (value->form == FORM_ADDRX || is_between(value->form, FORM_ADDRX1, FORM_ADDRX4))
		return indexed_address(debug, value->number, address_out);
	if (value->form != FORM_ADDR)
		return false;
	*address_out = value->number;
	return true;
}

size_t debug_info_reference(const struct debug_info *debug, const struct debug_value *value)
{
	return is_between(value->form, FORM_REF1, FORM_REF_UDATA) &&
			       value->number >= debug->entries && value->number < debug->unit.length
		       ? (size_t)value->number
		       : 0;
}

/* ------------------------------------------------------------------ ranges */

typedef bool range_function(void *user, uint64_t begin, uint64_t end);

static void old_ranges(struct debug_info *debug, uint64_t offset, uint64_t base,
		       range_function *add, void *user)
{
	struct reader reader = reader_of(debug->old_ranges);
	uint64_t highest = debug->address_size == 4 ? UINT32_MAX : UINT64_MAX;

	reader.at = offset < reader.span.length ? (size_t)offset : reader.span.length;
	while (reader_has_more(&reader) && spend_budget(debug)) {
		uint64_t begin = reader_uint(&reader, debug->address_size);
		uint64_t end = reader_uint(&reader, debug->address_size);

		if (reader.is_over || (!begin && !end))
			return;
		if (begin == highest)
			base = end;
		else if (!add(user, base + begin, base + end))
			return;
	}
}

/* Reads an entry of a list. Returns false at its end. */
static bool read_range(struct debug_info *debug, struct reader *reader, uint64_t *base,
		       uint64_t *begin, uint64_t *end)
{
	uint64_t kind = reader_uint(reader, 1);
	bool is_known = true;

	*begin = *end = 0;
	switch (kind) {
	case RANGE_BASE_INDEX:
		is_known = indexed_address(debug, reader_uleb(reader), base);
		break;
	case RANGE_INDEX_INDEX:
	case RANGE_INDEX_LENGTH:
		is_known = indexed_address(debug, reader_uleb(reader), begin);
		*end = reader_uleb(reader);
		if (kind == RANGE_INDEX_LENGTH)
			*end += *begin;
		else
			is_known &= indexed_address(debug, *end, end);
		break;
	case RANGE_OFFSETS:
		*begin = *base + reader_uleb(reader);
		*end = *base + reader_uleb(reader);
		break;
	case RANGE_BASE:
		*base = reader_uint(reader, debug->address_size);
		break;
	case RANGE_START_END:
		*begin = reader_uint(reader, debug->address_size);
		*end = reader_uint(reader, debug->address_size);
		break;
	case RANGE_START_LENGTH:
		*begin = reader_uint(reader, debug->address_size);
		*end = *begin + reader_uleb(reader);
		break;
	default: /* the end, or unknown */
		return false;
	}
	return is_known && !reader->is_over;
}

static void new_ranges(struct debug_info *debug, const struct debug_value *value, uint64_t base,
		       range_function *add, void *user)
{
	struct reader reader = reader_of(debug->ranges);
	const struct debug_value *lists = &debug->root.values[ATTRIBUTE_RANGES_BASE];
	uint64_t offset = value->number, begin, end;

	if (value->form == FORM_RNGLISTX) {
		if (!indexed(debug->ranges, lists, debug->offset_size, value->number, &offset))
			return;
		offset += lists->number;
	}
	reader.at = offset < reader.span.length ? (size_t)offset : reader.span.length;
	while (reader_has_more(&reader) && spend_budget(debug) &&
	       read_range(debug, &reader, &base, &begin, &end))
		if (begin != end && !add(user, begin, end))
			return;
}

void debug_info_ranges(struct debug_info *debug, const struct debug_entry *entry,
		       range_function *add, void *user)
{
	const struct debug_value *ranges = &entry->values[ATTRIBUTE_RANGES];
	const struct debug_value *high = &entry->values[ATTRIBUTE_HIGH_PC];
	uint64_t base = 0, begin, end;

	find_address(debug, &debug->root.values[ATTRIBUTE_LOW_PC], &base);
	if (ranges->form && debug->version < 5) {
		old_ranges(debug, ranges->number, base, add, user);
	} else if (ranges->form) {
		new_ranges(debug, ranges, base, add, user);
	} else if (find_address(debug, &entry->values[ATTRIBUTE_LOW_PC], &begin)) {
		/* The end is an address, or the length. */
		if (!find_address(debug, high, &end))
			end = begin + high->number;
		add(user, begin, end);
	}
}

/* ------------------------------------------------------------------ units */

/* The header of a unit, which `reader` is at; false if the unit is not read. */
static bool read_header(struct debug_info *debug, struct reader *reader)
{
	uint64_t abbreviations, type = UNIT_COMPILE;

	debug->version = (unsigned)reader_uint(reader, 2);
	if (debug->version < 2 || debug->version > 5)
		return false;
	if (debug->version == 5) {
		type = reader_uint(reader, 1);
		debug->address_size = (unsigned)reader_uint(reader, 1);
	}
	abbreviations = reader_uint(reader, debug->offset_size);
	if (debug->version < 5)
		debug->address_size = (unsigned)reader_uint(reader, 1);
	debug->entries = reader->at;
	debug->root = (struct debug_entry){0};
	return !reader->is_over && (debug->address_size == 4 || debug->address_size == 8) &&
	       (type == UNIT_COMPILE || type == UNIT_PARTIAL) &&
	       read_abbreviations(debug, abbreviations) &&
	       debug_info_read(debug, reader, &debug->root);
}

bool debug_info_next_unit(struct debug_info *debug, size_t *offset)
{
	struct reader reader = reader_of(debug->info);
	bool is_read = false;

	reader.at = *offset;
	while (!is_read && reader_has_more(&reader) && !debug->is_out_of_memory) {
		size_t start = reader.at;

		reader_bytes(&reader, reader_unit_length(&reader, &debug->offset_size));
		debug->unit = span_part(debug->info, start, reader.at - start);
		struct reader unit = reader_of(debug->unit);
		unit.at = debug->offset_size == 8 ? 12 : 4;
		is_read = unit.at <= unit.span.length && read_header(debug, &unit);
		*offset = reader.at;
	}
	return is_read;
}
