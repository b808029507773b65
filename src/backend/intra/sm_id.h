/* SM (or CU) number of a warp from hardware registers. */
#ifndef BACKEND_INTRA_SM_ID_H
#define BACKEND_INTRA_SM_ID_H

#include <stdint.h>

/*
 * The number stored in struct row_lane: equal for all waves on one CU (or WGP) of an AMD GPU, whose
 * registers differ by wave. `arch` is the device's, such as "gfx942".
 */
uint32_t sm_id_of_amd(const char *arch, uint32_t hw_id, uint32_t xcc_id);

#endif
