/* The name by which the NVIDIA driver calls what CUDA_INJECTION64_PATH brought in. */
#ifndef CLI_INJECT_H
#define CLI_INJECT_H

#include <libproton/status.h>

/* In cuInit(), on the thread that calls it. 1: the driver may go on. */
PROTON_API int InitializeInjection(void);

#endif
