/* Line programs: headers of DWARF 2 to 5, the state machine, and addresses of code. */
#include "symbol/line_program.h"

#include <elf.h>
#include <stdio.h>

#include "base/array.h"
#include "base/buf.h"
#include "symbol/debug_info.h"

/* Opcodes and forms of DWARF; the last two opcodes are NVIDIA's. */
enum {
	LNS_COPY = 1,
	LNS_ADVANCE_PC = 2,
	LNS_ADVANCE_LINE = 3,
	LNS_SET_FILE = 4,
	LNS_SET_COLUMN = 5,
	LNS_CONST_ADD_PC = 8,
	LNS_FIXED_ADVANCE_PC = 9,
	LNE_END_SEQUENCE = 1,
	LNE_SET_ADDRESS = 2,
	LNE_DEFINE_FILE = 3,
	LNE_INLINED_CALL = 0x90, /* number of the row of the call, 1 first; offset of a name */
	LNE_FUNCTION_NAME = 0x91,
};

/* A start of a sequence that the linker fills in. */
struct relocation {
	uint64_t offset;  /* in the line section */
	uint64_t address; /* in the section of code */
	uint32_t section;
	bool is_added; /* to the value that is there */
};

struct program {
	struct reader reader; /* one unit, from its version on */
	uint64_t unit_offset; /* offset of the version in the section */
	const struct code_object *object;
	struct debug_info sections; /* strings, and the size of their offsets */
	const struct relocation *relocations;
	size_t relocation_count;
	uint32_t only_section; /* of code, where nothing is relocated; 0: several */
	struct line_rows *rows;
	struct line_frames *frames;
	/* Header. */
	uint64_t min_length, line_range, opcode_base;
	int8_t line_base;
	struct span opcode_lengths;
	struct line_unit unit;
	/* Registers. */
	struct line_row row;
	uint64_t file;
	size_t first_row; /* the sequence begins here */
	bool is_out_of_memory;
};

/* ------------------------------------------------------------------ files */

/* `count`: of directories or of files of the unit. */
static void add_name(struct program *program, const char *name, uint64_t directory, size_t *count)
{
	struct line_rows *rows = program->rows;
	bool is_added = ARRAY_ADD(rows->names, rows->name_count,
				  (struct line_name){.name = name, .directory = directory});

	*count += is_added;
	program->is_out_of_memory |= !is_added;
}

static const char *directory_of(const struct line_rows *rows, const struct line_unit *unit,
				uint64_t index)
{
	return index < unit->directory_count ? rows->names[unit->first_directory + index].name : "";
}

static struct line_name *file_of(struct line_rows *rows, const struct line_unit *unit,
				 uint64_t number)
{
	return number < unit->file_count
		       ? &rows->names[unit->first_directory + unit->directory_count + number]
		       : NULL;
}

/* The path of a file: the name, below its directory, below the directory of the unit. */
static const char *path_of(struct line_rows *rows, const struct line_unit *unit, uint64_t number,
			   struct line_frames *frames)
{
	struct line_name *file = file_of(rows, unit, number);
	const char *parts[3];
	struct out path;

	if (!file || file->path || !file->name[0])
		return file ? file->path : NULL;
	parts[2] = file->name;
	parts[1] = parts[2][0] == '/' ? "" : directory_of(rows, unit, file->directory);
	parts[0] = parts[2][0] == '/' || parts[1][0] == '/' || !file->directory
			   ? ""
			   : directory_of(rows, unit, 0);
	out_init(&path, -1);
	for (int i = 0; i < 3; i++) {
		out_text(&path, parts[i]);
		if (i < 2 && parts[i][0])
			out_byte(&path, '/');
	}
	if (path.errnum == 0)
		file->path = line_frames_text(frames, path.bytes, path.length);
	out_fini(&path);
	return file->path;
}

static const char *current_path(struct program *program)
{
	const struct line_name *file = file_of(program->rows, &program->unit, program->file);
	const char *path = path_of(program->rows, &program->unit, program->file, program->frames);

	program->is_out_of_memory |= file && !path && file->name[0];
	return path;
}

const char *line_rows_path(struct line_rows *rows, uint64_t offset, uint64_t number,
			   struct line_frames *frames)
{
	const struct line_unit *units = rows->units;
	size_t count = ARRAY_COUNT_BEFORE(rows->unit_count, i, units[i].offset <= offset);

	return count && units[count - 1].offset == offset
		       ? path_of(rows, &units[count - 1], number, frames)
		       : NULL;
}

/* DWARF 2 to 4. Directories and files are numbered from 1. */
static void read_old_names(struct program *program)
{
	const char *name;

	add_name(program, "", 0, &program->unit.directory_count);
	while ((name = reader_text(&program->reader))[0])
		add_name(program, name, 0, &program->unit.directory_count);
	add_name(program, "", 0, &program->unit.file_count);
	while ((name = reader_text(&program->reader))[0]) {
		add_name(program, name, reader_uleb(&program->reader), &program->unit.file_count);
		reader_uleb(&program->reader); /* time */
		reader_uleb(&program->reader); /* length */
	}
}

/* DWARF 5: a table, with a pair of content and form for each column. */
static bool read_new_names(struct program *program, bool is_file)
{
	struct reader *reader = &program->reader;
	size_t columns = (size_t)reader_uint(reader, 1);
	uint64_t content[256], form[256], count;

	for (size_t i = 0; i < columns; i++) {
		content[i] = reader_uleb(reader);
		form[i] = reader_uleb(reader);
	}
	count = reader_uleb(reader);
	/* Entries of no bytes are refused, so the loop ends with the bytes. */
	for (uint64_t i = 0; columns && i < count && reader_has_more(reader); i++) {
		const char *name = NULL;
		uint64_t directory = 0;
		size_t start = reader->at;

		for (size_t j = 0; j < columns; j++) {
			struct debug_value value = {.form = form[j]};

			if (!debug_info_value(&program->sections, reader, &value))
				return false;
			if (content[j] == 1) /* path */
				name = debug_info_text(&program->sections, &value);
			else if (content[j] == 2) /* directory_index */
				directory = value.number;
		}
		if (reader->at == start)
			return false;
		add_name(program, name ? name : "", directory,
			 is_file ? &program->unit.file_count : &program->unit.directory_count);
	}
	return !reader->is_over;
}

/* ------------------------------------------------------------------ the state machine */

ARRAY_ORDER(compare_offsets, struct relocation, ORDER_OF(a->offset, b->offset))

static void start_sequence(struct program *program)
{
	program->row = (struct line_row){.line = 1};
	program->file = 1;
	program->first_row = program->rows->count;
}

/*
 * The operand is relocated, or else a virtual address. In a cubin without relocation, it is an
 * offset in the only section of code.
 */
static void set_address(struct program *program, struct reader *operand, uint64_t offset)
{
	struct relocation key = {.offset = offset};
	const struct relocation *found = program->relocation_count
						 ? bsearch(&key, program->relocations,
							   program->relocation_count, sizeof(key),
							   compare_offsets)
						 : NULL;
	uint64_t value = reader_uint(operand, operand->span.length - operand->at);

	if (found) {
		program->row.section = found->section;
		program->row.address = found->address + (found->is_added ? value : 0);
	} else {
		program->row.section = program->only_section;
		program->row.address = value;
		if (program->object->machine == MACHINE_AMD &&
		    !code_object_find_code(program->object, value, &program->row.section,
					   &program->row.address))
			program->row.section = 0;
	}
}

static void add_row(struct program *program, bool is_end)
{
	struct line_rows *rows = program->rows;

	program->row.file = is_end ? NULL : current_path(program);
	program->row.is_end = is_end;
	program->is_out_of_memory |= !ARRAY_ADD(rows->rows, rows->count, program->row);
}

static void inlined_call(struct program *program, struct reader *operands)
{
	uint64_t call = reader_uleb(operands);
	uint64_t name = reader_uleb(operands);

	program->rows->has_calls = true;
	program->row.caller = 0;
	program->row.function = NULL;
	if (call && call <= program->rows->count - program->first_row) {
		program->row.caller = (uint32_t)(program->first_row + call);
		program->row.function = span_text(program->sections.strings, name);
	}
}

static void run_extended(struct program *program)
{
	uint64_t length = reader_uleb(&program->reader);
	uint64_t start = program->unit_offset + program->reader.at;
	struct reader operands = reader_of(reader_bytes(&program->reader, length));
	const char *name;

	switch (reader_uint(&operands, 1)) {
	case LNE_END_SEQUENCE:
		add_row(program, true);
		start_sequence(program);
		break;
	case LNE_SET_ADDRESS:
		if (operands.span.length <= 9)
			set_address(program, &operands, start + 1);
		break;
	case LNE_DEFINE_FILE:
		name = reader_text(&operands);
		add_name(program, name, reader_uleb(&operands), &program->unit.file_count);
		break;
	case LNE_INLINED_CALL:
		inlined_call(program, &operands);
		break;
	case LNE_FUNCTION_NAME:
		if (program->row.caller)
			program->row.function =
				span_text(program->sections.strings, reader_uleb(&operands));
		break;
	default: /* skipped */
		break;
	}
}

static void run_standard(struct program *program, uint64_t opcode)
{
	struct reader *reader = &program->reader;
	struct line_row *row = &program->row;

	switch (opcode) {
	case LNS_COPY:
		add_row(program, false);
		break;
	case LNS_ADVANCE_PC:
		row->address += reader_uleb(reader) * program->min_length;
		break;
	case LNS_ADVANCE_LINE:
		row->line += (uint32_t)reader_sleb(reader);
		break;
	case LNS_SET_FILE:
		program->file = reader_uleb(reader);
		break;
	case LNS_SET_COLUMN:
		row->column = (uint32_t)reader_uleb(reader);
		break;
	case LNS_CONST_ADD_PC:
		row->address += (255 - program->opcode_base) / program->line_range *
				program->min_length;
		break;
	case LNS_FIXED_ADVANCE_PC:
		row->address += reader_uint(reader, 2);
		break;
	default:
		for (unsigned i = program->opcode_lengths.bytes[opcode - 1]; i; i--)
			reader_uleb(reader);
	}
}

static void run_program(struct program *program)
{
	start_sequence(program);
	while (reader_has_more(&program->reader) && !program->is_out_of_memory) {
		uint64_t opcode = reader_uint(&program->reader, 1);

		if (opcode == 0) {
			run_extended(program);
		} else if (opcode < program->opcode_base) {
			run_standard(program, opcode);
		} else {
			opcode -= program->opcode_base;
			program->row.address += opcode / program->line_range * program->min_length;
			program->row.line += (uint32_t)(program->line_base +
							(int)(opcode % program->line_range));
			add_row(program, false);
		}
	}
}

/* ------------------------------------------------------------------ units */

/* From the version to the names; false if the rest cannot be read. */
static bool read_header(struct program *program)
{
	struct reader *reader = &program->reader;
	uint64_t version = reader_uint(reader, 2), header_end;

	if (version < 2 || version > 5)
		return false;
	if (version == 5)
		reader_uint(reader, 2); /* sizes of addresses and segments */
	header_end = reader_uint(reader, program->sections.offset_size);
	if (header_end > reader->span.length - reader->at)
		return false;
	header_end += reader->at;
	program->min_length = reader_uint(reader, 1);
	if (version >= 4)
		reader_uint(reader, 1); /* operations per instruction */
	reader_uint(reader, 1);         /* is_stmt */
	program->line_base = (int8_t)reader_uint(reader, 1);
	program->line_range = reader_uint(reader, 1);
	program->opcode_base = reader_uint(reader, 1);
	if (!program->line_range || !program->opcode_base)
		return false;
	program->opcode_lengths = reader_bytes(reader, program->opcode_base - 1);
	if (reader->is_over)
		return false;
	if (version < 5)
		read_old_names(program);
	else if (!read_new_names(program, false) || !read_new_names(program, true))
		return false;
	reader->at = (size_t)header_end;
	reader->is_over = false;
	return true;
}

static void read_units(struct program *program, struct span section)
{
	struct line_rows *rows = program->rows;
	struct reader reader = reader_of(section);

	while (reader_has_more(&reader) && !program->is_out_of_memory) {
		program->unit = (struct line_unit){
			.offset = reader.at,
			.first_directory = rows->name_count,
		};
		uint64_t length = reader_unit_length(&reader, &program->sections.offset_size);
		program->unit_offset = reader.at;
		program->reader = reader_of(reader_bytes(&reader, length));
		if (!read_header(program))
			continue;
		run_program(program);
		program->is_out_of_memory |=
			!ARRAY_ADD(rows->units, rows->unit_count, program->unit);
	}
}

/* ------------------------------------------------------------------ relocations */

/* Entries of .rela<name>, or of .rel<name>, which has addends in the section. */
static struct relocation *read_relocations(const struct code_object *object, const char *name,
					   size_t *count_out)
{
	char full[64];
	struct span table, symbols = code_object_section_content(object, ".symtab");
	size_t size = sizeof(Elf64_Rela), count = 0;

	snprintf(full, sizeof(full), ".rela%s", name);
	table = code_object_section_content(object, full);
	if (!table.length) {
		snprintf(full, sizeof(full), ".rel%s", name);
		table = code_object_section_content(object, full);
		size = sizeof(Elf64_Rel);
	}
	struct relocation *relocations = calloc(table.length / size + 1, sizeof(*relocations));
	for (size_t i = 0; relocations && i < table.length / size; i++) {
		Elf64_Rela entry = {0};
		Elf64_Sym symbol;

		memcpy(&entry, table.bytes + i * size, size);
		struct span bytes = span_part(symbols, ELF64_R_SYM(entry.r_info) * sizeof(symbol),
					      sizeof(symbol));
		if (!bytes.length)
			continue;
		memcpy(&symbol, bytes.bytes, sizeof(symbol));
		relocations[count++] = (struct relocation){
			.offset = entry.r_offset,
			.address = symbol.st_value + (uint64_t)entry.r_addend,
			.section = symbol.st_shndx,
			.is_added = size == sizeof(Elf64_Rel),
		};
	}
	if (relocations)
		qsort(relocations, count, sizeof(*relocations), compare_offsets);
	*count_out = count;
	return relocations;
}

int line_rows_read(struct line_rows *rows, const struct code_object *object, const char *name,
		   struct line_frames *frames)
{
	struct program program = {
		.sections =
			{
				.strings = code_object_section_content(object, ".debug_str"),
				.line_strings =
					code_object_section_content(object, ".debug_line_str"),
			},
		.rows = rows,
		.frames = frames,
		.object = object,
	};
	const struct code_object_function *functions = object->functions;
	uint32_t count = object->function_count;

	*rows = (struct line_rows){0};
	AUTO_FREE struct relocation *relocations =
		read_relocations(object, name, &program.relocation_count);
	if (!relocations)
		return PROTON_E_NOMEM;
	program.relocations = relocations;
	/* Functions are sorted by section. */
	if (count && functions[0].section == functions[count - 1].section)
		program.only_section = functions[0].section;
	read_units(&program, code_object_section_content(object, name));
	return program.is_out_of_memory ? PROTON_E_NOMEM : PROTON_OK;
}

void line_rows_fini(struct line_rows *rows)
{
	FREE_ALL(rows->rows, rows->names, rows->units);
	*rows = (struct line_rows){0};
}
