/* The mode "pcsampling": `pcsampling[:interval=CYCLES][:windows=LENGTH/DISTANCE][:serialized]`. */
#ifndef BACKEND_CUDA_PCS_MODE_H
#define BACKEND_CUDA_PCS_MODE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define PCS_PERIOD_MIN 5u
#define PCS_PERIOD_MAX 31u
#define PCS_PERIOD_DEFAULT 14u
/* Up to this period, a full GPU gives more samples than CUPTI can decode. */
#define PCS_PERIOD_DENSE 12u

struct pcs_mode {
	uint32_t period;      /* log2 of the cycles between two samples of an SM */
	bool is_serialized;   /* kernels run one by one, samples have their launch */
	bool has_interval;    /* the user chose the period */
	uint64_t window_ns;   /* samples are taken for this time; 0: always */
	uint64_t distance_ns; /* from the start of a window to the next */
};

/* True if the name of `mode` is pcsampling. */
bool pcs_mode_is(const char *mode);
int pcs_mode_read(const char *mode, struct pcs_mode *out, struct proton_error *err);

#endif
