/* Where on the chip a warp ran, from what its registers say. */
#ifndef BACKEND_INTRA_SM_ID_H
#define BACKEND_INTRA_SM_ID_H

#include <stdint.h>

/*
 * As struct row_lane keeps it: the same for all waves that share a CU (or a WGP) of an AMD GPU,
 * whose registers differ by wave. `arch` is such as "gfx942", of the device.
 */
uint32_t sm_id_of_amd(const char *arch, uint32_t hw_id, uint32_t xcc_id);

#endif
