/* Builder of small cubins and AMD code objects: sections in call order, then their table. */
#pragma once

#include <elf.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"

#define BUILD_SECTIONS 24

struct cubin_build {
	struct out bytes;
	struct out names, symbol_names, symbols;
	Elf64_Shdr headers[BUILD_SECTIONS];
	uint32_t count;
	uint16_t machine;
};

#define BUILD_NVIDIA 190
#define BUILD_AMD 224

static inline void put(struct out *out, uint64_t value, size_t size)
{
	for (size_t i = 0; i < size; i++)
		out_byte(out, (char)(value >> (8 * i)));
}

static inline void build_begin(struct cubin_build *build)
{
	Elf64_Sym none = {0};

	memset(build, 0, sizeof(*build));
	out_init(&build->bytes, -1);
	out_init(&build->names, -1);
	out_init(&build->symbol_names, -1);
	out_init(&build->symbols, -1);
	for (size_t i = 0; i < sizeof(Elf64_Ehdr); i++)
		out_byte(&build->bytes, 0);
	out_byte(&build->names, 0);
	out_byte(&build->symbol_names, 0);
	out_bytes(&build->symbols, (const char *)&none, sizeof(none));
	build->count = 1;
	build->machine = BUILD_NVIDIA;
}

/* Adds a section; returns its index. */
static inline uint32_t build_section(struct cubin_build *build, const char *name, uint32_t type,
				     uint32_t info, const void *bytes, size_t length)
{
	build->headers[build->count] = (Elf64_Shdr){
		.sh_name = (uint32_t)build->names.length,
		.sh_type = type,
		.sh_offset = build->bytes.length,
		.sh_size = length,
		.sh_info = info,
	};
	out_bytes(&build->names, name, strlen(name) + 1);
	if (type != SHT_NOBITS)
		out_bytes(&build->bytes, bytes, length);
	return build->count++;
}

/* The same for code at a virtual address, in an AMD code object. */
static inline uint32_t build_code(struct cubin_build *build, const char *name, uint64_t address,
				  const void *bytes, size_t length)
{
	uint32_t section = build_section(build, name, SHT_PROGBITS, 0, bytes, length);

	build->machine = BUILD_AMD;
	build->headers[section].sh_addr = address;
	build->headers[section].sh_flags = SHF_ALLOC | SHF_EXECINSTR;
	return section;
}

/* Adds a function; returns the index of its symbol. */
static inline uint32_t build_function(struct cubin_build *build, const char *name, uint32_t section,
				      uint64_t offset, uint64_t size)
{
	Elf64_Sym symbol = {
		.st_name = (uint32_t)build->symbol_names.length,
		.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
		.st_shndx = (uint16_t)section,
		.st_value = offset,
		.st_size = size,
	};

	out_bytes(&build->symbol_names, name, strlen(name) + 1);
	out_bytes(&build->symbols, (const char *)&symbol, sizeof(symbol));
	return (uint32_t)(build->symbols.length / sizeof(symbol)) - 1;
}

/* Ends the file. Its bytes are those of build->bytes, until build_fini(). */
static inline void build_end(struct cubin_build *build)
{
	Elf64_Ehdr header = {
		.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
		.e_machine = build->machine,
		.e_shentsize = sizeof(Elf64_Shdr),
	};

	build_section(build, ".symtab", SHT_SYMTAB, 0, build->symbols.bytes, build->symbols.length);
	build_section(build, ".strtab", SHT_STRTAB, 0, build->symbol_names.bytes,
		      build->symbol_names.length);
	header.e_shstrndx = (uint16_t)build->count;
	/* Its own name is in it. */
	out_bytes(&build->names, ".shstrtab", sizeof(".shstrtab"));
	build->headers[build->count++] = (Elf64_Shdr){
		.sh_name = (uint32_t)(build->names.length - sizeof(".shstrtab")),
		.sh_type = SHT_STRTAB,
		.sh_offset = build->bytes.length,
		.sh_size = build->names.length,
	};
	out_bytes(&build->bytes, build->names.bytes, build->names.length);
	header.e_shoff = build->bytes.length;
	header.e_shnum = (uint16_t)build->count;
	out_bytes(&build->bytes, (const char *)build->headers,
		  build->count * sizeof(build->headers[0]));
	memcpy(build->bytes.bytes, &header, sizeof(header));
}

static inline void build_fini(struct cubin_build *build)
{
	out_fini(&build->bytes);
	out_fini(&build->names);
	out_fini(&build->symbol_names);
	out_fini(&build->symbols);
}
