/*
 * Records on NVIDIA GPUs, through PTX: the clock is %clock (SASS: CS2R of SR_CLOCKLO), a record one
 * store of two words by the first lane of the warp. What the end needs is computed again there, so
 * that only the ring's address and use live in registers meanwhile.
 */
#include <stdio.h>

#include "instrument/llvm_emit.h"

static bool is_global(const struct emit *emit)
{
	return emit->buffer == INSTRUMENT_BUFFER_GLOBAL;
}

/* Nobody asks who records: a store by all lanes of a warp to one address is one store. */
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

/* %proton.PREFIX.unit: which of the units the warp is; %proton.PREFIX.on0: whether it is one. */
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
 * %proton.PREFIX.{tid,lane,warp,unit,slot,on,at}: who this thread is, whether its warp records, and
 * its CTA's place in the buffer. `on` does not ask for the lane.
 */
static void identify(const struct emit *emit, const char *p)
{
	struct out *out = emit->out;
	char profile[80];

	/* "sideeffect" keeps the two places from sharing values across the whole kernel. */
	static const char *const special[][2] = {
		{"tid", "tid.x"},  {"cx", "ctaid.x"},  {"cy", "ctaid.y"},
		{"cz", "ctaid.z"}, {"nx", "nctaid.x"}, {"ny", "nctaid.y"},
	};
	for (size_t i = 0; i < sizeof(special) / sizeof(special[0]); i++)
		out_printf(out,
			   "  %%proton.%s.%s = call i32 asm sideeffect \"mov.u32 $0, %%%s;\", "
			   "\"=r\"()\n",
			   p, special[i][0], special[i][1]);
	out_printf(out,
		   "  %%proton.%s.lane = and i32 %%proton.%s.tid, 31\n"
		   "  %%proton.%s.warp = lshr i32 %%proton.%s.tid, 5\n"
		   "  %%proton.%s.r0 = mul i32 %%proton.%s.cz, %%proton.%s.ny\n"
		   "  %%proton.%s.r1 = add i32 %%proton.%s.r0, %%proton.%s.cy\n"
		   "  %%proton.%s.r2 = mul i32 %%proton.%s.r1, %%proton.%s.nx\n"
		   "  %%proton.%s.cta = add i32 %%proton.%s.r2, %%proton.%s.cx\n",
		   p, p, p, p, p, p, p, p, p, p, p, p, p, p, p, p);
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
		   "  %%proton.%s.slot64 = zext i32 %%proton.%s.slot to i64\n"
		   "  %%proton.%s.skip = mul i64 %%proton.%s.slot64, %u\n"
		   "  %%proton.%s.at = add i64 %%proton.%s.base, %%proton.%s.skip\n"
		   "  %%proton.%s.unit64 = zext i32 %%proton.%s.unit to i64\n"
		   "  %%proton.%s.h = shl i64 %%proton.%s.unit64, 6\n"
		   "  %%proton.%s.header = add i64 %%proton.%s.at, %%proton.%s.h\n",
		   p, profile, p, p, p, p, p, p, p, p, p, emit->layout->cta_bytes, p, p, p, p, p, p,
		   p, p, p, p);
}

/* %proton.PREFIX.ring: the address of the warp's ring in global memory. */
static void global_ring(const struct emit *emit, const char *p)
{
	out_printf(emit->out,
		   "  %%proton.%s.g = mul i64 %%proton.%s.unit64, %u\n"
		   "  %%proton.%s.g0 = add i64 %%proton.%s.at, %zu\n"
		   "  %%proton.%s.ring = add i64 %%proton.%s.g0, %%proton.%s.g\n",
		   p, p, emit_ring_bytes(emit), p, p, layout_ring_at(emit->layout, 0), p, p, p);
}

/*
 * %proton.PREFIX.ring: the same in shared memory, a 32-bit address; %proton.PREFIX.s2: where the
 * start's times are, before all rings.
 */
static void shared_ring(const struct emit *emit, const char *p)
{
	out_printf(emit->out,
		   "  %%proton.%s.s0 = ptrtoint ptr addrspace(3) @global_smem to i32\n"
		   "  %%proton.%s.s1 = mul i32 %%proton.%s.unit, %u\n"
		   "  %%proton.%s.s3 = add i32 %%proton.%s.s0, %u\n"
		   "  %%proton.%s.s2 = add i32 %%proton.%s.s3, %%proton.%s.s1\n"
		   "  %%proton.%s.s = mul i32 %%proton.%s.unit, %u\n"
		   "  %%proton.%s.s4 = add i32 %%proton.%s.s0, %u\n"
		   "  %%proton.%s.ring = add i32 %%proton.%s.s4, %%proton.%s.s\n",
		   p, p, p, EMIT_START_BYTES, p, p, emit->shared_at, p, p, p, p, p,
		   emit_ring_bytes(emit), p, p,
		   emit->shared_at + emit->layout->unit_count * EMIT_START_BYTES, p, p, p);
}

/* The kernel's entry with rings in global memory: the start's times go there at once. */
static void entry_global(const struct emit *emit)
{
	identify(emit, "e");
	global_ring(emit, "e");
	out_text(
		emit->out,
		"  %proton.e.lead = icmp eq i32 %proton.e.lane, 0\n"
		"  %proton.on = and i1 %proton.e.on, %proton.e.lead\n"
		"  %proton.e.ns = call i64 asm sideeffect \"mov.u64 $0, %globaltimer;\", \"=l\"()\n"
		"  %proton.e.clock = call i64 asm sideeffect \"mov.u64 $0, %clock64;\", \"=l\"()\n"
		"  call void asm sideeffect \"@$3 st.global.v2.b64 [$0+16], {$1, $2};\", "
		"\"l,l,l,b,~{memory}\"(i64 %proton.e.header, i64 %proton.e.ns, i64 "
		"%proton.e.clock, i1 %proton.on)\n");
}

/*
 * With rings in shared memory the start's times wait there, and the place in the buffer is nobody's
 * concern before the end. A unit that is not sampled because of its CTA or for want of a buffer
 * writes to its ring all the same.
 */
static void entry_shared(const struct emit *emit)
{
	struct out *out = emit->out;

	out_text(out, "  %proton.e.tid = call i32 asm sideeffect \"mov.u32 $0, %tid.x;\", "
		      "\"=r\"()\n"
		      "  %proton.e.warp = lshr i32 %proton.e.tid, 5\n");
	unit(emit, "e");
	shared_ring(emit, "e");
	if (!all_record(emit))
		out_text(out, "  %proton.on = and i1 %proton.e.on0, true\n");
	out_printf(out,
		   "  %%proton.e.ns = call i64 asm sideeffect \"mov.u64 $0, %%globaltimer;\", "
		   "\"=l\"()\n"
		   "  %%proton.e.clock = call i64 asm sideeffect \"mov.u64 $0, %%clock64;\", "
		   "\"=l\"()\n"
		   "  call void asm sideeffect \"%sst.shared.v2.b64 [$0], {$1, $2};\", "
		   "\"r,l,l%s,~{memory}\"(i32 %%proton.e.s2, i64 %%proton.e.ns, i64 "
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

static void read_clock(const struct emit *emit, const struct llvm_marker *marker)
{
	out_printf(emit->out,
		   "  %.*s = call i32 asm sideeffect \"mov.u32 $0, %%clock;\", \"=r\"()\n",
		   (int)marker->result.length, marker->result.at);
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
		   asks ? "@$3 " : "", is_global(emit) ? "global" : "shared", place.offset_bytes,
		   is_global(emit) ? "l" : "r", asks ? ",b" : "", type, address, clock, word,
		   asks ? ", i1 %proton.on" : "");
}

/* Each lane carries every 32nd record of the ring from shared to global memory. */
static void copy_ring(const struct emit *emit, const char *used)
{
	struct out *out = emit->out;

	shared_ring(emit, "f");
	out_printf(out,
		   "  %%proton.f.g = mul i64 %%proton.f.unit64, %u\n"
		   "  %%proton.f.g0 = add i64 %%proton.f.at, %zu\n"
		   "  %%proton.f.to = add i64 %%proton.f.g0, %%proton.f.g\n"
		   "  %%proton.f.less = icmp ult i32 %s, %u\n"
		   "  %%proton.f.bytes = select i1 %%proton.f.less, i32 %s, i32 %u\n"
		   "  %%proton.f.first = shl i32 %%proton.f.lane, 3\n"
		   "  call void asm sideeffect \"bar.warp.sync 0xffffffff;\", \"~{memory}\"()\n"
		   "  %%proton.f.lead0 = icmp eq i32 %%proton.f.lane, 0\n"
		   "  call void asm sideeffect \"{ .reg .b64 %%a, %%b; "
		   "ld.shared.v2.b64 {%%a, %%b}, [$0]; "
		   "@$2 st.global.v2.b64 [$1+16], {%%a, %%b}; }\", "
		   "\"r,l,b,~{memory}\"(i32 %%proton.f.s2, i64 %%proton.f.header, i1 "
		   "%%proton.f.lead0)\n"
		   "  %%proton.f.any = icmp ult i32 %%proton.f.first, %%proton.f.bytes\n"
		   "  br i1 %%proton.f.any, label %%proton.copy, label %%proton.copied\n\n",
		   emit_ring_bytes(emit), layout_ring_at(emit->layout, 0), used,
		   emit_ring_bytes(emit), used, emit_ring_bytes(emit));
	out_text(out, "proton.copy:\n"
		      "  %proton.k = phi i32 [ %proton.f.first, %proton.out ], "
		      "[ %proton.k.next, %proton.copy ]\n"
		      "  %proton.k.from = add i32 %proton.f.ring, %proton.k\n"
		      "  %proton.k.64 = zext i32 %proton.k to i64\n"
		      "  %proton.k.to = add i64 %proton.f.to, %proton.k.64\n"
		      "  %proton.k.value = call i64 asm sideeffect \"ld.shared.b64 $0, [$1];\", "
		      "\"=l,r,~{memory}\"(i32 %proton.k.from)\n"
		      "  call void asm sideeffect \"st.global.b64 [$0], $1;\", "
		      "\"l,l,~{memory}\"(i64 %proton.k.to, i64 %proton.k.value)\n"
		      "  %proton.k.next = add i32 %proton.k, 256\n"
		      "  %proton.k.more = icmp ult i32 %proton.k.next, %proton.f.bytes\n"
		      "  br i1 %proton.k.more, label %proton.copy, label %proton.copied\n\n");
}

static void finish(const struct emit *emit, const char *used, const char *phi)
{
	struct out *out = emit->out;

	out_printf(out, "\nproton.fin:\n%s", phi);
	identify(emit, "f");
	out_text(
		out,
		"  br i1 %proton.f.on, label %proton.out, label %proton.done\n\n"
		"proton.out:\n"
		"  %proton.f.ns = call i64 asm sideeffect \"mov.u64 $0, %globaltimer;\", \"=l\"()\n"
		"  %proton.f.clock = call i64 asm sideeffect \"mov.u64 $0, %clock64;\", "
		"\"=l\"()\n");
	if (is_global(emit))
		out_text(out, "  br label %proton.copied\n\n");
	else
		copy_ring(emit, used);
	out_printf(
		out,
		"proton.copied:\n"
		"  %%proton.f.last = call i64 asm sideeffect \"mov.u64 $0, %%clock64;\", "
		"\"=l\"()\n"
		"  %%proton.f.spent = sub i64 %%proton.f.last, %%proton.f.clock\n"
		"  %%proton.f.spent32 = trunc i64 %%proton.f.spent to i32\n"
		"  %%proton.f.sm = call i32 asm \"mov.u32 $0, %%smid;\", \"=r\"()\n"
		"  %%proton.f.count = lshr i32 %s, 3\n"
		"  %%proton.f.lead = icmp eq i32 %%proton.f.lane, 0\n"
		"  call void asm sideeffect \"@$3 st.global.v2.b64 [$0+32], {$1, $2};\", "
		"\"l,l,l,b,~{memory}\"(i64 %%proton.f.header, i64 %%proton.f.ns, i64 "
		"%%proton.f.clock, i1 %%proton.f.lead)\n"
		"  call void asm sideeffect \"@$5 st.global.v4.b32 [$0], {$1, $2, $3, $4};\", "
		"\"l,r,r,r,r,b,~{memory}\"(i64 %%proton.f.header, i32 %u, i32 %%proton.f.sm, i32 "
		"%%proton.f.count, i32 %%proton.f.spent32, i1 %%proton.f.lead)\n"
		"  br label %%proton.done\n\n"
		"proton.done:\n"
		"  ret void\n",
		used, INSTRUMENT_MAGIC);
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
