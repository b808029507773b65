/* CUDA graphs: the node ids of captured kernels, which their records carry. */
#ifndef BACKEND_CUDA_GRAPHS_H
#define BACKEND_CUDA_GRAPHS_H

#include "backend/cuda/cupti_api.h"

/* Resource callback for graphs, on the application's thread. */
void graphs_on_resource(uint32_t event, const struct cupti_graph_data *graph);

#endif
