/* Reader of cubins and AMD code objects: section table, symbol table and .nv.info records. */
#include "symbol/code_object.h"

#include <elf.h>

#include "base/array.h"

#ifndef EM_CUDA
#define EM_CUDA 190
#endif
#ifndef EM_AMDGPU
#define EM_AMDGPU 224
#endif
/* Records of .nv.info: one form has a size and a payload; of that, two kinds are read. */
#define FORM_SIZED 4
#define KIND_FRAME_SIZE 0x11 /* EIATTR_FRAME_SIZE: function, bytes */
#define KIND_REGCOUNT 0x2f   /* EIATTR_REGCOUNT: function, registers */

static Elf64_Shdr section_header(const struct code_object *object, uint32_t index)
{
	Elf64_Shdr header;

	memcpy(&header,
	       object->file.bytes + object->section_table + (uint64_t)index * sizeof(header),
	       sizeof(header));
	return header;
}

bool code_object_section_get(const struct code_object *object, uint32_t index,
			     struct code_object_section *section_out)
{
	struct code_object_section section;
	struct span content;

	if (index >= object->section_count)
		return false;
	Elf64_Shdr header = section_header(object, index);
	content = header.sh_type == SHT_NOBITS
			  ? (struct span){0}
			  : span_part(object->file, header.sh_offset, header.sh_size);
	section = (struct code_object_section){
		.name = span_text(object->names, header.sh_name),
		.content = content,
		.address = header.sh_addr,
		.bytes = header.sh_size,
		.type = header.sh_type,
		.link = header.sh_link,
		.info = header.sh_info,
	};
	if (!section.name || (header.sh_type != SHT_NOBITS && content.length != header.sh_size))
		return false;
	*section_out = section;
	return true;
}

uint32_t code_object_section_find(const struct code_object *object, const char *name)
{
	struct code_object_section section;

	for (uint32_t i = 0; i < object->section_count; i++)
		if (code_object_section_get(object, i, &section) && strcmp(section.name, name) == 0)
			return i;
	return CODE_OBJECT_NONE;
}

struct span code_object_section_content(const struct code_object *object, const char *name)
{
	struct code_object_section section;

	if (!code_object_section_get(object, code_object_section_find(object, name), &section))
		return (struct span){0};
	return section.content;
}

/* ------------------------------------------------------------------ functions */

ARRAY_ORDER(compare_places, struct code_object_function,
	    ORDER_OF(a->section, b->section) ?: ORDER_OF(a->offset, b->offset)
	    ?: ORDER_OF(a->symbol, b->symbol))

static int compare_names(const void *left, const void *right, void *functions)
{
	const struct code_object_function *of = functions;

	return strcmp(of[*(const uint32_t *)left].name, of[*(const uint32_t *)right].name);
}

uint32_t code_object_function_find(const struct code_object *object, const char *name)
{
	const struct code_object_function *functions = object->functions;
	const uint32_t *by_name = object->by_name;
	size_t index = ARRAY_COUNT_BEFORE(object->function_count, i,
					  strcmp(functions[by_name[i]].name, name) < 0);

	return index < object->function_count && strcmp(functions[by_name[index]].name, name) == 0
		       ? by_name[index]
		       : CODE_OBJECT_NONE;
}

uint32_t code_object_function_at(const struct code_object *object, uint32_t section,
				 uint64_t offset)
{
	const struct code_object_function *functions = object->functions;
	size_t count = ARRAY_COUNT_BEFORE(object->function_count, i,
					  functions[i].section < section ||
						  (functions[i].section == section &&
						   functions[i].offset <= offset));

	return count && functions[count - 1].section == section ? (uint32_t)count - 1
								: CODE_OBJECT_NONE;
}

ARRAY_ORDER(compare_ranges, struct code_object_range, ORDER_OF(a->begin, b->begin))

bool code_object_find_code(const struct code_object *object, uint64_t address,
			   uint32_t *section_out, uint64_t *offset_out)
{
	const struct code_object_range *code = object->code;
	size_t count = ARRAY_COUNT_BEFORE(object->code_count, i, code[i].begin <= address);

	/* The end is a place, too: a sequence of lines ends there. */
	if (!count || address > code[count - 1].end)
		return false;
	*section_out = code[count - 1].section;
	*offset_out = address - code[count - 1].begin;
	return true;
}

static int read_code(struct code_object *object)
{
	struct code_object_section section;

	object->code = calloc((size_t)object->section_count + 1, sizeof(*object->code));
	if (!object->code)
		return PROTON_E_NOMEM;
	for (uint32_t i = 0; i < object->section_count; i++) {
		if (!(section_header(object, i).sh_flags & SHF_EXECINSTR) ||
		    !code_object_section_get(object, i, &section) || !section.content.length ||
		    section.address + section.content.length < section.address)
			continue;
		object->code[object->code_count++] = (struct code_object_range){
			.begin = section.address,
			.end = section.address + section.content.length,
			.section = i,
		};
	}
	ARRAY_SORT(object->code, object->code_count, compare_ranges);
	return PROTON_OK;
}

static int read_functions(struct code_object *object, struct span symbols, struct span names)
{
	size_t count = symbols.length / sizeof(Elf64_Sym);

	object->functions = calloc(count + 1, sizeof(*object->functions));
	object->by_name = calloc(count + 1, sizeof(*object->by_name));
	if (!object->functions || !object->by_name)
		return PROTON_E_NOMEM;
	for (uint32_t i = 0; i < count; i++) {
		struct code_object_section code;
		Elf64_Sym symbol;

		memcpy(&symbol, symbols.bytes + i * sizeof(symbol), sizeof(symbol));
		const char *name = span_text(names, symbol.st_name);
		if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || !name ||
		    !code_object_section_get(object, symbol.st_shndx, &code) ||
		    symbol.st_value < code.address ||
		    symbol.st_value - code.address > code.content.length)
			continue;
		symbol.st_value -= code.address;
		if (symbol.st_size > code.content.length - symbol.st_value)
			symbol.st_size = code.content.length - symbol.st_value;
		object->functions[object->function_count++] = (struct code_object_function){
			.name = name,
			.symbol = i,
			.section = symbol.st_shndx,
			.offset = symbol.st_value,
			.code_bytes = symbol.st_size,
		};
	}
	ARRAY_SORT(object->functions, object->function_count, compare_places);
	for (uint32_t i = 0; i < object->function_count; i++)
		object->by_name[i] = i;
	qsort_r(object->by_name, object->function_count, sizeof(*object->by_name), compare_names,
		object->functions);
	return PROTON_OK;
}

/* `of_symbol`: for each symbol, the index of its function + 1. */
static void read_info(struct code_object *object, struct span info, const uint32_t *of_symbol,
		      size_t symbols)
{
	struct reader reader = reader_of(info);

	while (reader_has_more(&reader)) {
		uint64_t form = reader_uint(&reader, 1), kind = reader_uint(&reader, 1);
		uint64_t size = reader_uint(&reader, 2);

		if (form != FORM_SIZED)
			continue;
		struct reader payload = reader_of(reader_bytes(&reader, size));
		uint32_t symbol = (uint32_t)reader_uint(&payload, 4);
		uint32_t value = (uint32_t)reader_uint(&payload, 4);
		struct code_object_function *function =
			symbol < symbols && of_symbol[symbol]
				? &object->functions[of_symbol[symbol] - 1]
				: NULL;
		if (payload.is_over)
			continue;
		if (kind == KIND_REGCOUNT) {
			if (function)
				function->registers = value;
			if (value > object->registers)
				object->registers = value;
		} else if (kind == KIND_FRAME_SIZE) {
			if (function)
				function->stack_bytes = value;
			object->stack_bytes += value;
		}
	}
}

/* Static shared memory has a section, which names the section of the code. */
static int read_shared(struct code_object *object)
{
	AUTO_FREE uint64_t *bytes = calloc((size_t)object->section_count + 1, sizeof(*bytes));
	struct code_object_section section;

	if (!bytes)
		return PROTON_E_NOMEM;
	for (uint32_t i = 0; i < object->section_count; i++)
		if (code_object_section_get(object, i, &section) &&
		    section.info < object->section_count &&
		    strncmp(section.name, ".nv.shared.", strlen(".nv.shared.")) == 0)
			bytes[section.info] = section.bytes;
	for (uint32_t i = 0; i < object->function_count; i++)
		object->functions[i].shared_bytes = bytes[object->functions[i].section];
	return PROTON_OK;
}

static int read_tables(struct code_object *object)
{
	bool is_stripped = code_object_section_find(object, ".symtab") == CODE_OBJECT_NONE;
	struct span symbols =
		code_object_section_content(object, is_stripped ? ".dynsym" : ".symtab");
	struct span names =
		code_object_section_content(object, is_stripped ? ".dynstr" : ".strtab");
	size_t count = symbols.length / sizeof(Elf64_Sym);
	AUTO_FREE uint32_t *of_symbol = calloc(count + 1, sizeof(*of_symbol));
	int status = of_symbol ? read_functions(object, symbols, names) : PROTON_E_NOMEM;

	if (status == PROTON_OK && object->machine == MACHINE_AMD) {
		status = read_code(object);
	} else if (status == PROTON_OK) {
		for (uint32_t i = 0; i < object->function_count; i++)
			of_symbol[object->functions[i].symbol] = i + 1;
		read_info(object, code_object_section_content(object, ".nv.info"), of_symbol,
			  count);
		status = read_shared(object);
	}
	return status;
}

/* ------------------------------------------------------------------ the file */

static bool read_header(struct code_object *object)
{
	Elf64_Ehdr header;

	if (object->file.length < sizeof(header))
		return false;
	memcpy(&header, object->file.bytes, sizeof(header));
	if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
	    header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
	    (header.e_machine != EM_CUDA && header.e_machine != EM_AMDGPU) ||
	    header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shstrndx >= header.e_shnum ||
	    !span_part(object->file, header.e_shoff, header.e_shnum * sizeof(Elf64_Shdr)).bytes)
		return false;
	object->machine = header.e_machine == EM_AMDGPU ? MACHINE_AMD : MACHINE_NVIDIA;
	object->section_table = header.e_shoff;
	object->section_count = header.e_shnum;
	Elf64_Shdr names = section_header(object, header.e_shstrndx);
	object->names = span_part(object->file, names.sh_offset, names.sh_size);
	return object->names.length > 0;
}

int code_object_open(struct code_object *object, const void *bytes, size_t length,
		     struct proton_error *err)
{
	*object = (struct code_object){.file = {bytes, length}};
	if (!read_header(object))
		return err_set(
			err, PROTON_E_INVALID,
			"cannot parse the machine code: neither a cubin nor an AMD code object");
	int status = read_tables(object);
	if (status == PROTON_OK)
		return PROTON_OK;
	code_object_close(object);
	return err_nomem(err);
}

void code_object_close(struct code_object *object)
{
	FREE_ALL(object->functions, object->by_name, object->code);
	*object = (struct code_object){0};
}
