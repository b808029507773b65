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
#include <string.h>

#include "intra/llvm/emit.h"

/*
 * Operand of s_getreg for all 32 bits of a register. HW_ID is 4; from gfx10 on HW_ID1, which is 23.
 */
#define GETREG(id) ((id) | 31 << 11)
#define GETREG_XCC_ID GETREG(20) /* gfx940 to gfx950: number of the die (XCC) */

static bool is_global(const struct emit *emit)
{
	return emit->buffer == INSTRUMENT_BUFFER_GLOBAL;
}

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

static void entry(const struct emit *emit)
{
	struct out *out = emit->out;
	struct slice profile = emit->function->last_parameter;

	out_printf(out,
		   "  %%proton.tid = call i32 @llvm.amdgcn.workitem.id.x()\n"
		   "  %%proton.w = lshr i32 %%proton.tid, %u\n"
		   "  %%proton.warp = call i32 @llvm.amdgcn.readfirstlane.i32(i32 %%proton.w)\n"
		   "  %%proton.bit = shl i32 1, %%proton.warp\n"
		   "  %%proton.below = sub i32 %%proton.bit, 1\n"
		   "  %%proton.before = and i32 %%proton.below, %d\n"
		   "  %%proton.nth = call i32 @llvm.ctpop.i32(i32 %%proton.before)\n"
		   "  %%proton.mine = and i32 %%proton.bit, %d\n"
		   "  %%proton.sampled = icmp ne i32 %%proton.mine, 0\n",
		   log2_of_wave(emit), (int32_t)emit->warp_mask, (int32_t)emit->warp_mask);
	/* Blocks of the grid: hidden_block_count_x and _y of the implicit arguments (ABI 5). */
	out_printf(
		out,
		"  %%proton.hidden = call ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()\n"
		"  %%proton.nx = load i32, ptr addrspace(4) %%proton.hidden, align 4\n"
		"  %%proton.hidden.y = getelementptr i8, ptr addrspace(4) %%proton.hidden, i64 4\n"
		"  %%proton.ny = load i32, ptr addrspace(4) %%proton.hidden.y, align 4\n"
		"  %%proton.cx = call i32 @llvm.amdgcn.workgroup.id.x()\n"
		"  %%proton.cy = call i32 @llvm.amdgcn.workgroup.id.y()\n"
		"  %%proton.cz = call i32 @llvm.amdgcn.workgroup.id.z()\n"
		"  %%proton.r0 = mul i32 %%proton.cz, %%proton.ny\n"
		"  %%proton.r1 = add i32 %%proton.r0, %%proton.cy\n"
		"  %%proton.r2 = mul i32 %%proton.r1, %%proton.nx\n"
		"  %%proton.cta = add i32 %%proton.r2, %%proton.cx\n"
		"  %%proton.slot = udiv i32 %%proton.cta, %u\n"
		"  %%proton.left = urem i32 %%proton.cta, %u\n"
		"  %%proton.turn = icmp eq i32 %%proton.left, 0\n"
		"  %%proton.there = icmp ne ptr addrspace(1) %.*s, null\n"
		"  %%proton.on0 = and i1 %%proton.sampled, %%proton.turn\n"
		"  %%proton.on = and i1 %%proton.on0, %%proton.there\n"
		"  %%proton.unit = select i1 %%proton.on0, i32 %%proton.nth, i32 %u\n"
		"  %%proton.skip = mul i32 %%proton.unit, %u\n"
		"  %%proton.slot64 = zext i32 %%proton.slot to i64\n"
		"  %%proton.far = mul i64 %%proton.slot64, %u\n"
		"  %%proton.at = getelementptr i8, ptr addrspace(1) %.*s, i64 %%proton.far\n"
		"  %%proton.skip64 = zext i32 %%proton.skip to i64\n"
		"  %%proton.near = add i64 %%proton.skip64, %zu\n"
		"  %%proton.ring.global = getelementptr i8, ptr addrspace(1) %%proton.at, i64 "
		"%%proton.near\n",
		emit->layout->cta_stride, emit->layout->cta_stride, (int)profile.length, profile.at,
		emit_has_spare(emit) ? emit->layout->unit_count : 0, emit_ring_bytes(emit),
		emit->layout->cta_bytes, (int)profile.length, profile.at,
		layout_ring_at(emit->layout, 0));
	if (!is_global(emit))
		out_printf(out,
			   "  %%proton.skip.shared = add i32 %%proton.skip, %u\n"
			   "  %%proton.ring = getelementptr i8, ptr addrspace(3) @global_smem, i32 "
			   "%%proton.skip.shared\n",
			   emit->shared_at);
	out_text(out, "  %proton.start.time = call i64 @llvm.readsteadycounter()\n"
		      "  %proton.start.clock = call i64 @llvm.readcyclecounter()\n");
}

static void group(const struct emit *emit, uint32_t block, const char *used)
{
	out_printf(emit->out,
		   "  %%proton.m.%u = and i32 %s, %u\n"
		   "  %%proton.a.%u = getelementptr i8, ptr addrspace(%d) %s, i32 %%proton.m.%u\n",
		   block, used, emit->layout->ring_bytes - 1, block, is_global(emit) ? 1 : 3,
		   is_global(emit) ? "%proton.ring.global" : "%proton.ring", block);
}

/* Tells the compiler that the value is uniform, which it cannot know after a call. */
static void given(const struct emit *emit, uint32_t block)
{
	out_printf(emit->out,
		   "  %%proton.i.%u = call i32 @llvm.amdgcn.readfirstlane.i32(i32 "
		   "%%proton.given.%u)\n",
		   block, block);
}

static void context(const struct emit *emit)
{
	out_text(emit->out, is_global(emit) ? ", ptr addrspace(1) %proton.ring.global"
					    : ", ptr addrspace(3) %proton.ring");
}

static void read_clock(const struct emit *emit, const struct ir_marker *marker)
{
	const char *barrier = emit->options->sched_barriers
				      ? "  call void @llvm.amdgcn.sched.barrier(i32 0)\n"
				      : "";

	out_printf(emit->out,
		   "%s  %%proton.t.%.*s = call i64 @llvm.readcyclecounter()\n%s"
		   "  %.*s = trunc i64 %%proton.t.%.*s to i32\n",
		   barrier, (int)marker->result.length - 1, marker->result.at + 1, barrier,
		   (int)marker->result.length, marker->result.at, (int)marker->result.length - 1,
		   marker->result.at + 1);
}

static void store(const struct emit *emit, struct emit_place place, uint32_t marker,
		  const char *clock, const char *word)
{
	int space = is_global(emit) ? 1 : 3;
	char address[48];

	if (place.block != PLAN_NONE)
		snprintf(address, sizeof(address), "%%proton.a.%u", place.block);
	else
		snprintf(address, sizeof(address), "%%proton.ring%s",
			 is_global(emit) ? ".global" : "");
	out_printf(emit->out,
		   "  %%proton.p.%u = getelementptr i8, ptr addrspace(%d) %s, i32 %u\n"
		   "  %%proton.v.%u = insertelement <2 x i32> poison, i32 %s, i64 0\n"
		   "  %%proton.x.%u = insertelement <2 x i32> %%proton.v.%u, i32 %s, i64 1\n",
		   marker, space, address, place.offset_bytes, marker, clock, marker, marker, word);
	out_printf(emit->out,
		   "  store <2 x i32> %%proton.x.%u, ptr addrspace(%d) %%proton.p.%u, align 8\n",
		   marker, space, marker);
}

static void copy_ring(const struct emit *emit, const char *used)
{
	struct out *out = emit->out;

	out_printf(
		out,
		"  %%proton.lane = and i32 %%proton.tid, %u\n"
		"  %%proton.first = shl i32 %%proton.lane, 3\n"
		"  %%proton.less = icmp ult i32 %s, %u\n"
		"  %%proton.bytes = select i1 %%proton.less, i32 %s, i32 %u\n"
		"  %%proton.any = icmp ult i32 %%proton.first, %%proton.bytes\n"
		"  br i1 %%proton.any, label %%proton.copy, label %%proton.copied\n\n"
		"proton.copy:\n"
		"  %%proton.k = phi i32 [ %%proton.first, %%proton.out ], "
		"[ %%proton.k.next, %%proton.copy ]\n"
		"  %%proton.k.from = getelementptr i8, ptr addrspace(3) %%proton.ring, i32 "
		"%%proton.k\n"
		"  %%proton.k.to = getelementptr i8, ptr addrspace(1) %%proton.ring.global, i32 "
		"%%proton.k\n"
		"  %%proton.k.value = load <2 x i32>, ptr addrspace(3) %%proton.k.from, align 8\n"
		"  store <2 x i32> %%proton.k.value, ptr addrspace(1) %%proton.k.to, align 8\n"
		"  %%proton.k.next = add i32 %%proton.k, %u\n"
		"  %%proton.k.more = icmp ult i32 %%proton.k.next, %%proton.bytes\n"
		"  br i1 %%proton.k.more, label %%proton.copy, label %%proton.copied\n\n",
		emit->options->threads_per_warp - 1, used, emit_ring_bytes(emit), used,
		emit_ring_bytes(emit), emit->options->threads_per_warp * 8);
}

/* Writes one word of the unit's header. */
static void header_word(const struct emit *emit, const char *type, const char *value,
			unsigned offset)
{
	out_printf(emit->out,
		   "  %%proton.h.%u = getelementptr i8, ptr addrspace(1) %%proton.header, i64 %u\n"
		   "  store %s %s, ptr addrspace(1) %%proton.h.%u, align 4\n",
		   offset, offset, type, value, offset);
}

static void finish(const struct emit *emit, const char *used, const char *phi)
{
	struct out *out = emit->out;
	char magic[16];

	out_printf(out,
		   "\nproton.fin:\n%s"
		   "  br i1 %%proton.on, label %%proton.out, label %%proton.done\n\n"
		   "proton.out:\n"
		   "  %%proton.end.time = call i64 @llvm.readsteadycounter()\n"
		   "  %%proton.end.clock = call i64 @llvm.readcyclecounter()\n",
		   phi);
	if (is_global(emit))
		out_text(out, "  br label %proton.copied\n\n");
	else
		copy_ring(emit, used);
	out_printf(out,
		   "proton.copied:\n"
		   "  %%proton.last = call i64 @llvm.readcyclecounter()\n"
		   "  %%proton.spent = sub i64 %%proton.last, %%proton.end.clock\n"
		   "  %%proton.spent32 = trunc i64 %%proton.spent to i32\n"
		   "  %%proton.hw = call i32 @llvm.amdgcn.s.getreg(i32 %d)\n"
		   "  %%proton.count = lshr i32 %s, 3\n"
		   "  %%proton.h0 = mul i32 %%proton.unit, 64\n"
		   "  %%proton.h64 = zext i32 %%proton.h0 to i64\n"
		   "  %%proton.header = getelementptr i8, ptr addrspace(1) %%proton.at, i64 "
		   "%%proton.h64\n",
		   is_gfx9(emit) ? GETREG(4) : GETREG(23), used);
	if (has_dies(emit)) {
		out_printf(out, "  %%proton.die = call i32 @llvm.amdgcn.s.getreg(i32 %d)\n",
			   GETREG_XCC_ID);
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
