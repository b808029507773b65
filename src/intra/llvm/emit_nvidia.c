/*
 * LLVM IR emitter for NVIDIA GPUs. It uses PTX in inline assembly. The clock is %clock (SASS: CS2R
 * of SR_CLOCKLO). A record is one store of two words by the first lane of the warp. Values for
 * kernel exit are computed again there, so only the address of the ring buffer and the bytes used
 * occupy registers in between.
 */
#include <stdio.h>

#include "base/array.h"
#include "intra/llvm/emit.h"

#define LANES 32u
#define PIECE_BYTES 16u /* bytes that a lane copies at once */
#define HEADER_BYTES ((uint32_t)sizeof(struct instrument_unit_header))

static bool is_global(const struct emit *emit)
{
	return emit->buffer == INSTRUMENT_BUFFER_GLOBAL;
}

/*
 * True if all warps record. Then the lane is not tested: a store by all lanes of a warp to one
 * address is a single store.
 */
static bool all_record(const struct emit *emit)
{
	return !is_global(emit) && emit->layout->unit_count == emit->options->warp_count;
}

static const char *profile_of(const struct emit *emit, char *text, size_t size)
{
	struct slice name = emit->function->last_parameter;

	snprintf(text, size, "%.*s", (int)name.length, name.at);
	return text;
}

/* %proton.PREFIX.unit: the warp's unit; %proton.PREFIX.on0: whether the warp records. */
static void unit(const struct emit *emit, const char *p)
{
	struct out *out = emit->out;

	if (emit->layout->unit_count == emit->options->warp_count)
		out_printf(out,
			   "  %%proton.%s.unit = add i32 %%proton.%s.warp, 0\n"
			   "  %%proton.%s.on0 = or i1 true, true\n",
			   p, p, p);
	else
		out_printf(out,
			   "  %%proton.%s.bit = shl i32 1, %%proton.%s.warp\n"
			   "  %%proton.%s.below = sub i32 %%proton.%s.bit, 1\n"
			   "  %%proton.%s.before = and i32 %%proton.%s.below, %d\n"
			   "  %%proton.%s.unit = call i32 asm \"popc.b32 $0, $1;\", \"=r,r\"(i32 "
			   "%%proton.%s.before)\n"
			   "  %%proton.%s.mine = and i32 %%proton.%s.bit, %d\n"
			   "  %%proton.%s.on0 = icmp ne i32 %%proton.%s.mine, 0\n",
			   p, p, p, p, p, p, (int32_t)emit->warp_mask, p, p, p, p,
			   (int32_t)emit->warp_mask, p, p);
}

/*
 * Reads a special register into `name`. "sideeffect" keeps the compiler from using one read for
 * both kernel entry and exit.
 */
static void special(const struct emit *emit, const char *p, const char *name, const char *reg)
{
	out_printf(emit->out,
		   "  %%proton.%s.%s = call i32 asm sideeffect \"mov.u32 $0, %%%s;\", \"=r\"()\n",
		   p, name, reg);
}

/* %proton.PREFIX.{ns,clock}: global timer and clock. */
static void read_times(const struct emit *emit, const char *p)
{
	out_printf(emit->out,
		   "  %%proton.%s.ns = call i64 asm sideeffect \"mov.u64 $0, %%globaltimer;\", "
		   "\"=l\"()\n"
		   "  %%proton.%s.clock = call i64 asm sideeffect \"mov.u64 $0, %%clock64;\", "
		   "\"=l\"()\n",
		   p, p);
}

/*
 * %proton.PREFIX.{tid,lane,warp,unit,on,at}: thread, whether its warp records, and the offset of
 * its CTA in the buffer. `on` does not depend on the lane.
 */
static void identify(const struct emit *emit, const char *p)
{
	static const char *const registers[][2] = {
		{"tid", "tid.x"},
		{"cx", "ctaid.x"},
		{"cy", "ctaid.y"},
		{"cz", "ctaid.z"},
		{"nx", "nctaid.x"},
		{"ny", "nctaid.y"},
		/*
		 * Read again at kernel exit: otherwise ptxas would keep values derived from it in
		 * registers.
		 */
		{"lane", "laneid"},
	};
	struct out *out = emit->out;
	char profile[80];

	for (size_t i = 0; i < ARRAY_LENGTH(registers); i++)
		special(emit, p, registers[i][0], registers[i][1]);
	out_printf(out,
		   "  %%proton.%s.warp = lshr i32 %%proton.%s.tid, 5\n"
		   "  %%proton.%s.r0 = mul i32 %%proton.%s.cz, %%proton.%s.ny\n"
		   "  %%proton.%s.r1 = add i32 %%proton.%s.r0, %%proton.%s.cy\n"
		   "  %%proton.%s.r2 = mul i32 %%proton.%s.r1, %%proton.%s.nx\n"
		   "  %%proton.%s.cta = add i32 %%proton.%s.r2, %%proton.%s.cx\n",
		   p, p, p, p, p, p, p, p, p, p, p, p, p, p);
	unit(emit, p);
	if (emit->layout->cta_stride > 1)
		out_printf(out,
			   "  %%proton.%s.slot = udiv i32 %%proton.%s.cta, %u\n"
			   "  %%proton.%s.left = urem i32 %%proton.%s.cta, %u\n"
			   "  %%proton.%s.nth = icmp eq i32 %%proton.%s.left, 0\n"
			   "  %%proton.%s.on1 = and i1 %%proton.%s.on0, %%proton.%s.nth\n",
			   p, p, emit->layout->cta_stride, p, p, emit->layout->cta_stride, p, p, p,
			   p, p);
	else
		out_printf(out,
			   "  %%proton.%s.slot = add i32 %%proton.%s.cta, 0\n"
			   "  %%proton.%s.on1 = and i1 %%proton.%s.on0, true\n",
			   p, p, p, p);
	profile_of(emit, profile, sizeof(profile));
	/* The launcher passes no buffer for launches that are not sampled. */
	out_printf(out,
		   "  %%proton.%s.base = ptrtoint ptr addrspace(1) %s to i64\n"
		   "  %%proton.%s.there = icmp ne i64 %%proton.%s.base, 0\n"
		   "  %%proton.%s.on = and i1 %%proton.%s.on1, %%proton.%s.there\n"
		   "  %%proton.%s.at = call i64 asm \"mad.wide.u32 $0, $1, %u, $2;\", "
		   "\"=l,r,l\"(i32 %%proton.%s.slot, i64 %%proton.%s.base)\n",
		   p, profile, p, p, p, p, p, p, emit->layout->cta_bytes, p, p);
}

/* %proton.PREFIX.NAME: address of the unit's `bytes` bytes in global memory. */
static void global_unit(const struct emit *emit, const char *p, const char *name, uint32_t bytes)
{
	out_printf(emit->out,
		   "  %%proton.%s.%s = call i64 asm \"mad.wide.u32 $0, $1, %u, $2;\", "
		   "\"=l,r,l\"(i32 %%proton.%s.unit, i64 %%proton.%s.at)\n",
		   p, name, bytes, p, p);
}

/* %proton.PREFIX.ring: address of the unit in shared memory, 32 bits. */
static void shared_unit(const struct emit *emit, const char *p)
{
	out_printf(emit->out,
		   "  %%proton.%s.s0 = ptrtoint ptr addrspace(3) @global_smem to i32\n"
		   "  %%proton.%s.s1 = mul i32 %%proton.%s.unit, %u\n"
		   "  %%proton.%s.s2 = add i32 %%proton.%s.s0, %u\n"
		   "  %%proton.%s.ring = add i32 %%proton.%s.s2, %%proton.%s.s1\n",
		   p, p, p, emit_shared_bytes(emit), p, p, emit->shared_at, p, p, p);
}

/* Kernel entry with ring buffers in global memory: stores the start times there at once. */
static void entry_global(const struct emit *emit)
{
	read_times(emit, "e");
	identify(emit, "e");
	out_text(emit->out, "  %proton.e.lead = icmp eq i32 %proton.e.lane, 0\n"
			    "  %proton.on = and i1 %proton.e.on, %proton.e.lead\n");
	global_unit(emit, "e", "header", HEADER_BYTES);
	global_unit(emit, "e", "ring", emit_ring_bytes(emit));
	out_text(emit->out,
		 "  call void asm sideeffect \"@$3 st.global.v2.b64 [$0+16], {$1, $2};\", "
		 "\"l,l,l,b,~{memory}\"(i64 %proton.e.header, i64 %proton.e.ns, i64 "
		 "%proton.e.clock, i1 %proton.on)\n");
}

/*
 * Kernel entry with ring buffers in shared memory: the start times stay there until kernel exit,
 * which also computes the offset in the buffer. If the CTA or the launch is not sampled, the unit
 * writes to its ring buffer anyway.
 */
static void entry_shared(const struct emit *emit)
{
	struct out *out = emit->out;

	/* First, because these reads are slow and nothing is moved before them. */
	read_times(emit, "e");
	special(emit, "e", "tid", "tid.x");
	out_text(out, "  %proton.e.warp = lshr i32 %proton.e.tid, 5\n");
	unit(emit, "e");
	shared_unit(emit, "e");
	if (!all_record(emit))
		out_text(out, "  %proton.on = and i1 %proton.e.on0, true\n");
	out_printf(out,
		   "  call void asm sideeffect \"%sst.shared.v2.b64 [$0+16], {$1, $2};\", "
		   "\"r,l,l%s,~{memory}\"(i32 %%proton.e.ring, i64 %%proton.e.ns, i64 "
		   "%%proton.e.clock%s)\n",
		   all_record(emit) ? "" : "@$3 ", all_record(emit) ? "" : ",b",
		   all_record(emit) ? "" : ", i1 %proton.on");
}

static void entry(const struct emit *emit)
{
	if (is_global(emit))
		entry_global(emit);
	else
		entry_shared(emit);
}

static void group(const struct emit *emit, uint32_t block, const char *used)
{
	uint32_t mask = emit->layout->ring_bytes - 1;

	out_printf(emit->out, "  %%proton.m.%u = and i32 %s, %u\n", block, used, mask);
	if (is_global(emit))
		out_printf(emit->out,
			   "  %%proton.z.%u = zext i32 %%proton.m.%u to i64\n"
			   "  %%proton.a.%u = add i64 %%proton.e.ring, %%proton.z.%u\n",
			   block, block, block, block);
	else
		out_printf(emit->out, "  %%proton.a.%u = add i32 %%proton.e.ring, %%proton.m.%u\n",
			   block, block);
}

static void given(const struct emit *emit, uint32_t block)
{
	out_printf(emit->out, "  %%proton.i.%u = add i32 %%proton.given.%u, 0\n", block, block);
}

static void context(const struct emit *emit)
{
	out_printf(emit->out, ", %s %%proton.e.ring", is_global(emit) ? "i64" : "i32");
	if (!all_record(emit))
		out_text(emit->out, ", i1 %proton.on");
}

static void read_clock(const struct emit *emit, const struct ir_marker *marker)
{
	out_printf(emit->out,
		   "  %.*s = call i32 asm sideeffect \"mov.u32 $0, %%clock;\", \"=r\"()\n",
		   (int)marker->result.length, marker->result.at);
}

/* Offset of the ring buffer from %proton.e.ring. */
static uint32_t ring_offset(const struct emit *emit)
{
	return is_global(emit) ? (uint32_t)layout_ring_at(emit->layout, 0)
			       : emit_header_bytes(emit);
}

static void store(const struct emit *emit, struct emit_place place, uint32_t marker,
		  const char *clock, const char *word)
{
	const char *type = is_global(emit) ? "i64" : "i32";
	char address[48];

	bool asks = !all_record(emit);

	(void)marker;
	if (place.block == PLAN_NONE)
		snprintf(address, sizeof(address), "%%proton.e.ring");
	else
		snprintf(address, sizeof(address), "%%proton.a.%u", place.block);
	out_printf(emit->out,
		   "  call void asm sideeffect \"%sst.%s.v2.b32 [$0+%u], {$1, $2};\", "
		   "\"%s,r,r%s\"(%s %s, i32 %s, i32 %s%s)\n",
		   asks ? "@$3 " : "", is_global(emit) ? "global" : "shared",
		   place.offset_bytes + ring_offset(emit), is_global(emit) ? "l" : "r",
		   asks ? ",b" : "", type, address, clock, word, asks ? ", i1 %proton.on" : "");
}

/* Maximum bytes in a warp's ring buffer and slack area. */
static uint32_t max_bytes(const struct emit *emit)
{
	int64_t max = emit->plan->max_bytes;
	uint32_t all = emit_ring_bytes(emit);

	return max >= 0 && max < all ? (uint32_t)max : all;
}

/*
 * Destinations of the copy to global memory. %proton.f.tail is the address for the unit's first
 * byte as if the header were right before the ring buffer; %proton.f.to the address for this lane.
 * The first lanes copy the header, which is elsewhere.
 */
static void copy_places(const struct emit *emit)
{
	uint32_t header = emit_header_bytes(emit);

	out_printf(emit->out,
		   "  %%proton.f.t0 = mul i32 %%proton.f.unit, %u\n"
		   "  %%proton.f.tail = add i32 %%proton.f.t0, %zu\n"
		   "  %%proton.f.head = shl i32 %%proton.f.unit, 6\n"
		   "  %%proton.f.first = icmp ult i32 %%proton.f.near, %u\n"
		   "  %%proton.f.t1 = select i1 %%proton.f.first, i32 %%proton.f.head, i32 "
		   "%%proton.f.tail\n"
		   "  %%proton.f.t2 = add i32 %%proton.f.t1, %%proton.f.near\n"
		   "  %%proton.f.t3 = zext i32 %%proton.f.t2 to i64\n"
		   "  %%proton.f.to = add i64 %%proton.f.at, %%proton.f.t3\n",
		   emit_ring_bytes(emit), layout_ring_at(emit->layout, 0) - header, header);
}

/*
 * Each lane copies 16 bytes from shared to global memory. A loop first copies what is beyond one
 * pass.
 */
static void copy_far(const struct emit *emit)
{
	out_printf(emit->out,
		   "  %%proton.f.far = add i32 %%proton.f.near, %u\n"
		   "  %%proton.f.any = icmp ult i32 %%proton.f.far, %%proton.f.end\n"
		   "  br i1 %%proton.f.any, label %%proton.copy, label %%proton.copied\n\n",
		   LANES * PIECE_BYTES);
	out_printf(emit->out,
		   "proton.copy:\n"
		   "  %%proton.k = phi i32 [ %%proton.f.far, %%proton.out ], "
		   "[ %%proton.k.next, %%proton.copy ]\n"
		   "  call void asm sideeffect \".pragma \\22nounroll\\22;\", \"\"()\n"
		   "  %%proton.k.from = add i32 %%proton.f.ring, %%proton.k\n"
		   "  %%proton.k.at = add i32 %%proton.f.tail, %%proton.k\n"
		   "  %%proton.k.64 = zext i32 %%proton.k.at to i64\n"
		   "  %%proton.k.to = add i64 %%proton.f.at, %%proton.k.64\n"
		   "  call void asm sideeffect \"{ .reg .b64 %%a, %%b; "
		   "ld.shared.v2.b64 {%%a, %%b}, [$0]; st.global.v2.b64 [$1], {%%a, %%b}; }\", "
		   "\"r,l,~{memory}\"(i32 %%proton.k.from, i64 %%proton.k.to)\n"
		   "  %%proton.k.next = add i32 %%proton.k, %u\n"
		   "  %%proton.k.more = icmp ult i32 %%proton.k.next, %%proton.f.end\n"
		   "  br i1 %%proton.k.more, label %%proton.copy, label %%proton.copied\n\n"
		   "proton.copied:\n",
		   LANES * PIECE_BYTES);
}

static void copy_near(const struct emit *emit)
{
	out_text(
		emit->out,
		"  %proton.f.from = add i32 %proton.f.ring, %proton.f.near\n"
		"  %proton.f.inside = icmp ult i32 %proton.f.near, %proton.f.end\n"
		"  call void asm sideeffect \"{ .reg .b64 %a, %b; "
		"@$2 ld.shared.v2.b64 {%a, %b}, [$0]; @$2 st.global.v2.b64 [$1], {%a, %b}; }\", "
		"\"r,l,b,~{memory}\"(i32 %proton.f.from, i64 %proton.f.to, i1 %proton.f.inside)\n");
}

/* Writes the rest of the header at %proton.f.NAME, by all lanes or (`asks`) by the first lane. */
static void header(const struct emit *emit, const char *name, const char *used, bool asks)
{
	const char *space = is_global(emit) ? "global" : "shared";
	const char *letter = is_global(emit) ? "l" : "r";
	const char *type = is_global(emit) ? "i64" : "i32";
	const char *operand = asks ? ", i1 %proton.f.lead" : "";

	out_printf(emit->out,
		   "  call void asm sideeffect \"%sst.%s.v2.b64 [$0+32], {$1, $2};\", "
		   "\"%s,l,l%s,~{memory}\"(%s %%proton.f.%s, i64 %%proton.f.ns, i64 "
		   "%%proton.f.clock%s)\n",
		   asks ? "@$3 " : "", space, letter, asks ? ",b" : "", type, name, operand);
	out_printf(emit->out,
		   "  %%proton.f.sm = call i32 asm \"mov.u32 $0, %%smid;\", \"=r\"()\n"
		   "  %%proton.f.count = lshr i32 %s, 3\n"
		   "  %%proton.f.clock32 = trunc i64 %%proton.f.clock to i32\n"
		   "  %%proton.f.last = call i32 asm sideeffect \"mov.u32 $0, %%clock;\", "
		   "\"=r\"()\n"
		   "  %%proton.f.spent = sub i32 %%proton.f.last, %%proton.f.clock32\n"
		   "  call void asm sideeffect \"%sst.%s.v4.b32 [$0], {$1, $2, $3, $4};\", "
		   "\"%s,r,r,r,r%s,~{memory}\"(%s %%proton.f.%s, i32 %u, i32 %%proton.f.sm, i32 "
		   "%%proton.f.count, i32 %%proton.f.spent%s)\n",
		   used, asks ? "@$5 " : "", space, letter, asks ? ",b" : "", type, name,
		   INSTRUMENT_MAGIC, operand);
}

static void finish_global(const struct emit *emit, const char *used)
{
	out_text(emit->out, "  %proton.f.lead = icmp eq i32 %proton.f.lane, 0\n");
	global_unit(emit, "f", "header", HEADER_BYTES);
	header(emit, "header", used, true);
}

static void finish_shared(const struct emit *emit, const char *used)
{
	uint32_t max = max_bytes(emit);
	uint32_t before = emit_header_bytes(emit);

	shared_unit(emit, "f");
	out_printf(emit->out,
		   "  call void asm sideeffect \"bar.warp.sync 0xffffffff;\", \"~{memory}\"()\n"
		   "  %%proton.f.near = shl i32 %%proton.f.lane, 4\n"
		   "  %%proton.f.less = icmp ult i32 %s, %u\n"
		   "  %%proton.f.bytes = select i1 %%proton.f.less, i32 %s, i32 %u\n"
		   "  %%proton.f.end = add i32 %%proton.f.bytes, %u\n",
		   used, max, used, max, before);
	copy_places(emit);
	if (before + max > LANES * PIECE_BYTES)
		copy_far(emit);
	header(emit, "ring", used, false);
	copy_near(emit);
}

static void finish(const struct emit *emit, const char *used, const char *phi)
{
	out_printf(emit->out, "\nproton.fin:\n%s", phi);
	/* First, because these reads are slow. */
	read_times(emit, "f");
	identify(emit, "f");
	out_text(emit->out, "  br i1 %proton.f.on, label %proton.out, label %proton.done\n\n"
			    "proton.out:\n");
	if (is_global(emit))
		finish_global(emit, used);
	else
		finish_shared(emit, used);
	out_text(emit->out, "  br label %proton.done\n\n"
			    "proton.done:\n"
			    "  ret void\n");
}

static const char *const declarations[] = {NULL};

const struct emit_target emit_nvidia = {
	.entry = entry,
	.group = group,
	.clock = read_clock,
	.store = store,
	.given = given,
	.context = context,
	.finish = finish,
	.declarations = declarations,
};
