/* Calibration kernel, embedded from calibrate_kernel.ptx at build time, and its record layout. */
#pragma once

#include <stddef.h>

/* As in tests/python/calibrate_kernel.py. */
#define CALIBRATE_NAME "proton_calibrate"
#define CALIBRATE_FEW 8u   /* empty scopes inside the first scope */
#define CALIBRATE_MANY 40u /* and inside the second one */

extern const unsigned calibrate_shared_bytes;
extern const char calibrate_kernel[]; /* PTX, terminated */
extern const char calibrate_layout[];
extern const size_t calibrate_layout_bytes;
