/* HIP's streams: captures, and host functions in stream order. */
#ifndef DRIVER_HIP_STREAMS_H
#define DRIVER_HIP_STREAMS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * True if the stream is being captured; then the capture's number, which is the same for all its
 * streams. Also true, with number 0, if its capture has failed. Calls only the libamdhip64 that the
 * process has loaded.
 */
bool hip_streams_capture(uint64_t stream, uint64_t *number_out);

/*
 * HIP calls `function` when the stream's earlier work has ended; in a capture, once per replay.
 * HIP's result; 801 if the library cannot.
 */
int hip_streams_call(uint64_t stream, void (*function)(void *user), void *user);

/*
 * Each device has its own default stream. If `stream` is one, the device of the memory at
 * `address`; -1 if it is another stream, or if HIP does not know the memory.
 */
int hip_streams_device(uint64_t stream, uint64_t address);

#endif
