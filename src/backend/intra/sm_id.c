/*
 * SM number from AMD's registers HW_ID and XCC_ID.
 *
 * The fields are from the comment above __smid() in hip/amd_detail/amd_device_functions.h of ROCm
 * 7.1. It describes HW_ID1 of gfx10 and gfx11; later chips are assumed to be the same.
 */
#include "backend/intra/sm_id.h"

#include <stdbool.h>
#include <string.h>

#include "format/rows.h"

static uint32_t field_of(uint32_t word, uint32_t high, uint32_t low)
{
	return word >> low & ((1u << (high - low + 1)) - 1);
}

static bool is_one_of(const char *arch, const char *first, const char *second)
{
	return strcmp(arch, first) == 0 || strcmp(arch, second) == 0;
}

uint32_t sm_id_of_amd(const char *arch, uint32_t hw_id, uint32_t xcc_id)
{
	bool is_gfx9 = strncmp(arch, "gfx9", 4) == 0;
	bool has_dies = strncmp(arch, "gfx94", 5) == 0 || strcmp(arch, "gfx950") == 0;
	bool has_8_engines = is_one_of(arch, "gfx908", "gfx90a");

	if (!is_gfx9)
		return LANE_AMD | LANE_AMD_WGP | field_of(hw_id, 13, 10) << LANE_AMD_UNIT |
		       field_of(hw_id, 16, 16) << LANE_AMD_ARRAY |
		       field_of(hw_id, 20, 18) << LANE_AMD_ENGINE;
	return LANE_AMD | (has_dies ? LANE_AMD_DIES | field_of(xcc_id, 3, 0) << LANE_AMD_DIE : 0) |
	       field_of(hw_id, 11, 8) << LANE_AMD_UNIT | field_of(hw_id, 12, 12) << LANE_AMD_ARRAY |
	       field_of(hw_id, has_8_engines ? 15 : 14, 13) << LANE_AMD_ENGINE;
}
