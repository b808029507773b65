/*
 * State of NVIDIA GPUs while they are recorded: clocks, temperature, power, what held the clocks
 * down and other processes, by NVML (libnvidia-ml.so.1), if it is there. Launches do not pay: a
 * thread of the recorder samples.
 */
#pragma once

#include "record/backend.h"

#define NVML_CLOCK_SM 1
#define NVML_CLOCK_MEMORY 2
#define NVML_TEMPERATURE_GPU 0
/* For a list of which only the length is asked for. */
#define NVML_ERROR_INSUFFICIENT_SIZE 7

/* enum of nvmlClocksEventReasons */
#define NVML_REASON_IDLE 0x1u
#define NVML_REASON_APPLICATION_CLOCKS 0x2u
#define NVML_REASON_SOFTWARE_POWER 0x4u
#define NVML_REASON_HARDWARE_SLOWDOWN 0x8u
#define NVML_REASON_SYNC_BOOST 0x10u
#define NVML_REASON_SOFTWARE_THERMAL 0x20u
#define NVML_REASON_HARDWARE_THERMAL 0x40u
#define NVML_REASON_POWER_BRAKE 0x80u
#define NVML_REASON_DISPLAY_CLOCKS 0x100u

/* A backend starts: earlier samples are not of its sessions. */
void gpu_state_clear(void);
/*
 * Samples the GPUs that the process has used, if the last time was a second ago. The first call
 * loads NVML, which takes some milliseconds per GPU, and samples only the energy: NVML's other
 * values are then of earlier work. For a thread of the recorder.
 */
void gpu_state_sample(void);
/* Samples once more, if NVML is loaded, and adds what was sampled. */
void gpu_state_describe(backend_add_fn add, void *user);
/* In the child of a fork: NVML is not used there if the parent has. */
void gpu_state_forked(void);
