/*
 * Warp roles: which units of a kernel do the same job. Units of one partition have one role,
 * otherwise units that execute the same scopes. The compiler assigns work by warp number, so roles
 * are the same in all CTAs.
 */
#ifndef INTRA_WARPS_WARP_ROLES_H
#define INTRA_WARPS_WARP_ROLES_H

#include "base/buf.h"
#include "intra/warps/segments.h"

#define WARPS_NO_ROLE UINT8_MAX

struct warps_roles {
	uint32_t count;
	uint8_t of[INSTRUMENT_UNIT_MAX];     /* WARPS_NO_ROLE: the unit never finished */
	uint32_t scope[INSTRUMENT_UNIT_MAX]; /* by role: a scope only it has, or DECODE_NONE */
};

void warps_roles_find(const struct warps_sums *sums, const struct warps_kinds *kinds,
		      struct warps_roles *out);
/* "partition0@mm.py:12 (warps 4-7)", "warp 0" */
void warps_role_name(const struct warps_roles *roles, const struct instrument_layout *layout,
		     uint32_t role, struct out *out);

#endif
