/* symbol/code_object: functions, resources, damaged files; test_cubin.py has real cubins. */
#include "unit/tap.h"

#include "symbol/code_object.h"
#include "unit/symbol/cubin_build.h"

/* Two kernels; the first one has a function after it in its section. */
static void build_two(struct cubin_build *build)
{
	static const char code[512];
	uint32_t first, second, a, f, b;
	struct out info;

	build_begin(build);
	first = build_section(build, ".text.a", SHT_PROGBITS, 0, code, 512);
	second = build_section(build, ".text.b", SHT_PROGBITS, 0, code, 256);
	build_section(build, ".nv.shared.b", SHT_NOBITS, second, NULL, 4096);
	f = build_function(build, "$a$f", first, 0x100, 0x80);
	b = build_function(build, "b", second, 0, 256);
	a = build_function(build, "a", first, 0, 9999); /* past the end of the section */
	build_function(build, "elsewhere", 77, 0, 16);
	out_init(&info, -1);
	put(&info, 0x5003, 4); /* a value in place */
	for (int i = 0; i < 3; i++) {
		put(&info, 4 | 0x2f << 8 | 8 << 16, 4);
		put(&info, (const uint32_t[]){a, f, b}[i], 4);
		put(&info, (const uint32_t[]){40, 24, 168}[i], 4);
		put(&info, 4 | 0x11 << 8 | 8 << 16, 4);
		put(&info, (const uint32_t[]){a, f, b}[i], 4);
		put(&info, (const uint32_t[]){8, 16, 0}[i], 4);
	}
	build_section(build, ".nv.info", 0x70000000, 0, info.bytes, info.length);
	out_fini(&info);
	build_end(build);
}

TEST(functions_have_code_and_resources)
{
	struct cubin_build build;
	struct code_object object;
	const struct code_object_function *a, *b, *f;

	build_two(&build);
	CHECK_DONE(code_object_open(&object, build.bytes.bytes, build.bytes.length, &err));
	CHECK_EQ(object.function_count, 3);
	CHECK_EQ(code_object_function_find(&object, "elsewhere"), CODE_OBJECT_NONE);
	a = &object.functions[code_object_function_find(&object, "a")];
	b = &object.functions[code_object_function_find(&object, "b")];
	f = &object.functions[code_object_function_find(&object, "$a$f")];
	CHECK_U64(a->code_bytes, 512);
	CHECK_EQ(a->registers, 40);
	CHECK_EQ(a->stack_bytes, 8);
	CHECK_U64(a->shared_bytes, 0);
	CHECK_EQ(f->section, a->section);
	CHECK_U64(f->offset, 0x100);
	CHECK_EQ(f->registers, 24);
	CHECK_U64(b->shared_bytes, 4096);
	CHECK_EQ(b->registers, 168);
	CHECK_EQ(object.registers, 168);
	CHECK_U64(object.stack_bytes, 24);
	code_object_close(&object);
	build_fini(&build);
}

TEST(an_offset_belongs_to_the_last_function_that_starts_before_it)
{
	struct cubin_build build;
	struct code_object object;

	build_two(&build);
	CHECK_EQ(code_object_open(&object, build.bytes.bytes, build.bytes.length, NULL), PROTON_OK);
	uint32_t first = code_object_section_find(&object, ".text.a");
	CHECK_STR(object.functions[code_object_function_at(&object, first, 0xff)].name, "a");
	CHECK_STR(object.functions[code_object_function_at(&object, first, 0x100)].name, "$a$f");
	CHECK_STR(object.functions[code_object_function_at(&object, first + 1, 1u << 30)].name,
		  "b");
	CHECK_EQ(code_object_function_at(&object, first + 2, 0), CODE_OBJECT_NONE);
	CHECK_EQ(code_object_function_at(&object, 0, 0), CODE_OBJECT_NONE);
	code_object_close(&object);
	build_fini(&build);
}

TEST(sections_are_found_by_name)
{
	struct cubin_build build;
	struct code_object_section section;
	struct code_object object;

	build_two(&build);
	CHECK_EQ(code_object_open(&object, build.bytes.bytes, build.bytes.length, NULL), PROTON_OK);
	CHECK(code_object_section_content(&object, ".text.b").length == 256);
	CHECK(code_object_section_get(&object, code_object_section_find(&object, ".nv.shared.b"),
				      &section));
	CHECK_U64(section.bytes, 4096);
	CHECK_U64(section.content.length, 0);
	CHECK_EQ(code_object_section_find(&object, ".debug_line"), CODE_OBJECT_NONE);
	CHECK(!code_object_section_content(&object, ".debug_line").bytes);
	CHECK(!code_object_section_get(&object, object.section_count, &section));
	code_object_close(&object);
	build_fini(&build);
}

/* The function that the address is in, and the offset in it; CODE_OBJECT_NONE: none. */
static uint32_t function_at_address(const struct code_object *object, uint64_t address,
				    uint64_t *pc)
{
	uint32_t section, function;
	uint64_t offset;

	if (!code_object_find_code(object, address, &section, &offset))
		return CODE_OBJECT_NONE;
	function = code_object_function_at(object, section, offset);
	if (function == CODE_OBJECT_NONE)
		return function;
	*pc = offset - object->functions[function].offset;
	return *pc < object->functions[function].code_bytes ? function : CODE_OBJECT_NONE;
}

TEST(functions_of_amd_code_are_found_by_their_virtual_address)
{
	static const char code[0x400];
	struct cubin_build build;
	struct code_object object;
	uint32_t text, init;
	uint64_t pc;

	build_begin(&build);
	/* Not in the order of the addresses. */
	text = build_code(&build, ".text", 0x1600, code, sizeof(code));
	init = build_code(&build, ".init", 0x1000, code, 0x100);
	build_function(&build, "kernel", text, 0x1700, 0x120);
	build_function(&build, "callee", text, 0x1600, 0x80);
	build_function(&build, "start", init, 0x1000, 0x1000);
	build_function(&build, "below", text, 0x15ff, 4);
	build_end(&build);
	CHECK_DONE(code_object_open(&object, build.bytes.bytes, build.bytes.length, &err));
	CHECK_EQ(object.machine, MACHINE_AMD);
	CHECK_EQ(object.function_count, 3);
	CHECK_STR(object.functions[function_at_address(&object, 0x1600, &pc)].name, "callee");
	CHECK_U64(pc, 0);
	CHECK_STR(object.functions[function_at_address(&object, 0x181f, &pc)].name, "kernel");
	CHECK_U64(pc, 0x11f);
	/* A size larger than the section is cut. */
	CHECK_U64(object.functions[code_object_function_find(&object, "start")].code_bytes, 0x100);
	CHECK_STR(object.functions[function_at_address(&object, 0x10ff, &pc)].name, "start");
	/* Between two functions, after the last one, between two sections, outside. */
	CHECK_EQ(function_at_address(&object, 0x1680, &pc), CODE_OBJECT_NONE);
	CHECK_EQ(function_at_address(&object, 0x1820, &pc), CODE_OBJECT_NONE);
	CHECK_EQ(function_at_address(&object, 0x1100, &pc), CODE_OBJECT_NONE);
	CHECK_EQ(function_at_address(&object, 0xfff, &pc), CODE_OBJECT_NONE);
	CHECK_EQ(function_at_address(&object, UINT64_MAX, &pc), CODE_OBJECT_NONE);
	code_object_close(&object);
	build_fini(&build);
}

TEST(other_files_are_rejected)
{
	static const size_t changed[] = {0, EI_CLASS, EI_DATA, 18, 58};
	struct cubin_build build;
	struct proton_error err;
	struct code_object object;

	build_two(&build);
	for (size_t i = 0; i < sizeof(changed) / sizeof(changed[0]); i++) {
		build.bytes.bytes[changed[i]]++;
		CHECK_EQ(code_object_open(&object, build.bytes.bytes, build.bytes.length, &err),
			 PROTON_E_INVALID);
		CHECK_STR(err.text,
			  "cannot parse the machine code: neither a cubin nor an AMD code object");
		build.bytes.bytes[changed[i]]--;
	}
	/* Truncated: the table of sections is the last part of the file. */
	CHECK_EQ(code_object_open(&object, build.bytes.bytes, build.bytes.length - 1, &err),
		 PROTON_E_INVALID);
	CHECK_EQ(code_object_open(&object, NULL, 0, &err), PROTON_E_INVALID);
	build_fini(&build);
}
