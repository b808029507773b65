/* Device metrics on AMD: values in device memory, copied to the host in stream order. */
#ifndef BACKEND_AMD_HIP_TENSORS_H
#define BACKEND_AMD_HIP_TENSORS_H

#include "backend/gpu/tensors.h"

extern const struct tensors_reader hip_tensors_reader;

/* After fork(), in the child. */
void hip_tensors_forget(void);

#endif
