/* Fuzz target for the record decoder and the warp analysis: any readable layout with any bytes. */
#include <stdlib.h>

#include "intra/decode/decoder.h"
#include "intra/warps/segments.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

/* Invariants that every consumer relies on. */
static void check(const struct decoder *decoder)
{
	uint64_t covered = 0;

	for (uint32_t u = 0; u < decoder->layout->unit_count; u++) {
		const struct decode_unit *unit = &decoder->units[u];

		if (unit->count && (unit->first != covered || !unit->is_there))
			abort();
		covered += unit->count;
		for (uint32_t i = unit->first; i < unit->first + unit->count; i++) {
			const struct decode_execution *it = &decoder->executions[i];

			if (it->scope >= decoder->layout->scope_count || it->unit != u ||
			    (it->parent != DECODE_NONE &&
			     (it->parent < unit->first || it->parent >= i)))
				abort();
		}
	}
	if (covered > decoder->execution_count)
		abort();
	for (size_t i = covered; i < decoder->execution_count; i++)
		if (!decoder->executions[i].is_async ||
		    decoder->executions[i].parent != DECODE_NONE)
			abort();
	for (size_t i = 0; i < decoder->late_end_count; i++)
		if (decoder->late_ends[i].execution < covered ||
		    decoder->late_ends[i].execution >= decoder->execution_count ||
		    decoder->late_ends[i].unit >= decoder->layout->unit_count)
			abort();
}

/* Sums are a tree, and take no longer than their unit if they cannot overlap. */
static void check_unit_sums(const struct decoder *decoder)
{
	const struct instrument_layout *layout = decoder->layout;
	bool may_overlap = false;

	for (uint32_t i = 0; i < layout->sum_counts_count; i++)
		may_overlap |= !layout->sum_counts[i].is_end;
	for (uint32_t u = 0; u < layout->unit_count; u++) {
		const struct decode_unit *unit = &decoder->units[u];
		uint64_t elapsed = unit->header.end_clock - unit->header.start_clock;

		for (uint32_t i = 0; i < layout->sum_count; i++) {
			const struct decode_sum *sum = &decoder->sums[u * layout->sum_count + i];

			if (sum->parent != INSTRUMENT_NO_SUM && unit->is_there && sum->parent >= i)
				abort();
			if ((!sum->count || (!may_overlap && sum->cycles > elapsed)) && sum->cycles)
				abort();
		}
	}
}

/* Every cycle of every unit, and of the path, is attributed. */
static void check_sums(const struct warps_sums *sums, bool has_path)
{
	uint64_t path = 0;

	for (uint32_t u = 0; u < sums->unit_count; u++) {
		uint64_t cycles = sums->units[u].idle;

		path += sums->units[u].path;
		for (uint32_t i = 0; i <= sums->scope_count; i++) {
			cycles += warps_cell(sums, u, i)->cycles;
			path += warps_cell(sums, u, i)->path;
		}
		if (cycles != sums->units[u].cycles)
			abort();
	}
	for (uint32_t i = 0; i < sums->scope_count; i++) {
		path += sums->asyncs[i].path;
		if (sums->asyncs[i].overlapped > sums->asyncs[i].cycles)
			abort();
	}
	if (has_path && path != sums->cycles)
		abort();
}

static void check_warps(struct warps *warps, const struct decoder *decoder)
{
	struct warps_kinds kinds;
	struct warps_roles roles;
	struct warps_sums sums;
	struct out name;

	warps_kinds_read(decoder->layout, &kinds);
	if (!warps_sums_init(&sums, decoder->layout))
		return;
	if (warps_add(warps, decoder, &kinds, &sums))
		check_sums(&sums, !decoder->layout->sum_count);
	warps_roles_find(&sums, &kinds, &roles);
	out_init(&name, -1);
	for (uint32_t role = 0; role < roles.count; role++)
		warps_role_name(&roles, decoder->layout, role, &name);
	out_fini(&name);
	warps_sums_fini(&sums);
}

/* Input: the layout's text, a zero byte, then the memory of CTAs (zero where it is short). */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	const uint8_t *zero = length ? memchr(bytes, 0, length) : NULL;
	size_t text = zero ? (size_t)(zero - bytes) : length;
	size_t rest = length - text - (zero != NULL);
	struct instrument_layout layout;
	struct warps warps = {0};
	struct decoder decoder;
	uint8_t *cta;
	struct decode_overhead cost = {0};

	if (layout_read((const char *)bytes, text, &layout, NULL) != PROTON_OK)
		return 0;
	if (layout.cta_bytes > (1u << 20)) {
		layout_fini(&layout);
		return 0;
	}
	/* A user may set a negative record overhead. */
	if (rest % 3 == 1)
		cost = (struct decode_overhead){.empty = 208, .scope = 224};
	else if (rest % 3 == 2)
		cost = (struct decode_overhead){.empty = 150, .scope = 325};
	cta = calloc(1, layout.cta_bytes);
	decoder_init(&decoder, &layout, cost);
	for (size_t at = 0; cta && (at < rest || !at); at += layout.cta_bytes) {
		memset(cta, 0, layout.cta_bytes);
		if (rest)
			memcpy(cta, zero + 1 + at,
			       rest - at < layout.cta_bytes ? rest - at : layout.cta_bytes);
		if (!decode_cta(&decoder, cta))
			continue;
		check(&decoder);
		check_unit_sums(&decoder);
		check_warps(&warps, &decoder);
	}
	warps_fini(&warps);
	decoder_fini(&decoder);
	layout_fini(&layout);
	free(cta);
	return 0;
}
