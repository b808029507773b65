/*
 * Entries of DWARF's .debug_info, versions 2 to 5, to find inlined calls. Input is
 * untrusted: `budget` limits the attributes and ranges that are read, because a small file could
 * otherwise refer to long ones many times.
 */
#pragma once

#include "symbol/code_object.h"

enum debug_tag {
	TAG_INLINED_SUBROUTINE = 0x1d,
};

/* Attributes that are kept. */
enum debug_attribute {
	ATTRIBUTE_NAME,
	ATTRIBUTE_LINKAGE_NAME,
	ATTRIBUTE_LOW_PC,
	ATTRIBUTE_HIGH_PC,
	ATTRIBUTE_RANGES,
	ATTRIBUTE_ORIGIN,        /* DW_AT_abstract_origin */
	ATTRIBUTE_SPECIFICATION, /* the declaration that an entry defines */
	ATTRIBUTE_CALL_FILE,
	ATTRIBUTE_CALL_LINE,
	ATTRIBUTE_CALL_COLUMN,
	ATTRIBUTE_LINES, /* DW_AT_stmt_list: offset in .debug_line */
	ATTRIBUTE_STRINGS_BASE,
	ATTRIBUTE_ADDRESSES_BASE,
	ATTRIBUTE_RANGES_BASE,
	ATTRIBUTE_COUNT,
};

struct debug_value {
	uint64_t form; /* DW_FORM_*; 0: the entry has no such attribute */
	uint64_t number;
	const char *text; /* if the form has it in place */
};

struct debug_entry {
	uint64_t tag; /* 0: the end of the children of an entry */
	bool has_children;
	struct debug_value values[ATTRIBUTE_COUNT];
};

struct debug_abbreviation {
	uint64_t code, tag;
	size_t attributes; /* offset in .debug_abbrev */
	bool has_children;
};

struct debug_info {
	struct span info, abbreviations, strings, line_strings, string_offsets, addresses;
	struct span old_ranges, ranges; /* .debug_ranges, .debug_rnglists */
	uint64_t budget;
	/* The unit that is read. */
	struct span unit; /* from its header on; offsets of references are relative to it */
	size_t entries;   /* offset of the first entry in the unit */
	unsigned version, offset_size, address_size;
	struct debug_entry root;
	struct debug_abbreviation *table;
	size_t table_count;
	uint64_t table_offset;
	bool is_out_of_memory;
};

/* free() its table afterwards. */
void debug_info_init(struct debug_info *debug, const struct code_object *object);
/* Reads the header and first entry of the unit at *offset, and moves on. False at the end. */
bool debug_info_next_unit(struct debug_info *debug, size_t *offset);
/* Reads the entry at the reader's place in `unit`. False if it cannot be read. */
bool debug_info_read(struct debug_info *debug, struct reader *reader, struct debug_entry *entry);

/*
 * Reads the value of form value->form at the reader's place: sets `number` or `text`, or skips
 * bytes. False: unknown form.
 */
bool debug_info_value(const struct debug_info *debug, struct reader *reader,
		      struct debug_value *value);
/* The text of a value; NULL if there is none. */
const char *debug_info_text(const struct debug_info *debug, const struct debug_value *value);
/* Offset in `unit` of the entry that a value refers to; 0: none, or in another unit. */
size_t debug_info_reference(const struct debug_info *debug, const struct debug_value *value);
/* Calls `add` for each range of addresses of an entry, until it returns false. */
void debug_info_ranges(struct debug_info *debug, const struct debug_entry *entry,
		       bool (*add)(void *user, uint64_t begin, uint64_t end), void *user);
