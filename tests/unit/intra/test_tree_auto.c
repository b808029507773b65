/* The default of a tree: records where a few are certain to be all, else sums. */
#include "unit/tap.h"

#include "intra/llvm/llvm_pass.h"

#define NVIDIA "define ptx_kernel void @k(i32 %0, ptr addrspace(1) %1) #0 {\n"
#define MARK(result, kind, name)                                                                   \
	"  " result " = tail call i32 asm sideeffect \"// proton.record " kind " " name            \
	"\", \"=r\"() #1\n"
#define EVENT(result, kind, name)                                                                  \
	"  " result " = tail call i32 asm sideeffect \"// proton.event " kind " " name             \
	"\", \"=r\"() #1\n"
#define END "  ret void\n}\n"

static const char straight[] = NVIDIA MARK("%3", "start", "a") MARK("%4", "end", "a") END;
static const char loop[] = NVIDIA MARK("%3", "start",
				       "a") "  br label %b\n\nb:\n" MARK("%4", "start", "b")
	MARK("%5", "end", "b") "  br i1 true, label %b, label %c\n\nc:\n" MARK("%7", "end", "a")
		END;
static const char looping_event[] = NVIDIA "  br label %b\n\nb:\n" EVENT("%4", "start", "b")
	EVENT("%5", "end", "b") "  br i1 true, label %b, label %c\n\nc:\n" END;
static const char endless[] = NVIDIA "  br label %b\n\nb:\n" MARK("%4", "start", "b")
	MARK("%5", "start", "b") "  br i1 true, label %b, label %c\n\nc:\n" END;

static struct instrument_options options = {
	.arch = "sm_90",
	.warp_count = 4,
	.threads_per_warp = 32,
	.shared_limit = 232448,
	.shared_per_processor = 233472,
	.tree = INSTRUMENT_TREE_AUTO,
};

/* True if the kernel gets sums. */
static bool has_sums(const char *text)
{
	struct instrument_result result;
	struct proton_error err;
	bool is_so;

	CHECK_OK(instrument_llvm(text, strlen(text), &options, &result, &err), err);
	is_so = result.layout.sum_count;
	/* A reason is only given if sums were requested. */
	CHECK_STR(result.records_reason, "");
	CHECK(!is_so || result.layout.slack_bytes == 0);
	CHECK(!is_so || result.holds_all);
	instrument_result_fini(&result);
	return is_so;
}

TEST(a_kernel_keeps_records_if_none_can_be_overwritten)
{
	CHECK(!has_sums(straight));
	CHECK(has_sums(loop));
	options.buffer_bytes = 1 << 20;
	CHECK(has_sums(loop));
	options.tree = INSTRUMENT_TREE_RECORDS;
	CHECK(!has_sums(loop));
	options.tree = INSTRUMENT_TREE_SUMS;
	CHECK(has_sums(straight));
}

TEST(a_kernel_keeps_records_if_it_cannot_have_sums)
{
	struct instrument_result result;
	struct proton_error err;

	CHECK(!has_sums(looping_event));
	CHECK(!has_sums(endless));
	options.tree = INSTRUMENT_TREE_SUMS;
	CHECK_OK(instrument_llvm(looping_event, strlen(looping_event), &options, &result, &err),
		 err);
	CHECK_STR(result.records_reason, "it has async events");
	instrument_result_fini(&result);
}

/* A kernel with `count` executions of a scope, one after the other. */
static char *row_of(uint32_t count)
{
	struct out out;
	char *text;
	size_t length;
	struct proton_error err;

	out_init(&out, -1);
	out_text(&out, NVIDIA);
	for (uint32_t i = 0; i < count; i++) {
		out_printf(&out, MARK("%%s%u", "start", "a"), i);
		out_printf(&out, MARK("%%e%u", "end", "a"), i);
	}
	out_text(&out, END);
	CHECK_OK(out_finish_text(&out, &text, &length, &err), err);
	return text;
}

TEST(many_records_are_more_expensive_than_sums)
{
	char *few = row_of(16);
	char *many = row_of(17);

	CHECK(!has_sums(few));
	CHECK(has_sums(many));
	/* Space for them was requested. */
	options.buffer_bytes = 4 * 512;
	CHECK(!has_sums(many));
	free(few);
	free(many);
}

TEST(records_are_not_kept_in_global_memory_unless_requested)
{
	options.shared_bytes = 232448 - 100;
	CHECK(has_sums(straight));
	options.buffer = INSTRUMENT_BUFFER_GLOBAL;
	CHECK(!has_sums(straight));
	CHECK(has_sums(loop));
}
