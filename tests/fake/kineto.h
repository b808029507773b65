/* Controls of the fake libtorch_cpu. */
#ifndef TESTS_FAKE_KINETO_H
#define TESTS_FAKE_KINETO_H

#include <stdbool.h>

/* torch.profiler starts. */
void fake_kineto_start(void);
/* True if it gets records from rocprofiler-sdk. */
bool fake_kineto_is_registered(void);

#endif
