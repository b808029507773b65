/* Size of ring buffers when the maximum number of records per warp is known. */
#include "unit/tap.h"

#include "intra/llvm/llvm_pass.h"

#define NVIDIA "define ptx_kernel void @k(i32 %0, ptr addrspace(1) %1) #0 {\n"
#define MARK(result, kind, name)                                                                   \
	"  " result " = tail call i32 asm sideeffect \"// proton.record " kind " " name            \
	"\", \"=r\"() #1\n"
#define END "}\n"

/* Bytes of the ring buffer of `text`, which has `shared_bytes`; upper 32 bits: its slack area. */
static uint64_t ring_next_to(const char *text, uint32_t buffer_bytes, uint32_t shared_bytes)
{
	struct instrument_options options = {
		.arch = "sm_90",
		.warp_count = 4,
		.threads_per_warp = 32,
		.shared_bytes = shared_bytes,
		.shared_limit = 232448,
		.shared_per_processor = 233472,
		.mode.buffer_bytes = buffer_bytes,
	};
	struct instrument_result result;

	CHECK_DONE(instrument_llvm(text, strlen(text), &options, &result, &err));
	uint64_t ring = (uint64_t)result.layout.slack_bytes << 32 | result.layout.ring_bytes;
	instrument_result_fini(&result);
	return ring;
}

static uint64_t ring_of(const char *text, uint32_t buffer_bytes)
{
	return ring_next_to(text, buffer_bytes, 0);
}

TEST(ring_buffer_fits_the_longest_path_without_records_in_loops)
{
	/* 1 record, then none or 3, then 1. */
	static const char branches[] =
		NVIDIA MARK("%3", "start", "a") "  br i1 true, label %b, label %c\n\nb:\n" MARK(
			"%4", "start", "b") MARK("%5", "start", "b")
			MARK("%6", "start",
			     "b") "  br label %c\n\nc:\n" MARK("%7", "end", "a") "  ret void\n" END;
	/* The same with a loop without records between them. */
	static const char idle_loop[] = NVIDIA MARK(
		"%3", "start", "a") "  br i1 true, label %b, label %c\n\nb:\n  br label %d\n\nd:\n"
				    "  br i1 true, label %b, label %c\n\nc:\n" MARK(
					    "%7", "end", "a") "  ret void\n" END;
	/* A path that ends in a trap counts too; unreachable code does not. */
	static const char dead[] =
		NVIDIA MARK("%3", "start", "a") "  ret void\n\nb:\n" MARK("%4", "start", "b")
			MARK("%5", "start", "b") "  br label %b\n" END;
	static const char own_loop[] = NVIDIA "  br label %b\n\nb:\n" MARK("%4", "start", "b")
		MARK("%5", "start", "b") "  br i1 true, label %b, label %c\n\nc:\n  ret void\n" END;

	CHECK_EQ(ring_of(branches, 0), 64);
	CHECK_EQ(ring_of(branches, 4096), 64);
	CHECK_EQ(ring_of(branches, 4 * 32), 2ull << 35 | 32); /* may be overwritten */
	CHECK_EQ(ring_of(idle_loop, 0), 16);
	CHECK_EQ(ring_of(dead, 0), 16);
	CHECK_EQ(ring_of(own_loop, 0), 2ull << 35 | 2048);
}

#define RING_VARIES (2ull << 35 | 2048) /* as for any other loop */

/* One record per iteration; `definitions` of %i, %n and %c, and the two labels of the branch. */
#define LOOP(definitions, first, second)                                                           \
	NVIDIA "  br label %b\n\nb:\n" definitions MARK("%4", "start", "b")                        \
		MARK("%5", "start", "b") "  br i1 %c, label %" first ", label %" second            \
					 ", !dbg !3\n\nc:\n  ret void\n" END
#define PHI(type, start) "  %i = phi " type " [ " start ", %2 ], [ %n, %b ]\n"
#define ADD(type, step) "  %n = add " type " %i, " step ", !dbg !4\n"

static void check_loop(const char *text, uint64_t ring)
{
	uint64_t got = ring_of(text, 0);

	if (got != ring)
		FAIL("a ring buffer of %llu bytes, not of %llu, for:\n%s", (unsigned long long)got,
		     (unsigned long long)ring, text);
}

TEST(ring_buffer_fits_loops_with_constant_bounds)
{
	/* 8 iterations with 2 records of 8 bytes. */
	check_loop(LOOP(PHI("i64", "0") ADD("nuw nsw i64", "1024") "  %c = icmp samesign ult i64 "
								   "%i, 7168, !dbg !4\n",
			"b", "c"),
		   128);
	check_loop(LOOP(PHI("i32", "0") ADD("i32", "1") "  %c = icmp eq i32 %n, 8\n", "c", "b"),
		   128);
	check_loop(LOOP(PHI("i32", "0") ADD("i32", "1") "  %c = icmp ne i32 %n, 8\n", "b", "c"),
		   128);
	check_loop(LOOP(PHI("i32", "0") ADD("i32", "1") "  %c = icmp ne i32 %n, 9\n", "b", "c"),
		   256);
	check_loop(LOOP(PHI("i32", "7") ADD("i32", "-1") "  %c = icmp sgt i32 %n, -1\n", "b", "c"),
		   128);
	check_loop(LOOP(PHI("i8", "-8") ADD("i8", "1") "  %c = icmp slt i8 %i, -1\n", "b", "c"),
		   128);
	/* Unsigned, -8 is 248, so the loop ends at once. */
	check_loop(LOOP(PHI("i8", "-8") ADD("i8", "1") "  %c = icmp ult i8 %i, 8\n", "b", "c"), 16);
	check_loop(LOOP(PHI("i8", "120") ADD("i8", "1") "  %c = icmp sgt i8 %n, 0\n", "b", "c"),
		   128);
	/* The ring buffer is not larger than for an unknown number of records. */
	check_loop(LOOP(PHI("i32", "0") ADD("i32", "1") "  %c = icmp ne i32 %n, 999\n", "b", "c"),
		   RING_VARIES);
}

TEST(loops_with_unknown_bounds_may_overwrite_records)
{
	static const char *const unknown[] = {
		/* a variable limit, start or step */
		LOOP(PHI("i32", "0") ADD("i32", "1") "  %c = icmp ne i32 %n, %0\n", "b", "c"),
		LOOP(PHI("i32", "%0") ADD("i32", "1") "  %c = icmp ult i32 %n, 8\n", "b", "c"),
		LOOP(PHI("i32", "0") ADD("i32", "%0") "  %c = icmp ne i32 %n, 8\n", "b", "c"),
		/* it does not end */
		LOOP(PHI("i32", "0") ADD("i32", "0") "  %c = icmp ne i32 %n, 8\n", "b", "c"),
		LOOP(PHI("i32", "0") ADD("i32", "2") "  %c = icmp ne i32 %n, 9\n", "b", "c"),
		LOOP(PHI("i32", "0") ADD("i32", "1") "  %c = icmp ne i32 %n, 8\n", "b", "b"),
		/* another step, predicate or type */
		LOOP(PHI("i32", "1") "  %n = mul i32 %i, 2\n  %c = icmp ne i32 %n, 8\n", "b", "c"),
		LOOP(PHI("i32", "0") ADD("i32", "1") "  %c = icmp new i32 %n, 8\n", "b", "c"),
		LOOP(PHI("ptr", "0") ADD("ptr", "1") "  %c = icmp ne ptr %n, 8\n", "b", "c"),
		LOOP(PHI("i32", "0") ADD("i32", "1") "  %c = fcmp one float 1.0, 2.0\n", "b", "c"),
		/* a limit that does not fit, and one that is not only a number */
		LOOP(PHI("i64", "0") ADD("i64", "1") "  %c = icmp ne i64 %n, 99999999999\n", "b",
		     "c"),
		LOOP(PHI("i32", "0") ADD("i32", "1") "  %c = icmp ne i32 %n, 8x\n", "b", "c"),
		/* the counter of another loop */
		LOOP("  %i = phi i32 [ 0, %2 ], [ %0, %b ]\n" ADD("i32", "1") "  %c = icmp ne i32 "
									      "%n, 8\n",
		     "b", "c"),
		LOOP("", "b", "c"),
	};

	for (size_t i = 0; i < sizeof(unknown) / sizeof(*unknown); i++)
		check_loop(unknown[i], RING_VARIES);
}

/* Blocks from b on; d leads back to b. */
#define BLOCKS(in_c, end_of_d)                                                                     \
	NVIDIA "  br label %b\n\nb:\n"                                                             \
	       "  %i = phi i32 [ 0, %2 ], [ %n, %d ]\n"                                            \
	       "  br i1 true, label %c, label %d\n\nc:\n" in_c "  br label %d\n\nd:\n" MARK(       \
		       "%6", "start",                                                              \
		       "d") "  %n = add i32 %i, 1\n  %c = icmp ne i32 %n, 4\n" end_of_d            \
			    "\ne:\n  ret void\n" END

TEST(ring_buffer_fits_loops_of_several_blocks)
{
	/* 4 iterations with at most 2 records. */
	check_loop(BLOCKS(MARK("%5", "start", "c"), "  br i1 %c, label %b, label %e\n"), 64);
	/* A path around the condition, and a loop within the loop. */
	check_loop(BLOCKS(MARK("%5", "start", "c") "  br i1 true, label %b, label %x\n\nx:\n",
			  "  br i1 %c, label %b, label %e\n"),
		   2048);
	check_loop(BLOCKS(MARK("%5", "start", "c") "  br i1 true, label %c, label %x\n\nx:\n",
			  "  br i1 %c, label %b, label %e\n"),
		   2048);
}

/* The loop runs 4 times; in it, the callee records once for each of its 3 iterations. */
TEST(loops_of_callees_are_counted_too)
{
	static const char text[] = NVIDIA
		"  br label %b\n\nb:\n"
		"  %i = phi i32 [ 0, %2 ], [ %n, %b ]\n"
		"  %n = add i32 %i, 1\n"
		"  %c = icmp ne i32 %n, 4\n"
		"  call void @f()\n"
		"  br i1 %c, label %b, label %d\n\nd:\n  ret void\n" END
		"define internal void @f() #2 {\n  br label %b\n\nb:\n"
		"  %i = phi i32 [ 0, %0 ], [ %n, %b ]\n" MARK(
			"%2", "start",
			"f") "  %n = add i32 %i, 1\n"
			     "  %c = icmp ne i32 %n, 3\n"
			     "  br i1 %c, label %b, label %d\n\nd:\n  ret void\n" END;

	check_loop(text, 128);
}

TEST(ring_buffer_without_space_for_all_records_has_a_slack_area)
{
	/* 50 iterations with 2 records. */
	static const char text[] =
		LOOP(PHI("i32", "0") ADD("i32", "1") "  %c = icmp ne i32 %n, 50\n", "b", "c");

	CHECK_EQ(ring_next_to(text, 0, 0), 1024);
	/* Next to a kernel with four CTAs, each warp has 768 bytes. */
	CHECK_EQ(ring_next_to(text, 0, 54272), 2ull << 35 | 512);
	/* None is left: records are in global memory, all of them. */
	CHECK_EQ(ring_next_to(text, 0, 57344), 1024);
}
