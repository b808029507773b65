/* Controls of the fake libtorch_cpu. */
#pragma once

#include <stdbool.h>

/* torch.profiler starts. */
void fake_kineto_start(void);
/* True if it gets records from rocprofiler-sdk. */
bool fake_kineto_is_registered(void);
