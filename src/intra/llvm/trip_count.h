/*
 * The number of iterations of a loop with constant bounds, as Triton's `range(0, SIZE, BLOCK)` has
 * if both are constexpr:
 *
 *   %i = phi i64 [ 0, %before ], [ %next, %latch ]
 *   %next = add nuw nsw i64 %i, 1024
 *   %more = icmp samesign ult i64 %i, 7168
 *   br i1 %more, label %header, label %after
 */
#ifndef INTRA_LLVM_TRIP_COUNT_H
#define INTRA_LLVM_TRIP_COUNT_H

#include "intra/llvm/ir_function.h"

/*
 * The maximum number of iterations of the loop with the blocks `header` to `latch` in text order,
 * where only `latch` leads back to `header`; other exits make it fewer. 0: unknown.
 */
uint32_t trip_count(const struct ir_function *function, uint32_t header, uint32_t latch);

#endif
