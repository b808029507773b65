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
#define MEMORY ",~{memory}"
#define PIECE_BYTES 16u /* bytes that a lane copies at once */
#define HEADER_BYTES ((uint32_t)sizeof(struct instrument_unit_header))

/*
 * True if all warps record. Then the lane is not tested: a store by all lanes of a warp to one
 * address is a single store.
 */
static bool all_record(const struct emit *emit)
{
	return !emit_is_global(emit) && emit->layout->unit_count == emit->options->warp_count;
}

/* Whether the lane records, if that is to be asked. */
static const char *recording(const struct emit *emit)
{
	return all_record(emit) ? NULL : "%proton.on";
}

/* %proton.PREFIX.unit: the warp's unit; %proton.PREFIX.on0: whether the warp records. */
static void unit(const struct emit *emit, const char *p)
{
	if (emit->layout->unit_count == emit->options->warp_count)
		EMIT(emit->out,
		     "  %proton.<p>.unit = add i32 %proton.<p>.warp, 0\n"
		     "  %proton.<p>.on0 = or i1 true, true\n",
		     EMIT_TEXT("p", p));
	else
		EMIT(emit->out,
		     "  %proton.<p>.bit = shl i32 1, %proton.<p>.warp\n"
		     "  %proton.<p>.below = sub i32 %proton.<p>.bit, 1\n"
		     "  %proton.<p>.before = and i32 %proton.<p>.below, <mask>\n"
		     "  %proton.<p>.unit = call i32 asm \"popc.b32 $0, $1;\", \"=r,r\"(i32 "
		     "%proton.<p>.before)\n"
		     "  %proton.<p>.mine = and i32 %proton.<p>.bit, <mask>\n"
		     "  %proton.<p>.on0 = icmp ne i32 %proton.<p>.mine, 0\n",
		     EMIT_TEXT("p", p), EMIT_NUMBER("mask", (int32_t)emit->warp_mask));
}

/*
 * Reads a special register into `name`. "sideeffect" keeps the compiler from using one read for
 * both kernel entry and exit.
 */
static void special(const struct emit *emit, const char *p, const char *name, const char *source)
{
	EMIT(emit->out,
	     "  %proton.<p>.<name> = call i32 asm sideeffect \"mov.u32 $0, %<source>;\", "
	     "\"=r\"()\n",
	     EMIT_TEXT("p", p), EMIT_TEXT("name", name), EMIT_TEXT("source", source));
}

/* %proton.PREFIX.{ns,clock}: global timer and clock. */
static void read_times(const struct emit *emit, const char *p)
{
	EMIT(emit->out,
	     "  %proton.<p>.ns = call i64 asm sideeffect \"mov.u64 $0, %globaltimer;\", \"=l\"()\n"
	     "  %proton.<p>.clock = call i64 asm sideeffect \"mov.u64 $0, %clock64;\", \"=l\"()\n",
	     EMIT_TEXT("p", p));
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
	for (size_t i = 0; i < ARRAY_LENGTH(registers); i++)
		special(emit, p, registers[i][0], registers[i][1]);
	EMIT(emit->out,
	     "  %proton.<p>.warp = lshr i32 %proton.<p>.tid, 5\n"
	     "  %proton.<p>.r0 = mul i32 %proton.<p>.cz, %proton.<p>.ny\n"
	     "  %proton.<p>.r1 = add i32 %proton.<p>.r0, %proton.<p>.cy\n"
	     "  %proton.<p>.r2 = mul i32 %proton.<p>.r1, %proton.<p>.nx\n"
	     "  %proton.<p>.cta = add i32 %proton.<p>.r2, %proton.<p>.cx\n",
	     EMIT_TEXT("p", p));
	unit(emit, p);
	EMIT(emit->out,
	     emit->layout->cta_stride > 1
		     ? "  %proton.<p>.slot = udiv i32 %proton.<p>.cta, <stride>\n"
		       "  %proton.<p>.left = urem i32 %proton.<p>.cta, <stride>\n"
		       "  %proton.<p>.nth = icmp eq i32 %proton.<p>.left, 0\n"
		       "  %proton.<p>.on1 = and i1 %proton.<p>.on0, %proton.<p>.nth\n"
		     : "  %proton.<p>.slot = add i32 %proton.<p>.cta, 0\n"
		       "  %proton.<p>.on1 = and i1 %proton.<p>.on0, true\n",
	     EMIT_TEXT("p", p), EMIT_NUMBER("stride", emit->layout->cta_stride));
	/* The launcher passes no buffer for launches that are not sampled. */
	EMIT(emit->out,
	     "  %proton.<p>.base = ptrtoint ptr addrspace(1) <buffer> to i64\n"
	     "  %proton.<p>.there = icmp ne i64 %proton.<p>.base, 0\n"
	     "  %proton.<p>.on = and i1 %proton.<p>.on1, %proton.<p>.there\n"
	     "  %proton.<p>.at = call i64 asm \"mad.wide.u32 $0, $1, <bytes>, $2;\", "
	     "\"=l,r,l\"(i32 %proton.<p>.slot, i64 %proton.<p>.base)\n",
	     EMIT_TEXT("p", p), EMIT_SLICE("buffer", emit->function->last_parameter),
	     EMIT_NUMBER("bytes", emit->layout->cta_bytes));
}

/* %proton.PREFIX.NAME: address of the unit's `bytes` bytes in global memory. */
static void global_unit(const struct emit *emit, const char *p, const char *name, uint32_t bytes)
{
	EMIT(emit->out,
	     "  %proton.<p>.<name> = call i64 asm \"mad.wide.u32 $0, $1, <bytes>, $2;\", "
	     "\"=l,r,l\"(i32 %proton.<p>.unit, i64 %proton.<p>.at)\n",
	     EMIT_TEXT("p", p), EMIT_TEXT("name", name), EMIT_NUMBER("bytes", bytes));
}

/*
 * Stores 2 or 4 values from `offset` on, if the i1 `on` is true. `on`: NULL for all lanes;
 * `clobber`: "" or "~{memory}" with a comma.
 */
static void write_store(const struct emit *emit, const char *address, uint32_t offset,
			const char *type, const char *const *values, uint32_t count, const char *on,
			const char *clobber)
{
	struct out *out = emit->out;
	bool is_global = emit_is_global(emit);

	out_text(out, "  call void asm sideeffect \"");
	if (on)
		out_printf(out, "@$%u ", count + 1);
	out_printf(out, "st.%s.v%u.b%s [$0", is_global ? "global" : "shared", count, type + 1);
	if (offset)
		out_printf(out, "+%u", offset);
	out_text(out, count == 2 ? "], {$1, $2};\", \"" : "], {$1, $2, $3, $4};\", \"");
	out_text(out, is_global ? "l" : "r");
	for (uint32_t i = 0; i < count; i++)
		out_text(out, strcmp(type, "i64") == 0 ? ",l" : ",r");
	out_printf(out, "%s%s\"(%s %s", on ? ",b" : "", clobber, is_global ? "i64" : "i32",
		   address);
	for (uint32_t i = 0; i < count; i++)
		out_printf(out, ", %s %s", type, values[i]);
	out_printf(out, "%s%s)\n", on ? ", i1 " : "", on ? on : "");
}

/* %proton.PREFIX.ring: address of the unit in shared memory, 32 bits. */
static void shared_unit(const struct emit *emit, const char *p)
{
	EMIT(emit->out,
	     "  %proton.<p>.s0 = ptrtoint ptr addrspace(3) @global_smem to i32\n"
	     "  %proton.<p>.s1 = mul i32 %proton.<p>.unit, <bytes>\n"
	     "  %proton.<p>.s2 = add i32 %proton.<p>.s0, <start>\n"
	     "  %proton.<p>.ring = add i32 %proton.<p>.s2, %proton.<p>.s1\n",
	     EMIT_TEXT("p", p), EMIT_NUMBER("bytes", emit_shared_bytes(emit)),
	     EMIT_NUMBER("start", emit->shared_at));
}

static const char *const start_times[] = {"%proton.e.ns", "%proton.e.clock"};

/* Kernel entry with ring buffers in global memory: stores the start times there at once. */
static void entry_global(const struct emit *emit)
{
	read_times(emit, "e");
	identify(emit, "e");
	out_text(emit->out, "  %proton.e.lead = icmp eq i32 %proton.e.lane, 0\n"
			    "  %proton.on = and i1 %proton.e.on, %proton.e.lead\n");
	global_unit(emit, "e", "header", HEADER_BYTES);
	global_unit(emit, "e", "ring", emit_ring_bytes(emit));
	write_store(emit, "%proton.e.header", 16, "i64", start_times, 2, "%proton.on", MEMORY);
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
	write_store(emit, "%proton.e.ring", 16, "i64", start_times, 2, recording(emit), MEMORY);
}

static void entry(const struct emit *emit)
{
	if (emit_is_global(emit))
		entry_global(emit);
	else
		entry_shared(emit);
}

static void group(const struct emit *emit, uint32_t block, const char *used)
{
	EMIT(emit->out,
	     emit_is_global(emit)
		     ? "  %proton.m.<block> = and i32 <used>, <mask>\n"
		       "  %proton.z.<block> = zext i32 %proton.m.<block> to i64\n"
		       "  %proton.a.<block> = add i64 %proton.e.ring, %proton.z.<block>\n"
		     : "  %proton.m.<block> = and i32 <used>, <mask>\n"
		       "  %proton.a.<block> = add i32 %proton.e.ring, %proton.m.<block>\n",
	     EMIT_NUMBER("block", block), EMIT_TEXT("used", used),
	     EMIT_NUMBER("mask", emit->layout->ring_bytes - 1));
}

static void given(const struct emit *emit, uint32_t block)
{
	EMIT(emit->out, "  %proton.i.<block> = add i32 %proton.given.<block>, 0\n",
	     EMIT_NUMBER("block", block));
}

static void context(const struct emit *emit)
{
	out_printf(emit->out, ", %s %%proton.e.ring", emit_is_global(emit) ? "i64" : "i32");
	if (!all_record(emit))
		out_text(emit->out, ", i1 %proton.on");
}

static void read_clock(const struct emit *emit, const struct ir_marker *marker)
{
	EMIT(emit->out, "  <result> = call i32 asm sideeffect \"mov.u32 $0, %clock;\", \"=r\"()\n",
	     EMIT_SLICE("result", marker->result));
}

/* Offset of the ring buffer from the address of the unit. */
static uint32_t ring_offset(const struct emit *emit)
{
	return emit_is_global(emit) ? (uint32_t)layout_ring_at(emit->layout, 0)
				    : emit_header_bytes(emit);
}

static void store(const struct emit *emit, struct emit_address address, uint32_t marker,
		  const char *clock, const char *word)
{
	const char *const values[] = {clock, word};
	struct emit_operand base = {"%proton.e.ring"};

	if (address.block != PLAN_NONE)
		snprintf(base.text, sizeof(base.text), "%%proton.a.%u", address.block);
	write_store(emit, base.text, address.offset_bytes + ring_offset(emit), "i32", values, 2,
		    recording(emit), "");
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
static void copy_destinations(const struct emit *emit)
{
	uint32_t header = emit_header_bytes(emit);

	EMIT(emit->out,
	     "  %proton.f.t0 = mul i32 %proton.f.unit, <ring>\n"
	     "  %proton.f.tail = add i32 %proton.f.t0, <rings>\n"
	     "  %proton.f.head = shl i32 %proton.f.unit, 6\n"
	     "  %proton.f.first = icmp ult i32 %proton.f.near, <header>\n"
	     "  %proton.f.t1 = select i1 %proton.f.first, i32 %proton.f.head, i32 "
	     "%proton.f.tail\n"
	     "  %proton.f.t2 = add i32 %proton.f.t1, %proton.f.near\n"
	     "  %proton.f.t3 = zext i32 %proton.f.t2 to i64\n"
	     "  %proton.f.to = add i64 %proton.f.at, %proton.f.t3\n",
	     EMIT_NUMBER("ring", emit_ring_bytes(emit)),
	     EMIT_NUMBER("rings", layout_ring_at(emit->layout, 0) - header),
	     EMIT_NUMBER("header", header));
}

/*
 * Each lane copies 16 bytes from shared to global memory. A loop first copies what is beyond one
 * pass.
 */
static void copy_far(const struct emit *emit)
{
	EMIT(emit->out,
	     "  %proton.f.far = add i32 %proton.f.near, <pass>\n"
	     "  %proton.f.any = icmp ult i32 %proton.f.far, %proton.f.end\n"
	     "  br i1 %proton.f.any, label %proton.copy, label %proton.copied\n\n"
	     "proton.copy:\n"
	     "  %proton.k = phi i32 [ %proton.f.far, %proton.out ], "
	     "[ %proton.k.next, %proton.copy ]\n"
	     "  call void asm sideeffect \".pragma \\22nounroll\\22;\", \"\"()\n"
	     "  %proton.k.from = add i32 %proton.f.ring, %proton.k\n"
	     "  %proton.k.at = add i32 %proton.f.tail, %proton.k\n"
	     "  %proton.k.64 = zext i32 %proton.k.at to i64\n"
	     "  %proton.k.to = add i64 %proton.f.at, %proton.k.64\n"
	     "  call void asm sideeffect \"{ .reg .b64 %a, %b; "
	     "ld.shared.v2.b64 {%a, %b}, [$0]; st.global.v2.b64 [$1], {%a, %b}; }\", "
	     "\"r,l,~{memory}\"(i32 %proton.k.from, i64 %proton.k.to)\n"
	     "  %proton.k.next = add i32 %proton.k, <pass>\n"
	     "  %proton.k.more = icmp ult i32 %proton.k.next, %proton.f.end\n"
	     "  br i1 %proton.k.more, label %proton.copy, label %proton.copied\n\n"
	     "proton.copied:\n",
	     EMIT_NUMBER("pass", LANES * PIECE_BYTES));
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

/* Writes the rest of the header at `address`, by lanes for which `on` is true. */
static void header(const struct emit *emit, const char *address, const char *used, const char *on)
{
	static const char *const times[] = {"%proton.f.ns", "%proton.f.clock"};
	struct emit_operand magic;
	const char *const words[] = {magic.text, "%proton.f.sm", "%proton.f.count",
				     "%proton.f.spent"};

	write_store(emit, address, 32, "i64", times, 2, on, MEMORY);
	EMIT(emit->out,
	     "  %proton.f.sm = call i32 asm \"mov.u32 $0, %smid;\", \"=r\"()\n"
	     "  %proton.f.count = lshr i32 <used>, 3\n"
	     "  %proton.f.clock32 = trunc i64 %proton.f.clock to i32\n"
	     "  %proton.f.last = call i32 asm sideeffect \"mov.u32 $0, %clock;\", \"=r\"()\n"
	     "  %proton.f.spent = sub i32 %proton.f.last, %proton.f.clock32\n",
	     EMIT_TEXT("used", used));
	snprintf(magic.text, sizeof(magic.text), "%u", INSTRUMENT_MAGIC);
	write_store(emit, address, 0, "i32", words, 4, on, MEMORY);
}

/* Stores the words of all sums, four at once. */
static void store_sums(const struct emit *emit, const char *on)
{
	uint32_t bytes = emit->sums ? sum_plan_bytes(emit->sums) : 0;

	for (uint32_t at = 0; at < bytes; at += 16) {
		struct emit_operand words[4];
		const char *const texts[] = {words[0].text, words[1].text, words[2].text,
					     words[3].text};

		for (uint32_t i = 0; i < 4; i++)
			words[i] = emit_sum_word(emit, at / 4 + i);
		write_store(emit, "%proton.f.ring", at + ring_offset(emit), "i32", texts, 4, on,
			    MEMORY);
	}
}

static void finish_global(const struct emit *emit, const char *used)
{
	out_text(emit->out, "  %proton.f.lead = icmp eq i32 %proton.f.lane, 0\n");
	if (emit->sums)
		global_unit(emit, "f", "ring", emit_ring_bytes(emit));
	store_sums(emit, "%proton.f.lead");
	global_unit(emit, "f", "header", HEADER_BYTES);
	header(emit, "%proton.f.header", used, "%proton.f.lead");
}

static void finish_shared(const struct emit *emit, const char *used)
{
	uint32_t max = max_bytes(emit);
	uint32_t before = emit_header_bytes(emit);

	shared_unit(emit, "f");
	store_sums(emit, NULL);
	EMIT(emit->out,
	     "  call void asm sideeffect \"bar.warp.sync 0xffffffff;\", \"~{memory}\"()\n"
	     "  %proton.f.near = shl i32 %proton.f.lane, 4\n"
	     "  %proton.f.less = icmp ult i32 <used>, <max>\n"
	     "  %proton.f.bytes = select i1 %proton.f.less, i32 <used>, i32 <max>\n"
	     "  %proton.f.end = add i32 %proton.f.bytes, <before>\n",
	     EMIT_TEXT("used", used), EMIT_NUMBER("max", max), EMIT_NUMBER("before", before));
	copy_destinations(emit);
	if (before + max > LANES * PIECE_BYTES)
		copy_far(emit);
	header(emit, "%proton.f.ring", used, NULL);
	copy_near(emit);
}

static void finish(const struct emit *emit, const char *used)
{
	/* First, because these reads are slow. */
	read_times(emit, "f");
	identify(emit, "f");
	out_text(emit->out, "  br i1 %proton.f.on, label %proton.out, label %proton.done\n\n"
			    "proton.out:\n");
	if (emit_is_global(emit))
		finish_global(emit, used);
	else
		finish_shared(emit, used);
	out_text(emit->out, "  br label %proton.done\n\n"
			    "proton.done:\n"
			    "  ret void\n");
}

const struct emit_target emit_nvidia = {
	.entry = entry,
	.group = group,
	.clock = read_clock,
	.store = store,
	.given = given,
	.context = context,
	.finish = finish,
};
