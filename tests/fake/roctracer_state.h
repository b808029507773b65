/* Internal interface between the files of the fake libroctracer64. */
#pragma once

#include "fake/fake_roctracer.h"

struct pool;

/* roctracer.c: the pool that records of an operation go to; NULL: it is not enabled. */
struct pool *activity_pool(uint32_t op);

/* HIP's error of the calling thread. */
void calls_set_error(int error);
/* roctracer.c: fake_time_launches(). */
uint64_t calls_time(const struct fake_hip_launch *launch, uint32_t count);

/* roctracer_pool.c: work that was launched and has not ended. */
void pool_launch(const struct fake_hip_launch *launch, uint64_t correlation);
