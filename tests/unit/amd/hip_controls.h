/* The controls of the fake libamdhip64, as `hip`. */
#pragma once

#include "unit/fakes.h"

#include "fake/hip.h"

/* Those that the fake libcuda has too. */
#define FAKE_SHARED_CONTROLS(X)                                                                    \
	X(void, set_capture, (uint64_t stream, int status))                                        \
	X(uint32_t, unsafe_calls, (void))                                                          \
	X(void, hold_events, (bool is_held))                                                       \
	X(size_t, device_bytes, (void))                                                            \
	X(void, fail, (const char *name, uint32_t first, uint32_t count, int code))                \
	X(uint32_t, calls, (const char *name))

static struct {
#define FAKE_POINTER(type, name, arguments) type(*name) arguments;
	FAKE_HIP_CONTROLS(FAKE_POINTER)
	FAKE_SHARED_CONTROLS(FAKE_POINTER)
#undef FAKE_POINTER
	int (*set_device)(int device);
	int (*get_device)(int *device);
} hip_fake;

static void find_hip(void)
{
	void *library = fake_open("PROTON_HIP_PATH");

#define FIND(type, name, arguments) fake_find(&hip_fake.name, library, "fake_" #name);
	FAKE_HIP_CONTROLS(FIND)
	FAKE_SHARED_CONTROLS(FIND)
#undef FIND
	fake_find(&hip_fake.set_device, library, "hipSetDevice");
	fake_find(&hip_fake.get_device, library, "hipGetDevice");
}
