/*
 * symbol/sass_causes: producers in streams with a known answer, and in generated streams, where a
 * search forward from each producer has to find the same.
 */
#include "unit/tap.h"

#include "base/array.h"
#include "symbol/sass_causes.h"
#include "unit/symbol/cubin_build.h"

#define ITEMS_MAX 40u
#define NONE 7u

/* An instruction: text, and the scoreboards it sets when it has written or read. */
struct item {
	const char *text;
	uint32_t written, read; /* NONE: it sets none */
	uint32_t waits;         /* mask */
	uint32_t target;        /* + 1: where a branch goes; the text has "$" for it */
};

static struct sass *sass;
static struct sass_causes *causes;

static void append(struct out *out, const struct item *item, uint32_t index)
{
	if (index == 0)
		out_text(out, "\t.section\t.text.k,\"ax\",@progbits\nk:\n.text.k:\n");
	out_printf(out, ".L_x_%u:\n        /*%04x*/                   ", index, index * SASS_BYTES);
	for (const char *at = item->text; *at; at++) {
		if (*at == '$')
			out_printf(out, "`(.L_x_%u)", item->target - 1);
		else
			out_byte(out, *at);
	}
	out_text(out, " ;\n");
}

static void open_stream(const struct item *items, uint32_t count)
{
	struct cubin_build build;
	struct out code, text;

	out_init(&code, -1);
	out_init(&text, -1);
	for (uint32_t i = 0; i < count; i++) {
		uint64_t control = 1u | items[i].written << 5 | items[i].read << 8 |
				   items[i].waits << 11;

		put(&code, 0, 8);
		put(&code, control << 41, 8);
		append(&text, &items[i], i);
	}
	build_begin(&build);
	build_function(&build, "k",
		       build_section(&build, ".text.k", SHT_PROGBITS, 0, code.bytes, code.length),
		       0, code.length);
	build_end(&build);
	CHECK_DONE(sass_open(build.bytes.bytes, build.bytes.length, text.bytes, text.length, &sass,
			     &err));
	CHECK_DONE(sass_causes_open(sass, sass_function(sass, "k"), &causes, &err));
	build_fini(&build);
	out_fini(&code);
	out_fini(&text);
}

static void close_stream(void)
{
	sass_causes_close(causes);
	sass_close(sass);
}

/* The causes as " 1 5", by number of the instruction. */
static const char *causes_of(uint32_t index, enum sass_wait wait)
{
	static char text[256];
	const uint32_t *pcs;
	size_t count = sass_causes_of(causes, (uint64_t)index * SASS_BYTES, wait, &pcs);
	size_t length = 0;

	*text = '\0';
	for (size_t i = 0; i < count; i++)
		length += (size_t)snprintf(text + length, sizeof(text) - length, " %u",
					   pcs[i] / SASS_BYTES);
	return text;
}

TEST(a_use_waits_for_the_load_of_its_register)
{
	static const struct item items[] = {
		{"LDG.E R4, desc[UR4][R2.64]", 0, NONE, 0, 0},
		{"LDG.E.128 R8, desc[UR4][R2.64+0x10]", 0, NONE, 0, 0},
		{"MUFU.EX2 R5, R7", 1, NONE, 0, 0},
		{"FADD R6, R4, 1", NONE, NONE, 1, 0},
		{"FADD R6, R11, R5", NONE, NONE, 3, 0},
		{"FADD R20, R11, R6", NONE, NONE, 0, 0},
		{"EXIT", NONE, NONE, 0, 0},
	};

	open_stream(items, ARRAY_LENGTH(items));
	CHECK_STR(causes_of(3, SASS_WAIT_SCOREBOARD), " 0");
	/* The wait of 3 for the scoreboard was for both loads. */
	CHECK_STR(causes_of(4, SASS_WAIT_SCOREBOARD), " 2");
	CHECK_STR(causes_of(5, SASS_WAIT_SCOREBOARD), "");
	CHECK_STR(causes_of(5, SASS_WAIT_LATENCY), " 4");
	CHECK_STR(causes_of(5, SASS_WAIT_NONE), "");
	CHECK_STR(causes_of(99, SASS_WAIT_SCOREBOARD), "");
	close_stream();
}

TEST(a_store_must_have_read_its_register_before_that_is_written)
{
	static const struct item items[] = {
		{"STG.E desc[UR4][R2.64], R4", NONE, 2, 0, 0},
		{"STG.E desc[UR4][R6.64], R5", NONE, 2, 0, 0},
		{"IMAD.MOV.U32 R4, RZ, RZ, R9", NONE, NONE, 4, 0},
		{"EXIT", NONE, NONE, 0, 0},
	};

	open_stream(items, ARRAY_LENGTH(items));
	CHECK_STR(causes_of(2, SASS_WAIT_SCOREBOARD), " 0");
	CHECK_STR(causes_of(3, SASS_WAIT_STORES), " 0 1");
	close_stream();
}

TEST(predicates_are_results_too)
{
	static const struct item items[] = {
		{"ISETP.GT.AND P1, PT, R2, 0x3, PT", NONE, NONE, 0, 0},
		{"PLOP3.LUT P0, PT, PT, PT, PT, 0x8, 0x0", NONE, NONE, 0, 0},
		{"@!P1 BRA $", NONE, NONE, 0, 1},
		{"@P0 IADD3 R2, R2, -0x1, RZ", NONE, NONE, 0, 0},
		{"IADD3 R3, R2, -0x1, RZ", NONE, NONE, 0, 0},
		{"EXIT", NONE, NONE, 0, 0},
	};

	open_stream(items, ARRAY_LENGTH(items));
	CHECK_STR(causes_of(2, SASS_WAIT_LATENCY), " 0");
	CHECK_STR(causes_of(3, SASS_WAIT_LATENCY), " 1");
	CHECK_STR(causes_of(4, SASS_WAIT_LATENCY), " 3");
	close_stream();
}

/* A loop of a pipelined matrix product: the wait is for the copies of an earlier round. */
TEST(groups_of_copies_may_be_pending)
{
	static const struct item items[] = {
		{"LDGSTS.E.BYPASS.128 [R7], desc[UR26][R8.64]", NONE, NONE, 0, 0},
		{"LDGDEPBAR", 0, NONE, 0, 0},
		{"LDGSTS.E.BYPASS.128 [R7+0x800], desc[UR26][R8.64]", NONE, NONE, 0, 0},
		{"LDGDEPBAR", 0, NONE, 0, 0},
		{"DEPBAR.LE SB0, 0x1", NONE, NONE, 0, 0},
		{"BAR.SYNC.DEFER_BLOCKING 0x0", NONE, NONE, 0, 0},
		{"HGMMA.64x128x16.F32 R88, gdesc[UR20].tnspB, R88", NONE, NONE, 0, 0},
		{"HGMMA.64x128x16.F32 R24, gdesc[UR8].tnspB, R24, gsb0", NONE, NONE, 0, 0},
		{"WARPGROUP.DEPBAR.LE gsb0, 0x0", NONE, NONE, 0, 0},
		{"LDGSTS.E.BYPASS.128 [R164], desc[UR26][R18.64], !P0", NONE, NONE, 0, 0},
		{"LDGDEPBAR", 0, NONE, 0, 0},
		{"@!P0 BRA $", NONE, NONE, 0, 5},
		{"DEPBAR.LE SB0, 0x0", NONE, NONE, 0, 0},
		{"EXIT", NONE, NONE, 0, 0},
	};

	open_stream(items, ARRAY_LENGTH(items));
	CHECK_STR(causes_of(4, SASS_WAIT_SCOREBOARD), " 0 2 9");
	CHECK_STR(causes_of(8, SASS_WAIT_MMA), " 6 7");
	CHECK_STR(causes_of(12, SASS_WAIT_SCOREBOARD), " 0 2 9");
	/* Other warps do this since the barrier of the round before, or before the loop. */
	CHECK_STR(causes_of(5, SASS_WAIT_BARRIER), " 0 1 2 3 4 6 7 8 9 10 11");
	CHECK_STR(causes_of(6, SASS_WAIT_BARRIER), " 0 1 2 3 4 6 7 8 9 10 11");
	CHECK_STR(causes_of(7, SASS_WAIT_BARRIER), "");
	CHECK_U64(sass_causes_block(causes, 6 * SASS_BYTES), 4 * SASS_BYTES);
	CHECK_U64(sass_causes_block(causes, 12 * SASS_BYTES), 12 * SASS_BYTES);
	close_stream();
}

TEST(who_asks_an_mbarrier_waits_for_the_loads_that_end_there)
{
	static const struct item items[] = {
		{"@UP0 UTMALDG.2D [UR16], [UR14]", NONE, NONE, 0, 0},
		{"SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR11+0x18000], R2", 0, NONE, 0, 0},
		{"@!P0 BRA $", NONE, NONE, 1, 2},
		{"HGMMA.64x128x16.F32 R24, gdesc[UR8].tnspB, R24, gsb0", NONE, NONE, 0, 0},
		{"@P1 BRA $", NONE, NONE, 0, 1},
		{"EXIT", NONE, NONE, 0, 0},
	};

	open_stream(items, ARRAY_LENGTH(items));
	CHECK_STR(causes_of(2, SASS_WAIT_SCOREBOARD), " 0");
	CHECK_STR(causes_of(1, SASS_WAIT_SCOREBOARD), " 0");
	close_stream();
}

/* Two partitions: one loads, the other multiplies and releases the buffers. */
TEST(a_partition_that_loads_waits_until_the_other_has_released_a_buffer)
{
	static const struct item items[] = {
		{"@P2 BRA $", NONE, NONE, 0, 6},
		{"SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR11+0x18008], R2", 0, NONE, 0, 0},
		{"@!P0 BRA $", NONE, NONE, 1, 2},
		{"UTMALDG.2D [UR16], [UR14]", NONE, NONE, 0, 0},
		{"BRA $", NONE, NONE, 0, 2},
		{"SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR11+0x18000], R2", 0, NONE, 0, 0},
		{"@!P0 BRA $", NONE, NONE, 1, 6},
		{"SYNCS.ARRIVE.TRANS64.A1T0 RZ, [UR11+0x18008], RZ", NONE, NONE, 0, 0},
		{"@P1 BRA $", NONE, NONE, 0, 6},
		{"EXIT", NONE, NONE, 0, 0},
	};

	open_stream(items, ARRAY_LENGTH(items));
	CHECK_STR(causes_of(2, SASS_WAIT_SCOREBOARD), " 7");
	CHECK_STR(causes_of(6, SASS_WAIT_SCOREBOARD), " 3");
	close_stream();
}

/* ------------------------------------------------------------------ generated streams */

enum kind {
	PLAIN,
	COPY,
	COMMIT,
	WAIT_ALL,
	WAIT_ONE,
	BARRIER,
	MAYBE,
	ALWAYS,
	END,
	KINDS
};

static uint32_t seed;

static uint32_t random_below(uint32_t limit)
{
	seed = seed * 1664525u + 1013904223u;
	return (seed >> 8) % limit;
}

static enum kind kinds[ITEMS_MAX];
static struct item stream[ITEMS_MAX];
static uint32_t stream_length;

static void generate(void)
{
	static const char *const texts[KINDS] = {"NOP",
						 "LDGSTS.E [R1], [R2.64]",
						 "LDGDEPBAR",
						 "DEPBAR.LE SB0, 0x0",
						 "DEPBAR.LE SB0, 0x1",
						 "BAR.SYNC 0x0",
						 "@P0 BRA $",
						 "BRA $",
						 "EXIT"};

	stream_length = 4 + random_below(ITEMS_MAX - 4);
	for (uint32_t i = 0; i < stream_length; i++) {
		uint32_t any = random_below(14);

		kinds[i] = any < KINDS ? (enum kind)any : PLAIN;
		stream[i] = (struct item){texts[kinds[i]], NONE, NONE, 0, 0};
		if (random_below(3) == 0)
			stream[i].written = random_below(6);
		if (random_below(6) == 0)
			stream[i].read = random_below(6);
		for (uint32_t k = 0; k < 6; k++)
			stream[i].waits |= (random_below(8) == 0) << k;
		if (kinds[i] == MAYBE || kinds[i] == ALWAYS)
			stream[i].target = random_below(stream_length) + 1;
	}
}

/* On its way from a producer: a scoreboard, a copy with commits after it, or a warp. */
enum cargo {
	SCOREBOARD,
	COPIES,
	WARP
};

static bool seen[ITEMS_MAX][8];

/*
 * Does it get to the instruction `to` before something has waited for it? `state`: the scoreboard,
 * or the number of commits.
 */
static bool arrives(uint32_t at, uint32_t to, enum cargo cargo, uint32_t state)
{
	if (at >= stream_length || seen[at][state])
		return false;
	seen[at][state] = true;
	if (at == to && cargo == SCOREBOARD && stream[at].waits >> state & 1)
		return true;
	if (at == to && cargo == COPIES && state > (kinds[at] == WAIT_ONE))
		return true;
	if (at == to && cargo == WARP)
		return true;
	if ((cargo == SCOREBOARD && stream[at].waits >> state & 1) ||
	    (cargo == COPIES && kinds[at] == WAIT_ALL && state) ||
	    (cargo == WARP && kinds[at] == BARRIER))
		return false;
	if (cargo == COPIES && kinds[at] == COMMIT && state < 6)
		state++;
	if (kinds[at] == END)
		return false;
	if (kinds[at] != ALWAYS && arrives(at + 1, to, cargo, state))
		return true;
	return stream[at].target && arrives(stream[at].target - 1, to, cargo, state);
}

static bool leaves(uint32_t from, uint32_t to, enum cargo cargo, uint32_t state)
{
	memset(seen, 0, sizeof(seen));
	if (kinds[from] == END)
		return false;
	if (kinds[from] != ALWAYS && arrives(from + 1, to, cargo, state))
		return true;
	return stream[from].target && arrives(stream[from].target - 1, to, cargo, state);
}

static bool is_cause(uint32_t from, uint32_t to, enum cargo cargo)
{
	if (cargo == WARP)
		return kinds[from] != BARRIER && leaves(from, to, cargo, 0);
	if (cargo == COPIES)
		return kinds[from] == COPY && leaves(from, to, cargo, 0);
	return (stream[from].written != NONE && leaves(from, to, cargo, stream[from].written)) ||
	       (stream[from].read != NONE && leaves(from, to, cargo, stream[from].read));
}

static const char *expected_causes(uint32_t to, enum cargo cargo)
{
	static char text[256];
	size_t length = 0;

	*text = '\0';
	for (uint32_t i = 0; i < stream_length; i++)
		if (is_cause(i, to, cargo))
			length += (size_t)snprintf(text + length, sizeof(text) - length, " %u", i);
	return text;
}

TEST(a_search_forward_finds_the_same_causes)
{
	uint32_t found = 0;

	for (seed = 1; seed < 3000; seed++) {
		uint32_t before = seed;

		generate();
		open_stream(stream, stream_length);
		for (uint32_t i = 0; i < stream_length; i++) {
			enum sass_wait wait = kinds[i] == BARRIER ? SASS_WAIT_BARRIER
								  : SASS_WAIT_SCOREBOARD;
			enum cargo cargo = kinds[i] == BARRIER ? WARP
					   : kinds[i] == WAIT_ALL || kinds[i] == WAIT_ONE
						   ? COPIES
						   : SCOREBOARD;
			const char *expected = expected_causes(i, cargo);

			/* Registers say which of several copies and stores are used. */
			if (kinds[i] == COPY)
				continue;
			found += *expected != '\0';
			CHECK_STR(causes_of(i, wait), expected);
		}
		close_stream();
		seed = before;
	}
	CHECK_LT(10000, found);
}

TEST(text_without_instructions_and_labels_elsewhere_are_harmless)
{
	static const struct item items[] = {
		{"@", 0, 1, 0, 0},
		{"@P0", 0, 1, 0, 0},
		{"BRA", 2, NONE, 1, 0},
		{"BRA $", 3, NONE, 1, 1000},
		{"IADD3 R999, , ,R,RR2,UR,[R1,`(", NONE, NONE, 63, 0},
		{"DEPBAR.LE SB0, 0xffffffffffffffffff", NONE, NONE, 63, 0},
		{"DEPBAR", NONE, NONE, 63, 0},
	};

	open_stream(items, ARRAY_LENGTH(items));
	for (uint32_t i = 0; i < ARRAY_LENGTH(items); i++)
		for (int wait = SASS_WAIT_NONE; wait < SASS_WAITS; wait++)
			causes_of(i, (enum sass_wait)wait);
	CHECK_U64(sass_causes_block(causes, 1u << 30), 1u << 30);
	close_stream();
}
