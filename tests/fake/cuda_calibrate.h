/* Controls of the fake libcuda: the calibration kernel, which measures the record overhead. */
#pragma once

#include <stdint.h>

/* Cycles per clock read and per record; 0, 0: nothing is recorded. */
void fake_set_record_cost(double reading, double record);
/* How often the kernel has been launched. */
uint32_t fake_calibrations(void);

/* For cuda_append.c, where modules and launches are. */
void *fake_calibrate_module(const char *image);
void fake_calibrate_launch(uint64_t buffer);
