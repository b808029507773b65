/* Removing markers before Triton's passes and restoring scopes after them. */
#include "intra/ttgir/provenance.h"
#include "intra/ttgir/ttgir.h"
#include "unit/tap.h"

static struct proton_error err;
static struct ttgir_result result;

#define MARK(word, name)                                                                           \
	"    %0 = tt.elementwise_inline_asm \"// proton." word " " name                            \
	"\" {constraints = \"=r\", packed_element = 1 : i32, pure = false} -> i32\n"
#define START(name) MARK("record start", name)
#define END(name) MARK("record end", name)
/* An operation at source line `at`; an operation without a location. */
#define OP(what, at) "    " what " loc(\"k.py\":" #at ":1)\n"
#define LOST(what) "    " what " loc(\"k.py\":1:0)\n"
#define FUNC(body)                                                                                 \
	"module {\n  tt.func public @k() {\n" body "    tt.return loc(\"k.py\":1:0)\n"             \
	"  } loc(\"k.py\":1:0)\n} loc(\"k.py\":1:0)\n"

#define LOAD_A OP("%a = tt.load %p : tensor<8x!tt.ptr<f16>>", 2)
#define LOAD_B OP("%b = tt.load %q : tensor<8x!tt.ptr<f16>>", 3)
#define DOT OP("%c = tt.dot %a, %b, %d : tensor<8xf16>", 4)
#define ADD OP("%e = arith.addf %c, %c : tensor<8xf32>", 5)
#define STORE OP("tt.store %p, %e : tensor<8x!tt.ptr<f16>>", 6)
#define COPY_A OP("ttg.async_copy_global_to_local %p, %s", 2)
#define COPY_B OP("ttg.async_copy_global_to_local %q, %s", 3)
#define MMA OP("%c = ttng.warp_group_dot %a, %b, %d", 4)
#define INDEX OP("%i = arith.addi %j, %j : i32", 2)

/* Shortens marker lines to "start NAME", "end NAME" or "event start NAME". */
static char *shorten(const char *text)
{
	char *made = malloc(strlen(text) + 1);
	char *to = made;

	while (*text) {
		size_t length = strcspn(text, "\n");
		const char *mark = memmem(text, length, "// proton.", 10);

		if (mark) {
			mark += 10;
			if (strncmp(mark, "record ", 7) == 0)
				mark += 7;
			while (*mark != '"')
				*to++ = *mark++;
		} else {
			memcpy(to, text, length);
			to += length;
		}
		text += length + (text[length] == '\n');
		*to++ = '\n';
	}
	*to = '\0';
	return made;
}

static void relocated(const char *before, const char *after, const char *expected)
{
	char *made;

	CHECK_OK(ttgir_restore_scopes(before, strlen(before), after, strlen(after), &result, &err),
		 err);
	if (!expected) {
		CHECK(!result.text);
		return;
	}
	CHECK(result.text);
	made = shorten(result.text);
	CHECK_STR(made, expected);
	free(made);
	ttgir_result_fini(&result);
}

/* ------------------------------------------------------------------ restoring */

TEST(scopes_follow_moved_operations)
{
	relocated(FUNC(START("load") LOAD_A LOAD_B END("load") START("dot") DOT END("dot") STORE),
		  FUNC(COPY_A COPY_B LOST("ttg.async_wait") MMA STORE),
		  FUNC("start load\n" COPY_A COPY_B
		       "end load\n" LOST("ttg.async_wait") "start dot\n" MMA "end dot\n" STORE));
}

/* clang-format off */
TEST(partitions_get_the_scopes_of_their_operations)
{
#define WARPS "    ttg.warp_specialize(%p) attributes {x = 1}\n    default {\n"
#define SECOND LOST("ttg.warp_yield") "    }\n    partition0(%p: i32) num_warps(4) {\n"
#define WAIT LOST("ttng.wait_barrier %b")
#define LAST LOST("ttg.warp_return") "    } : (i32) -> () loc(\"k.py\":2:1)\n"
	relocated(FUNC(START("load") LOAD_A END("load") START("dot") DOT END("dot")),
		  FUNC(WARPS INDEX COPY_A SECOND INDEX WAIT MMA LAST),
		  FUNC(WARPS INDEX "start load\n" COPY_A "end load\n"
		       SECOND INDEX WAIT "start dot\n" MMA "end dot\n" LAST));
}
/* clang-format on */

TEST(split_scope_is_restored_twice)
{
	relocated(FUNC(START("a") LOAD_A LOAD_B END("a") START("dot") DOT END("dot")),
		  FUNC(COPY_A MMA COPY_B),
		  FUNC("start a\n" COPY_A "end a\n"
		       "start dot\n" MMA "end dot\n"
		       "start a\n" COPY_B "end a\n"));
}

TEST(op_without_location_joins_scope_that_surrounds_it)
{
	relocated(FUNC(START("a") LOAD_A LOAD_B END("a")),
		  FUNC(LOST("ttg.barrier") COPY_A LOST("ttg.barrier") COPY_B LOST("ttg.barrier")),
		  FUNC(LOST("ttg.barrier") "start a\n" COPY_A LOST("ttg.barrier") COPY_B
		       "end a\n" LOST("ttg.barrier")));
	/* A copy belongs to the preceding wait for a free buffer. */
	relocated(FUNC(START("a") LOAD_A END("a")),
		  FUNC(OP("ttng.wait_barrier %b", 2) LOST("ttng.async_tma_copy_global_to_local %p")
			       LOST("ttg.barrier")),
		  FUNC("start a\n" OP("ttng.wait_barrier %b", 2) LOST(
			  "ttng.async_tma_copy_global_to_local %p") "end a\n" LOST("ttg.barrier")));
}

TEST(loops_and_branches)
{
	relocated(FUNC(START("all") "    %x = scf.for %k = %0 to %1 {\n" START("load") LOAD_A END(
			  "load") START("dot") DOT END("dot") "    } loc(\"k.py\":9:1)\n" END("all")
			       START("out") STORE END("out")),
		  FUNC("    %x = scf.for %k = %0 to %1 {\n" COPY_A MMA "    } loc(\"k.py\":9:1)\n"
		       "    scf.if %y {\n" MMA STORE "    } else {\n" STORE
		       "    } loc(\"k.py\":1:0)\n"),
		  FUNC("start all\n"
		       "    %x = scf.for %k = %0 to %1 {\n"
		       "start load\n" COPY_A "end load\n"
		       "start dot\n" MMA "end dot\n"
		       "    } loc(\"k.py\":9:1)\n"
		       "end all\n"
		       "    scf.if %y {\n"
		       "start all\nstart dot\n" MMA "end dot\nend all\n"
		       "start out\n" STORE "end out\n"
		       "    } else {\n"
		       "start out\n" STORE "end out\n"
		       "    } loc(\"k.py\":1:0)\n"));
}

TEST(unknown_regions_count_as_one_operation)
{
#define REDUCE                                                                                     \
	"    %r = \"tt.reduce\"(%a) <{axis = 0 : i32}> ({\n    ^bb0(%x: f32):\n"                   \
	"      tt.reduce.return %x : f32 loc(\"k.py\":7:1)\n"                                      \
	"    }) : (tensor<8xf32>) -> f32 loc(\"k.py\":8:1)\n"
	relocated(FUNC(START("sum") REDUCE END("sum") STORE), FUNC(REDUCE STORE),
		  FUNC("start sum\n" REDUCE "end sum\n" STORE));
}

TEST(view_of_a_load_is_treated_as_the_load)
{
	/*
	 * Triton transposes the block while copying: the copy has the location of the
	 * transposition.
	 */
	relocated(FUNC(START("load") LOAD_B END("load") START("dot")
			       OP("%t = tt.trans %b {order = array<i32: 1, 0>}", 7) DOT END("dot")),
		  FUNC(OP("ttng.async_tma_copy_global_to_local %q", 7) MMA),
		  FUNC("start load\n" OP("ttng.async_tma_copy_global_to_local %q",
					 7) "end load\nstart dot\n" MMA "end dot\n"));
}

TEST(location_in_two_scopes_is_in_their_common_scopes)
{
	relocated(FUNC(START("all") START("a") ADD END("a") START("b") ADD END("b") END("all")),
		  FUNC(ADD), FUNC("start all\n" ADD "end all\n"));
}

TEST(function_inlined_twice_has_two_scopes)
{
#define CALLED(at)                                                                                 \
	"    %v = tt.load %p : tensor<8xf16> loc(callsite(\"h.py\":2:1 at \"k.py\":" #at ":3))\n"
	relocated(FUNC(START("one") CALLED(5) END("one") START("two") CALLED(6) END("two")),
		  FUNC(CALLED(6) CALLED(5)),
		  FUNC("start two\n" CALLED(6) "end two\nstart one\n" CALLED(5) "end one\n"));
}

TEST(scopes_across_blocks_are_not_restored)
{
	const char *before = FUNC(START("half") LOAD_A "    scf.if %x {\n" END("half") LOAD_B
				  "    } loc(\"k.py\":9:1)\n" START("half") DOT END("half")
					  START("whole") STORE END("whole"));

	relocated(before, FUNC(COPY_A MMA STORE),
		  FUNC(COPY_A MMA "start whole\n" STORE "end whole\n"));
	relocated(FUNC(END("a") START("a") LOAD_A), FUNC(COPY_A), NULL);
}

TEST(scopes_may_overlap)
{
	relocated(FUNC(START("a") LOAD_A START("b") LOAD_B END("a") DOT END("b")),
		  FUNC(COPY_A COPY_B MMA),
		  FUNC("start a\n" COPY_A "start b\n" COPY_B "end a\n" MMA "end b\n"));
}

TEST(events_are_restored_like_scopes)
{
	relocated(FUNC(MARK("event start", "e") START("e") LOAD_A END("e")
			       LOAD_B MARK("event end", "e") DOT),
		  FUNC(COPY_A COPY_B MMA),
		  FUNC("event start e\nstart e\n" COPY_A "end e\n" COPY_B "event end e\n" MMA));
	relocated(FUNC(MARK("event start", "e") LOAD_A), FUNC(COPY_A), NULL);
}

/* ------------------------------------------------------------------ removing */

static void taken_out(const char *before, enum ttgir_strip_markers when, const char *expected)
{
	CHECK_OK(ttgir_strip_markers(before, strlen(before), when, &result, &err), err);
	if (expected)
		CHECK_STR(result.text, expected);
	else
		CHECK(!result.text);
	ttgir_result_fini(&result);
}

#define LOOP(body, attributes) "    scf.for %k = %0 to %1 {\n" body "    }" attributes "\n"
#define IF(body) "    scf.if %x {\n" body "    } else {\n" LOAD_B "    }\n"

TEST(markers_are_removed_where_passes_reject_them)
{
	const char *specialized = FUNC(START("a") LOOP(LOAD_A, " {tt.warp_specialize}") END("a"));
	const char *pipelined = FUNC(LOOP(START("a") LOAD_A END("a") DOT, ""));

	taken_out(specialized, TTGIR_FROM_PARTITIONS, FUNC(LOOP(LOAD_A, " {tt.warp_specialize}")));
	taken_out(pipelined, TTGIR_FROM_LOOPS, FUNC(LOOP(LOAD_A DOT, "")));
	taken_out(pipelined, TTGIR_ALWAYS, FUNC(LOOP(LOAD_A DOT, "")));
	taken_out(FUNC(LOOP(IF(START("a") LOAD_A END("a")) DOT, "")), TTGIR_FROM_LOOPS,
		  FUNC(LOOP(IF(LOAD_A) DOT, "")));
	taken_out(FUNC(LOOP(MARK("event start", "e") LOAD_A, " {tt.num_stages = 2 : i32}")),
		  TTGIR_FROM_LOOPS, FUNC(LOOP(LOAD_A, " {tt.num_stages = 2 : i32}")));
}

TEST(markers_stay_where_passes_keep_them)
{
	taken_out(FUNC(LOOP(START("a") LOAD_A END("a") DOT, "")), TTGIR_FROM_PARTITIONS, NULL);
	taken_out(FUNC(START("a") LOOP(LOAD_A DOT, "") END("a")), TTGIR_FROM_LOOPS, NULL);
	taken_out(FUNC(LOOP(START("a") LOOP(LOAD_A DOT, "") END("a"), "")), TTGIR_FROM_LOOPS, NULL);
	taken_out(FUNC(LOOP(START("a") LOAD_A END("a") ADD, "")), TTGIR_FROM_LOOPS, NULL);
	taken_out(FUNC(LOOP(LOAD_A DOT, " {tt.warp_specialize}")), TTGIR_ALWAYS, NULL);
}

TEST(text_that_is_not_mlir_is_rejected)
{
	static const char *const wrong[] = {
		"}\n",
		"module {\n",
		"module {\n} else {\n",
	};
	const char *right = FUNC(START("a") LOAD_A END("a"));

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		CHECK_EQ(ttgir_restore_scopes(right, strlen(right), wrong[i], strlen(wrong[i]),
					      &result, &err),
			 PROTON_E_UNSUPPORTED);
		CHECK(!result.text);
		CHECK_EQ(ttgir_restore_scopes(wrong[i], strlen(wrong[i]), right, strlen(right),
					      &result, &err),
			 PROTON_E_UNSUPPORTED);
	}
	CHECK_EQ(ttgir_strip_markers("}\n", 2, TTGIR_ALWAYS, &result, &err), PROTON_E_UNSUPPORTED);
	CHECK(!result.text);
}

TEST(views_and_control_flow_are_not_work)
{
	static const struct {
		const char *line;
		bool is_work;
	} lines[] = {
		{"%1 = tt.load %p : tensor<8x!tt.ptr<f16>>", true},
		{"%1 = tt.trans %0 : tensor<8x4xf16> -> tensor<4x8xf16>", false},
		{"%1 = tt.reshape %0 : tensor<8xf16> -> tensor<2x4xf16>", false},
		{"ttg.local_dealloc %1 : !ttg.memdesc<8xf16>", false},
		{"%1 = ttg.memdesc_index %0[%i] : !ttg.memdesc<2x8xf16> -> !ttg.memdesc<8xf16>",
		 false},
		{"%1 = ttg.local_alloc : () -> !ttg.memdesc<8xf16>", false},
		{"%1 = ttg.local_alloc %0 : (tensor<8xf16>) -> !ttg.memdesc<8xf16>", true},
		{"%1 = arith.addi %a, %b : i32", false},
		{"%1 = arith.addi %a, %b : tensor<8xi32>", true},
		{"%1 = math.exp %a : f32", false},
		{"%1 = math.exp %a : tensor<8xf32>", true},
		{"rocdl.sched.barrier 0", false},
		{"%1 = rocdl.workitem.id.x : i32", false},
		{"tt.return", false},
		{"scf.yield %1 : i32", false},
		{"tt.reduce.return %1 : f32", false},
		{"%1 = tt.call @f() : () -> i32", true},
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		struct mlir_line line;

		mlir_line_read(slice_of(lines[i].line), &line);
		if (provenance_is_work(&line) != lines[i].is_work)
			FAIL("%s", lines[i].line);
	}
}
