/* symbol/cubin: functions, their resources, and damaged files; test_cubin.py has real cubins. */
#include "unit/tap.h"

#include "symbol/cubin.h"
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
	struct proton_error err;
	struct cubin cubin;
	const struct cubin_function *a, *b, *f;

	build_two(&build);
	CHECK_OK(cubin_open(&cubin, build.bytes.bytes, build.bytes.length, &err), err);
	CHECK_EQ(cubin.function_count, 3);
	CHECK_EQ(cubin_function_find(&cubin, "elsewhere"), CUBIN_NONE);
	a = &cubin.functions[cubin_function_find(&cubin, "a")];
	b = &cubin.functions[cubin_function_find(&cubin, "b")];
	f = &cubin.functions[cubin_function_find(&cubin, "$a$f")];
	CHECK_U64(a->code_bytes, 512);
	CHECK_EQ(a->registers, 40);
	CHECK_EQ(a->stack_bytes, 8);
	CHECK_U64(a->shared_bytes, 0);
	CHECK_EQ(f->section, a->section);
	CHECK_U64(f->offset, 0x100);
	CHECK_EQ(f->registers, 24);
	CHECK_U64(b->shared_bytes, 4096);
	CHECK_EQ(b->registers, 168);
	CHECK_EQ(cubin.registers, 168);
	CHECK_U64(cubin.stack_bytes, 24);
	cubin_close(&cubin);
	build_fini(&build);
}

TEST(an_offset_belongs_to_the_last_function_that_starts_before_it)
{
	struct cubin_build build;
	struct cubin cubin;
	uint32_t first;

	build_two(&build);
	CHECK_EQ(cubin_open(&cubin, build.bytes.bytes, build.bytes.length, NULL), PROTON_OK);
	first = cubin_section_find(&cubin, ".text.a");
	CHECK_STR(cubin.functions[cubin_function_at(&cubin, first, 0xff)].name, "a");
	CHECK_STR(cubin.functions[cubin_function_at(&cubin, first, 0x100)].name, "$a$f");
	CHECK_STR(cubin.functions[cubin_function_at(&cubin, first + 1, 1u << 30)].name, "b");
	CHECK_EQ(cubin_function_at(&cubin, first + 2, 0), CUBIN_NONE);
	CHECK_EQ(cubin_function_at(&cubin, 0, 0), CUBIN_NONE);
	cubin_close(&cubin);
	build_fini(&build);
}

TEST(sections_are_found_by_name)
{
	struct cubin_build build;
	struct cubin_section section;
	struct cubin cubin;

	build_two(&build);
	CHECK_EQ(cubin_open(&cubin, build.bytes.bytes, build.bytes.length, NULL), PROTON_OK);
	CHECK(cubin_section_content(&cubin, ".text.b").length == 256);
	CHECK(cubin_section_get(&cubin, cubin_section_find(&cubin, ".nv.shared.b"), &section));
	CHECK_U64(section.bytes, 4096);
	CHECK_U64(section.content.length, 0);
	CHECK_EQ(cubin_section_find(&cubin, ".debug_line"), CUBIN_NONE);
	CHECK(!cubin_section_content(&cubin, ".debug_line").bytes);
	CHECK(!cubin_section_get(&cubin, cubin.section_count, &section));
	cubin_close(&cubin);
	build_fini(&build);
}

TEST(other_files_are_rejected)
{
	static const size_t changed[] = {0, EI_CLASS, EI_DATA, 18, 58};
	struct cubin_build build;
	struct proton_error err;
	struct cubin cubin;

	build_two(&build);
	for (size_t i = 0; i < sizeof(changed) / sizeof(changed[0]); i++) {
		build.bytes.bytes[changed[i]]++;
		CHECK_EQ(cubin_open(&cubin, build.bytes.bytes, build.bytes.length, &err),
			 PROTON_E_INVALID);
		CHECK_STR(err.text, "cannot parse the machine code: not a cubin");
		build.bytes.bytes[changed[i]]--;
	}
	/* Truncated: the table of sections is the last part of the file. */
	CHECK_EQ(cubin_open(&cubin, build.bytes.bytes, build.bytes.length - 1, &err),
		 PROTON_E_INVALID);
	CHECK_EQ(cubin_open(&cubin, NULL, 0, &err), PROTON_E_INVALID);
	build_fini(&build);
}
