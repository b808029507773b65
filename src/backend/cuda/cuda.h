/* Inside the CUDA backend: what its files share. */
#ifndef BACKEND_CUDA_CUDA_H
#define BACKEND_CUDA_CUDA_H

#include "backend/cuda/cupti_api.h"

/* Launch callbacks: on the application's threads. */
int callbacks_start(const struct cupti_api *api, struct proton_error *err);
void callbacks_stop(const struct cupti_api *api);
/* Kernel launches seen by callbacks while some session was active. */
uint64_t callbacks_launched(void);
/* True once some graph has been launched. */
bool callbacks_saw_graphs(void);
/* Waits for every context that launched something. */
void callbacks_synchronize(const struct cupti_api *api);

/* Activity records: on CUPTI's thread. */
int activity_start(const struct cupti_api *api, struct proton_error *err);
void activity_stop(const struct cupti_api *api);
/* Makes CUPTI hand over what is complete; waits until `launched` launches have their records. */
void activity_flush(const struct cupti_api *api, uint64_t launched, bool has_graphs);

/* The recorder's id of CUDA device `ordinal`, with its properties. */
uint32_t devices_of_cuda(const struct cupti_api *api, uint32_t ordinal);

#endif
