/* What a test tells the fake libcuda about the kernel that measures what a record costs. */
#ifndef TESTS_FAKE_CUDA_CALIBRATE_H
#define TESTS_FAKE_CUDA_CALIBRATE_H

#include <stdint.h>

/* Cycles that a reading of the clock takes and that a record does; 0, 0: nothing is recorded. */
void fake_set_record_cost(double reading, double record);
/* How often the kernel has been launched. */
uint32_t fake_calibrations(void);

/* For cuda_append.c, where modules and launches are. */
void *play_calibrate_module(const char *image);
void play_calibrate_launch(uint64_t buffer);

#endif
