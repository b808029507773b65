/* Finding and naming the roles of warps. */
#include "intra/warps/segments.h"

/* The partition that the unit was in for most of its time, or DECODE_NONE. */
static uint32_t partition_of(const struct warps_sums *sums, const struct warps_kinds *kinds,
			     uint32_t unit)
{
	uint32_t found = DECODE_NONE;

	for (uint32_t i = 0; i < sums->scope_count; i++) {
		const struct warps_cell *cell = warps_cell(sums, unit, i);

		if ((kinds->of[i] == WARPS_PARTITION || kinds->of[i] == WARPS_DEFAULT) &&
		    cell->executions &&
		    (found == DECODE_NONE ||
		     cell->inclusive > warps_cell(sums, unit, found)->inclusive))
			found = i;
	}
	return found;
}

static bool have_same_scopes(const struct warps_sums *sums, uint32_t a, uint32_t b)
{
	for (uint32_t i = 0; i < sums->scope_count; i++)
		if (!warps_cell(sums, a, i)->executions != !warps_cell(sums, b, i)->executions)
			return false;
	return true;
}

/* Cycles of the scope in the units of the role; *elsewhere is set if other units execute it too. */
static uint64_t cycles_in(const struct warps_roles *roles, const struct warps_sums *sums,
			  uint32_t role, uint32_t scope, bool *elsewhere)
{
	uint64_t cycles = 0;

	*elsewhere = false;
	for (uint32_t u = 0; u < sums->unit_count; u++) {
		const struct warps_cell *cell = warps_cell(sums, u, scope);

		if (roles->of[u] == role)
			cycles += cell->inclusive;
		else if (cell->executions)
			*elsewhere = true;
	}
	return cycles;
}

/*
 * The scope that only this role executes and spends most time in; a wait only if there is no other.
 */
static uint32_t distinguishing_scope(const struct warps_roles *roles, const struct warps_sums *sums,
				     const struct warps_kinds *kinds, uint32_t role)
{
	uint32_t found = DECODE_NONE;
	uint64_t max = 0;

	for (uint32_t i = 0; roles->count > 1 && i < sums->scope_count; i++) {
		bool is_wait = warps_is_wait(kinds->of[i]);
		bool found_wait = found != DECODE_NONE && warps_is_wait(kinds->of[found]);
		bool elsewhere;
		uint64_t cycles = cycles_in(roles, sums, role, i, &elsewhere);

		if (elsewhere || !cycles || (is_wait && found != DECODE_NONE && !found_wait))
			continue;
		if (cycles > max || (found_wait && !is_wait)) {
			max = cycles;
			found = i;
		}
	}
	return found;
}

void warps_roles_find(const struct warps_sums *sums, const struct warps_kinds *kinds,
		      struct warps_roles *out)
{
	uint32_t partitions[INSTRUMENT_UNIT_MAX];

	*out = (struct warps_roles){0};
	for (uint32_t u = 0; u < sums->unit_count; u++) {
		partitions[u] = partition_of(sums, kinds, u);
		out->of[u] = WARPS_NO_ROLE;
		for (uint32_t other = 0; other < u && out->of[u] == WARPS_NO_ROLE; other++)
			if (out->of[other] != WARPS_NO_ROLE && partitions[u] == partitions[other] &&
			    (partitions[u] != DECODE_NONE || have_same_scopes(sums, u, other)))
				out->of[u] = out->of[other];
		if (!sums->units[u].ctas) {
			out->of[u] = WARPS_NO_ROLE;
		} else if (out->of[u] == WARPS_NO_ROLE) {
			out->scope[out->count] = partitions[u];
			out->of[u] = (uint8_t)out->count++;
		}
	}
	for (uint32_t role = 0; role < out->count; role++)
		if (out->scope[role] == DECODE_NONE)
			out->scope[role] = distinguishing_scope(out, sums, kinds, role);
}

/* "warps 0-3, 8": warps with records. */
static void write_warps(const struct warps_roles *roles, const struct instrument_layout *layout,
			uint32_t role, struct out *out)
{
	uint32_t count = 0;
	bool is_first = true;

	for (uint32_t u = 0; u < layout->unit_count; u++)
		count += roles->of[u] == role;
	out_text(out, count == 1 ? "warp " : "warps ");
	for (uint32_t u = 0; u < layout->unit_count; u++) {
		uint32_t last = u;

		if (roles->of[u] != role)
			continue;
		while (last + 1 < layout->unit_count && roles->of[last + 1] == role &&
		       layout->units[last + 1] == layout->units[last] + 1)
			last++;
		out_printf(out, "%s%u", is_first ? "" : ", ", layout->units[u]);
		if (last > u)
			out_printf(out, "-%u", layout->units[last]);
		is_first = false;
		u = last;
	}
}

void warps_role_name(const struct warps_roles *roles, const struct instrument_layout *layout,
		     uint32_t role, struct out *out)
{
	uint32_t scope = roles->scope[role];

	if (scope != DECODE_NONE)
		out_printf(out, "%s (", layout->scopes[scope]);
	write_warps(roles, layout, role, out);
	if (scope != DECODE_NONE)
		out_byte(out, ')');
}
