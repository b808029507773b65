/*
 * NVTX ranges as scopes: what a program pushes and pops with nvtxRangePush and nvtxRangePop (and
 * their forms for domains) is a scope of the thread that does. This library is NVTX's tool for
 * that; who loads it is NVTX itself, because NVTX_INJECTION64_PATH names it while a backend asks
 * for it.
 */
#ifndef RECORD_NVTX_NVTX_H
#define RECORD_NVTX_NVTX_H

#include "record/nvtx/nvtx_abi.h"

#include <libproton/status.h>

/*
 * Names this library in the environment, unless ranges are switched off (proton_nvtx_enable(),
 * TRITON_ENABLE_NVTX) or the user named another tool there.
 */
void nvtx_attach(void);
/* Takes the name out again, if it still is ours. */
void nvtx_detach(void);

/* Called by each copy of NVTX in the process at its first use; 1 if its ranges will be seen. */
PROTON_API int InitializeInjectionNvtx2(nvtx_get_table_fn get_table);

#endif
