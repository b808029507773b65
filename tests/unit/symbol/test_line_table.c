/* symbol/line_table: other compilers' tables, and damaged ones; test_line_table.py has Triton's. */
#include "unit/tap.h"

#include "symbol/line_table.h"
#include "unit/symbol/cubin_build.h"

#define CODE_BYTES 0x100

/* The length field of a unit, filled in by end_unit(). */
static size_t begin_unit(struct out *out, unsigned version)
{
	size_t start = out->length;

	put(out, 0, 4);
	put(out, version, 2);
	if (version == 5)
		put(out, 8, 2); /* sizes of addresses and segments */
	return start;
}

static void end_unit(struct out *out, size_t start)
{
	uint32_t length = (uint32_t)(out->length - start - 4);

	memcpy(out->bytes + start, &length, sizeof(length));
}

/* From the length of the header to the lengths of opcodes; end_header() fills it in. */
static size_t begin_header(struct out *out, unsigned version)
{
	size_t start = out->length;

	put(out, 0, 4);
	put(out, 1, 1); /* minimum length */
	if (version >= 4)
		put(out, 1, 1);
	put(out, 1, 1);
	put(out, (uint8_t)-5, 1); /* line base */
	put(out, 14, 1);          /* line range */
	put(out, 10, 1);          /* first special opcode */
	out_bytes(out, "\0\1\1\1\1\0\0\0\1", 9);
	return start;
}

static void end_header(struct out *out, size_t start)
{
	end_unit(out, start);
}

static void old_names(struct out *out)
{
	out_bytes(out, "/src\0inc", 9);
	put(out, 0, 1);
	out_bytes(out, "a.cu\0\1\0\0b.h\0\2\0\0/c.h\0\1\0\0", 8 + 7 + 8);
	put(out, 0, 1);
}

/* DW_LNE_set_address. Returns the offset of its operand. */
static size_t set_address(struct out *out, uint64_t address)
{
	out_bytes(out, "\0\11\2", 3);
	put(out, address, 8);
	return out->length - 8;
}

/* A row `advance` bytes later, at a line that is `lines` further. */
static void row(struct out *out, unsigned advance, int lines)
{
	put(out, 3, 1);
	put(out, (unsigned)lines & 127, 1);
	put(out, 2, 1);
	put(out, advance, 1);
	put(out, 1, 1);
}

static void end_sequence(struct out *out, unsigned advance)
{
	put(out, 2, 1);
	put(out, advance, 1);
	out_bytes(out, "\0\1\1", 3);
}

/* The table of a cubin with functions "a" and "b", and a .rel entry for the operands given. */
static struct line_table *open_table(const struct out *lines, const size_t *operands)
{
	static const char code[CODE_BYTES];
	struct cubin_build build;
	struct line_table *table;
	struct out relocations;
	uint32_t sections[2], symbols[2];

	build_begin(&build);
	out_init(&relocations, -1);
	for (int i = 0; i < 2; i++) {
		sections[i] = build_section(&build, i ? ".text.b" : ".text.a", SHT_PROGBITS, 0,
					    code, CODE_BYTES);
		symbols[i] = build_function(&build, i ? "b" : "a", sections[i], 0, CODE_BYTES);
	}
	build_section(&build, ".debug_line", SHT_PROGBITS, 0, lines->bytes, lines->length);
	build_section(&build, ".debug_str", SHT_PROGBITS, 0, "a\0_Z5outerv", 12);
	for (int i = 0; operands && i < 2; i++) {
		put(&relocations, operands[i], 8);
		put(&relocations, (uint64_t)symbols[i] << 32 | 2, 8);
	}
	build_section(&build, ".rel.debug_line", SHT_REL, 0, relocations.bytes, relocations.length);
	build_end(&build);
	CHECK_DONE(line_table_open(build.bytes.bytes, build.bytes.length, NULL, 0, &table, &err));
	out_fini(&relocations);
	build_fini(&build);
	return table;
}

/* "FILE:LINE:COLUMN < ..." of an instruction, and how much is known. */
static const char *lines_at(const struct line_table *table, const char *function, uint64_t pc)
{
	static const char *const infos[] = {"none", "innermost", "calls"};
	static char text[512];
	struct line_run run;

	CHECK(line_table_run(table, line_table_function(table, function), pc, &run));
	size_t length = (size_t)snprintf(text, sizeof(text), "%s", infos[run.info]);
	for (uint32_t i = run.frame; i; i = line_table_frame(table, i)->caller) {
		const struct line_frame *frame = line_table_frame(table, i);

		length += (size_t)snprintf(text + length, sizeof(text) - length,
					   " < %s:%" PRIu32 ":%" PRIu32 "%s%s", frame->file,
					   frame->line, frame->column, frame->function ? " " : "",
					   frame->function ? frame->function : "");
	}
	return text;
}

TEST(each_sequence_belongs_to_the_function_of_its_relocation)
{
	struct line_run run;
	size_t operands[2], unit, header;
	struct out lines;

	out_init(&lines, -1);
	unit = begin_unit(&lines, 2);
	header = begin_header(&lines, 2);
	old_names(&lines);
	end_header(&lines, header);
	operands[0] = set_address(&lines, 0x10); /* added to the relocation */
	row(&lines, 0, 9);
	row(&lines, 0x20, 1);
	end_sequence(&lines, 0x50);
	operands[1] = set_address(&lines, 0);
	out_bytes(&lines, "\4\2\5\7", 4); /* file 2, column 7 */
	row(&lines, 0, 2);
	out_bytes(&lines, "\4\3", 2);
	row(&lines, 0x40, 1);
	end_sequence(&lines, 0x20);
	end_unit(&lines, unit);
	struct line_table *table = open_table(&lines, operands);
	CHECK_STR(lines_at(table, "a", 0), "none");
	CHECK_STR(lines_at(table, "a", 0x10), "innermost < /src/a.cu:10:0");
	CHECK_STR(lines_at(table, "a", 0x2f), "innermost < /src/a.cu:10:0");
	CHECK_STR(lines_at(table, "a", 0x30), "innermost < /src/a.cu:11:0");
	CHECK_STR(lines_at(table, "a", 0x80), "none");
	CHECK_STR(lines_at(table, "b", 0x30), "innermost < inc/b.h:3:7");
	CHECK_STR(lines_at(table, "b", 0x40), "innermost < /c.h:4:7");
	CHECK_STR(lines_at(table, "b", CODE_BYTES - 1), "none");
	CHECK(!line_table_run(table, line_table_function(table, "b"), CODE_BYTES, &run));
	CHECK(!line_table_run(table, line_table_function(table, "c"), 0, &run));
	CHECK(line_table_run(table, line_table_function(table, "b"), 0x41, &run));
	CHECK_U64(run.begin, 0x40);
	CHECK_U64(run.end, 0x60);
	CHECK_STR(run.function, "b");
	line_table_close(table);
	/* Without relocations it is unknown which function a sequence belongs to. */
	table = open_table(&lines, NULL);
	CHECK_STR(lines_at(table, "a", 0x10), "none");
	line_table_close(table);
	out_fini(&lines);
}

TEST(calls_refer_to_earlier_rows_of_the_sequence)
{
	size_t operands[2], unit, header;
	struct out lines;

	out_init(&lines, -1);
	unit = begin_unit(&lines, 2);
	header = begin_header(&lines, 2);
	old_names(&lines);
	end_header(&lines, header);
	for (int i = 0; i < 2; i++) {
		operands[i] = set_address(&lines, 0);
		row(&lines, 0, i ? 29 : 19);              /* row 1: the call */
		out_bytes(&lines, "\4\2\0\3\x90\1\2", 7); /* inlined at row 1: _Z5outerv */
		row(&lines, 0, 1);                        /* row 2, at the same address */
		out_bytes(&lines, "\0\3\x90\2\0", 5);     /* inlined at row 2: the kernel's name */
		row(&lines, 0x10, 1);                     /* row 3 */
		out_bytes(&lines, "\0\3\x90\7\2", 5);     /* there is no row 7 */
		row(&lines, 0x10, 1);
		out_bytes(&lines, "\4\1\0\3\x90\0\0", 7); /* not inlined */
		row(&lines, 0x10, 1);
		end_sequence(&lines, 0x10);
	}
	end_unit(&lines, unit);
	struct line_table *table = open_table(&lines, operands);
	CHECK_STR(lines_at(table, "a", 0), "calls < inc/b.h:21:0 _Z5outerv < /src/a.cu:20:0");
	CHECK_STR(lines_at(table, "a", 0x10),
		  "calls < inc/b.h:22:0 < inc/b.h:21:0 _Z5outerv < /src/a.cu:20:0");
	CHECK_STR(lines_at(table, "a", 0x20), "calls < inc/b.h:23:0");
	CHECK_STR(lines_at(table, "a", 0x30), "calls < /src/a.cu:24:0");
	CHECK_STR(lines_at(table, "b", 0), "calls < inc/b.h:31:0 _Z5outerv < /src/a.cu:30:0");
	CHECK_STR(lines_at(table, "b", 0x10),
		  "calls < inc/b.h:32:0 a < inc/b.h:31:0 _Z5outerv < /src/a.cu:30:0");
	CHECK_EQ(line_table_frame_count(table), 10);
	line_table_close(table);
	out_fini(&lines);
}

/* NVIDIA's extended opcode 0x91 has the name alone. */
TEST(name_that_follows_a_call_replaces_its_function)
{
	size_t operands[2], unit, header;
	struct out lines;

	out_init(&lines, -1);
	unit = begin_unit(&lines, 2);
	header = begin_header(&lines, 2);
	old_names(&lines);
	end_header(&lines, header);
	for (int i = 0; i < 2; i++) {
		operands[i] = set_address(&lines, 0);
		out_bytes(&lines, "\0\2\x91\2", 4); /* outside a call: nothing to name */
		row(&lines, 0, 19);
		out_bytes(&lines, "\0\3\x90\1\0", 5); /* inlined at row 1: the kernel's name */
		out_bytes(&lines, "\0\2\x91\2", 4);   /* no: _Z5outerv */
		row(&lines, 0x10, 1);
		end_sequence(&lines, 0x10);
	}
	end_unit(&lines, unit);
	struct line_table *table = open_table(&lines, operands);
	CHECK_STR(lines_at(table, "b", 0), "calls < /src/a.cu:20:0");
	CHECK_STR(lines_at(table, "b", 0x10), "calls < /src/a.cu:21:0 _Z5outerv < /src/a.cu:20:0");
	line_table_close(table);
	out_fini(&lines);
}

TEST(headers_of_dwarf_5_have_tables_of_names)
{
	size_t operands[2] = {0}, unit, header;
	struct out lines;

	out_init(&lines, -1);
	unit = begin_unit(&lines, 5);
	header = begin_header(&lines, 5);
	out_bytes(&lines, "\1\1\x8\2/src\0inc", 12); /* a column: path, string; two */
	put(&lines, 0, 1);
	out_bytes(&lines, "\3\1\x8\2\xb\5\x1e\2", 8); /* path; directory, data1; MD5 */
	out_bytes(&lines,
		  "a.cu\0\0"
		  "0123456789abcdef",
		  22);
	out_bytes(&lines,
		  "b.h\0\1"
		  "0123456789abcdef",
		  21);
	end_header(&lines, header);
	operands[0] = set_address(&lines, 0);
	row(&lines, 0, 4); /* file 1 */
	out_bytes(&lines, "\4\0", 2);
	row(&lines, 0x10, 1);
	end_sequence(&lines, 0x10);
	end_unit(&lines, unit);
	operands[1] = operands[0] + 1;
	struct line_table *table = open_table(&lines, operands);
	CHECK_STR(lines_at(table, "a", 0), "innermost < /src/inc/b.h:5:0");
	CHECK_STR(lines_at(table, "a", 0x10), "innermost < /src/a.cu:6:0");
	line_table_close(table);
	out_fini(&lines);
}

/* A count of a million such entries would take memory for each. */
TEST(units_with_names_of_no_bytes_are_skipped)
{
	size_t operands[2] = {0}, unit, header;
	struct out lines;

	out_init(&lines, -1);
	unit = begin_unit(&lines, 5);
	header = begin_header(&lines, 5);
	out_bytes(&lines, "\1\1\x19\x80\x80\x40", 6); /* a column: path, flag_present */
	out_bytes(&lines, "\1\1\x8\1/src/a.cu\0", 14);
	end_header(&lines, header);
	operands[0] = set_address(&lines, 0);
	out_bytes(&lines, "\4\0", 2);
	row(&lines, 0, 4);
	end_sequence(&lines, 0x10);
	end_unit(&lines, unit);
	operands[1] = operands[0] + 1;
	struct line_table *table = open_table(&lines, operands);
	CHECK_STR(lines_at(table, "a", 0), "none");
	line_table_close(table);
	out_fini(&lines);
}

TEST(units_of_unknown_versions_are_skipped)
{
	size_t operands[2], unit, header;
	struct out lines;

	out_init(&lines, -1);
	unit = begin_unit(&lines, 9);
	out_bytes(&lines, "anything", 8);
	end_unit(&lines, unit);
	unit = begin_unit(&lines, 4);
	header = begin_header(&lines, 4);
	old_names(&lines);
	end_header(&lines, header);
	operands[0] = set_address(&lines, 0);
	row(&lines, 0, 4);
	end_sequence(&lines, 0x10);
	end_unit(&lines, unit);
	operands[1] = 0;
	struct line_table *table = open_table(&lines, operands);
	CHECK_STR(lines_at(table, "a", 0), "innermost < /src/a.cu:5:0");
	CHECK_STR(lines_at(table, "b", 0), "none");
	line_table_close(table);
	out_fini(&lines);
}
