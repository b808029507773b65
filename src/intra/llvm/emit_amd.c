/*
 * LLVM IR emitter for AMD GPUs. It uses LLVM intrinsics, because only the compiler knows how a wave
 * is laid out in machine code.
 *
 * - The clock is llvm.readcyclecounter, the global timer llvm.readsteadycounter (100 MHz).
 * - A record is a store of two words by all lanes to one address.
 * - Waves that do not record write to a spare ring buffer after the others, which is never read.
 *   That costs less than a branch at each record. With ring buffers in global memory, every launch
 *   needs a buffer.
 * - The start times stay in scalar registers.
 */
#include <stdio.h>

#include "intra/llvm/emit.h"

/*
 * Operand of s_getreg for all 32 bits of a register. HW_ID is 4; from gfx10 on HW_ID1, which is 23.
 */
#define GETREG(id) ((id) | 31 << 11)
#define GETREG_XCC_ID GETREG(20) /* gfx940 to gfx950: number of the die (XCC) */

static uint32_t log2_of_wave(const struct emit *emit)
{
	return emit->options->threads_per_warp == 64 ? 6 : 5;
}

/* The last two digits are not the generation: "gfx942" is generation 9, "gfx1201" 12. */
static bool is_gfx9(const struct emit *emit)
{
	return strncmp(emit->options->arch, "gfx9", 4) == 0;
}

static bool has_dies(const struct emit *emit)
{
	return is_gfx9(emit) && (emit->options->arch[4] == '4' || emit->options->arch[4] == '5');
}

/* Which unit the wave is, and whether it is sampled. */
static void entry_unit(const struct emit *emit)
{
	EMIT(emit->out,
	     "  %proton.tid = call i32 @llvm.amdgcn.workitem.id.x()\n"
	     "  %proton.w = lshr i32 %proton.tid, <shift>\n"
	     "  %proton.warp = call i32 @llvm.amdgcn.readfirstlane.i32(i32 %proton.w)\n"
	     "  %proton.bit = shl i32 1, %proton.warp\n"
	     "  %proton.below = sub i32 %proton.bit, 1\n"
	     "  %proton.before = and i32 %proton.below, <mask>\n"
	     "  %proton.nth = call i32 @llvm.ctpop.i32(i32 %proton.before)\n"
	     "  %proton.mine = and i32 %proton.bit, <mask>\n"
	     "  %proton.sampled = icmp ne i32 %proton.mine, 0\n",
	     EMIT_NUMBER("shift", log2_of_wave(emit)),
	     EMIT_NUMBER("mask", (int32_t)emit->warp_mask));
}

/* The CTA's offset in the buffer, and the wave's ring buffer in it. */
static void entry_buffer(const struct emit *emit)
{
	/* Blocks of the grid: hidden_block_count_x and _y of the implicit arguments (ABI 5). */
	EMIT(emit->out,
	     "  %proton.hidden = call ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()\n"
	     "  %proton.nx = load i32, ptr addrspace(4) %proton.hidden, align 4\n"
	     "  %proton.hidden.y = getelementptr i8, ptr addrspace(4) %proton.hidden, i64 4\n"
	     "  %proton.ny = load i32, ptr addrspace(4) %proton.hidden.y, align 4\n"
	     "  %proton.cx = call i32 @llvm.amdgcn.workgroup.id.x()\n"
	     "  %proton.cy = call i32 @llvm.amdgcn.workgroup.id.y()\n"
	     "  %proton.cz = call i32 @llvm.amdgcn.workgroup.id.z()\n"
	     "  %proton.r0 = mul i32 %proton.cz, %proton.ny\n"
	     "  %proton.r1 = add i32 %proton.r0, %proton.cy\n"
	     "  %proton.r2 = mul i32 %proton.r1, %proton.nx\n"
	     "  %proton.cta = add i32 %proton.r2, %proton.cx\n"
	     "  %proton.slot = udiv i32 %proton.cta, <stride>\n"
	     "  %proton.left = urem i32 %proton.cta, <stride>\n"
	     "  %proton.turn = icmp eq i32 %proton.left, 0\n"
	     "  %proton.there = icmp ne ptr addrspace(1) <buffer>, null\n"
	     "  %proton.on0 = and i1 %proton.sampled, %proton.turn\n"
	     "  %proton.on = and i1 %proton.on0, %proton.there\n"
	     "  %proton.unit = select i1 %proton.on0, i32 %proton.nth, i32 <spare>\n"
	     "  %proton.skip = mul i32 %proton.unit, <ring>\n"
	     "  %proton.slot64 = zext i32 %proton.slot to i64\n"
	     "  %proton.far = mul i64 %proton.slot64, <cta>\n"
	     "  %proton.at = getelementptr i8, ptr addrspace(1) <buffer>, i64 %proton.far\n"
	     "  %proton.skip64 = zext i32 %proton.skip to i64\n"
	     "  %proton.near = add i64 %proton.skip64, <rings>\n"
	     "  %proton.ring.global = getelementptr i8, ptr addrspace(1) %proton.at, i64 "
	     "%proton.near\n",
	     EMIT_NUMBER("stride", emit->layout->cta_stride),
	     EMIT_SLICE("buffer", emit->function->last_parameter),
	     EMIT_NUMBER("spare", emit_has_spare(emit) ? emit->layout->unit_count : 0),
	     EMIT_NUMBER("ring", emit_ring_bytes(emit)),
	     EMIT_NUMBER("cta", emit->layout->cta_bytes),
	     EMIT_NUMBER("rings", layout_ring_at(emit->layout, 0)));
}

static void entry(const struct emit *emit)
{
	entry_unit(emit);
	entry_buffer(emit);
	if (!emit_is_global(emit))
		EMIT(emit->out,
		     "  %proton.skip.shared = add i32 %proton.skip, <start>\n"
		     "  %proton.ring = getelementptr i8, ptr addrspace(3) @global_smem, i32 "
		     "%proton.skip.shared\n",
		     EMIT_NUMBER("start", emit->shared_at));
	out_text(emit->out, "  %proton.start.time = call i64 @llvm.readsteadycounter()\n"
			    "  %proton.start.clock = call i64 @llvm.readcyclecounter()\n");
}

/* The ring buffer where records are made. */
static const char *ring_of(const struct emit *emit)
{
	return emit_is_global(emit) ? "ptr addrspace(1) %proton.ring.global"
				    : "ptr addrspace(3) %proton.ring";
}

static void group(const struct emit *emit, uint32_t block, const char *used)
{
	EMIT(emit->out,
	     "  %proton.m.<block> = and i32 <used>, <mask>\n"
	     "  %proton.a.<block> = getelementptr i8, <ring>, i32 %proton.m.<block>\n",
	     EMIT_NUMBER("block", block), EMIT_TEXT("used", used),
	     EMIT_NUMBER("mask", emit->layout->ring_bytes - 1), EMIT_TEXT("ring", ring_of(emit)));
}

/* Tells the compiler that the value is uniform, which it cannot know after a call. */
static void given(const struct emit *emit, uint32_t block)
{
	EMIT(emit->out,
	     "  %proton.i.<block> = call i32 @llvm.amdgcn.readfirstlane.i32(i32 "
	     "%proton.given.<block>)\n",
	     EMIT_NUMBER("block", block));
}

static void context(const struct emit *emit)
{
	EMIT(emit->out, ", <ring>", EMIT_TEXT("ring", ring_of(emit)));
}

static void read_clock(const struct emit *emit, const struct ir_marker *marker)
{
	struct slice name = {marker->result.at + 1, marker->result.length - 1};
	const char *barrier = emit->options->mode.sched_barriers
				      ? "  call void @llvm.amdgcn.sched.barrier(i32 0)\n"
				      : "";

	EMIT(emit->out,
	     "<barrier>  %proton.t.<name> = call i64 @llvm.readcyclecounter()\n"
	     "<barrier>  %<name> = trunc i64 %proton.t.<name> to i32\n",
	     EMIT_TEXT("barrier", barrier), EMIT_SLICE("name", name));
}

static void store(const struct emit *emit, struct emit_address address, uint32_t marker,
		  const char *clock, const char *word)
{
	char base[64];

	if (address.block != PLAN_NONE)
		snprintf(base, sizeof(base), "ptr addrspace(%d) %%proton.a.%u",
			 emit_is_global(emit) ? 1 : 3, address.block);
	EMIT(emit->out,
	     "  %proton.p.<marker> = getelementptr i8, <address>, i32 <offset>\n"
	     "  %proton.v.<marker> = insertelement <2 x i32> poison, i32 <clock>, i64 0\n"
	     "  %proton.x.<marker> = insertelement <2 x i32> %proton.v.<marker>, i32 <word>, "
	     "i64 1\n"
	     "  store <2 x i32> %proton.x.<marker>, ptr addrspace(<space>) %proton.p.<marker>, "
	     "align 8\n",
	     EMIT_NUMBER("marker", marker),
	     EMIT_TEXT("address", address.block != PLAN_NONE ? base : ring_of(emit)),
	     EMIT_NUMBER("offset", address.offset_bytes), EMIT_TEXT("clock", clock),
	     EMIT_TEXT("word", word), EMIT_NUMBER("space", emit_is_global(emit) ? 1 : 3));
}

static void copy_ring(const struct emit *emit, const char *used)
{
	EMIT(emit->out,
	     "  %proton.lane = and i32 %proton.tid, <last>\n"
	     "  %proton.first = shl i32 %proton.lane, 3\n"
	     "  %proton.less = icmp ult i32 <used>, <ring>\n"
	     "  %proton.bytes = select i1 %proton.less, i32 <used>, i32 <ring>\n"
	     "  %proton.any = icmp ult i32 %proton.first, %proton.bytes\n"
	     "  br i1 %proton.any, label %proton.copy, label %proton.copied\n\n"
	     "proton.copy:\n"
	     "  %proton.k = phi i32 [ %proton.first, %proton.out ], "
	     "[ %proton.k.next, %proton.copy ]\n"
	     "  %proton.k.from = getelementptr i8, ptr addrspace(3) %proton.ring, i32 %proton.k\n"
	     "  %proton.k.to = getelementptr i8, ptr addrspace(1) %proton.ring.global, i32 "
	     "%proton.k\n"
	     "  %proton.k.value = load <2 x i32>, ptr addrspace(3) %proton.k.from, align 8\n"
	     "  store <2 x i32> %proton.k.value, ptr addrspace(1) %proton.k.to, align 8\n"
	     "  %proton.k.next = add i32 %proton.k, <pass>\n"
	     "  %proton.k.more = icmp ult i32 %proton.k.next, %proton.bytes\n"
	     "  br i1 %proton.k.more, label %proton.copy, label %proton.copied\n\n",
	     EMIT_NUMBER("last", emit->options->threads_per_warp - 1), EMIT_TEXT("used", used),
	     EMIT_NUMBER("ring", emit_ring_bytes(emit)),
	     EMIT_NUMBER("pass", emit->options->threads_per_warp * 8));
}

static void header_word(const struct emit *emit, const char *type, const char *value,
			unsigned offset)
{
	EMIT(emit->out,
	     "  %proton.h.<offset> = getelementptr i8, ptr addrspace(1) %proton.header, "
	     "i64 <offset>\n"
	     "  store <type> <value>, ptr addrspace(1) %proton.h.<offset>, align 4\n",
	     EMIT_NUMBER("offset", offset), EMIT_TEXT("type", type), EMIT_TEXT("value", value));
}

/* Stores the words of all sums, as if they were records. */
static void store_sums(const struct emit *emit)
{
	uint32_t bytes = emit->sums ? sum_plan_bytes(emit->sums) : 0;

	for (uint32_t at = 0; at < bytes; at += INSTRUMENT_RECORD_BYTES) {
		uint32_t number = emit->function->marker_count + at / INSTRUMENT_RECORD_BYTES;

		store(emit, (struct emit_address){PLAN_NONE, at}, number,
		      emit_sum_word(emit, at / 4).text, emit_sum_word(emit, at / 4 + 1).text);
	}
}

static void finish(const struct emit *emit, const char *used)
{
	struct out *out = emit->out;
	char magic[16];

	out_text(out, "  br i1 %proton.on, label %proton.out, label %proton.done\n\n"
		      "proton.out:\n"
		      "  %proton.end.time = call i64 @llvm.readsteadycounter()\n"
		      "  %proton.end.clock = call i64 @llvm.readcyclecounter()\n");
	store_sums(emit);
	if (emit_is_global(emit))
		out_text(out, "  br label %proton.copied\n\n");
	else
		copy_ring(emit, used);
	EMIT(out,
	     "proton.copied:\n"
	     "  %proton.last = call i64 @llvm.readcyclecounter()\n"
	     "  %proton.spent = sub i64 %proton.last, %proton.end.clock\n"
	     "  %proton.spent32 = trunc i64 %proton.spent to i32\n"
	     "  %proton.hw = call i32 @llvm.amdgcn.s.getreg(i32 <hwid>)\n"
	     "  %proton.count = lshr i32 <used>, 3\n"
	     "  %proton.h0 = mul i32 %proton.unit, 64\n"
	     "  %proton.h64 = zext i32 %proton.h0 to i64\n"
	     "  %proton.header = getelementptr i8, ptr addrspace(1) %proton.at, i64 %proton.h64\n",
	     EMIT_NUMBER("hwid", is_gfx9(emit) ? GETREG(4) : GETREG(23)), EMIT_TEXT("used", used));
	if (has_dies(emit)) {
		EMIT(out, "  %proton.die = call i32 @llvm.amdgcn.s.getreg(i32 <xccid>)\n",
		     EMIT_NUMBER("xccid", GETREG_XCC_ID));
		header_word(emit, "i32", "%proton.die", 48);
	}
	header_word(emit, "i32", "%proton.hw", 4);
	header_word(emit, "i64", "%proton.start.time", 16);
	header_word(emit, "i64", "%proton.start.clock", 24);
	header_word(emit, "i64", "%proton.end.time", 32);
	header_word(emit, "i64", "%proton.end.clock", 40);
	header_word(emit, "i32", "%proton.count", 8);
	header_word(emit, "i32", "%proton.spent32", 12);
	snprintf(magic, sizeof(magic), "%u", INSTRUMENT_MAGIC);
	header_word(emit, "i32", magic, 0);
	out_text(out, "  br label %proton.done\n\n"
		      "proton.done:\n"
		      "  ret void\n");
}

static const char *const declarations[] = {
	"declare i32 @llvm.amdgcn.workitem.id.x()",
	"declare i32 @llvm.amdgcn.workgroup.id.x()",
	"declare i32 @llvm.amdgcn.workgroup.id.y()",
	"declare i32 @llvm.amdgcn.workgroup.id.z()",
	"declare i32 @llvm.amdgcn.readfirstlane.i32(i32)",
	"declare ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()",
	"declare i32 @llvm.amdgcn.s.getreg(i32 immarg)",
	"declare void @llvm.amdgcn.sched.barrier(i32 immarg)",
	"declare i64 @llvm.readsteadycounter()",
	"declare i64 @llvm.readcyclecounter()",
	"declare i32 @llvm.ctpop.i32(i32)",
	NULL,
};

const struct emit_target emit_amd = {
	.entry = entry,
	.group = group,
	.clock = read_clock,
	.store = store,
	.given = given,
	.context = context,
	.finish = finish,
	.declarations = declarations,
};
