/* Size of ring buffers when the maximum number of records per warp is known. */
#include "unit/tap.h"

#include "intra/llvm/llvm_pass.h"

#define NVIDIA "define ptx_kernel void @k(i32 %0, ptr addrspace(1) %1) #0 {\n"
#define MARK(result, kind, name)                                                                   \
	"  " result " = tail call i32 asm sideeffect \"// proton.record " kind " " name            \
	"\", \"=r\"() #1\n"
#define END "}\n"

/* Bytes of the ring buffer of kernel `text`, and of its slack area in the upper 32 bits. */
static uint64_t ring_of(const char *text, uint32_t buffer_bytes)
{
	struct instrument_options options = {
		.arch = "sm_90",
		.warp_count = 4,
		.threads_per_warp = 32,
		.shared_limit = 232448,
		.shared_per_processor = 233472,
		.buffer_bytes = buffer_bytes,
	};
	struct instrument_result result;
	struct proton_error err;
	uint64_t ring;

	CHECK_OK(instrument_llvm(text, strlen(text), &options, &result, &err), err);
	ring = (uint64_t)result.layout.slack_bytes << 32 | result.layout.ring_bytes;
	instrument_result_fini(&result);
	return ring;
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
