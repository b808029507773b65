/* One execution of something on a device, as a backend reports it and the stores take it. */
#ifndef RECORD_EXECUTION_H
#define RECORD_EXECUTION_H

#include <stdint.h>

#include "format/rows.h" /* struct launch_config */

struct execution {
	uint32_t
		frame; /* its name, by frames_add(FRAME_KERNEL, ...); 0: the context ends with it */
	uint32_t device;      /* record/devices.h */
	uint32_t stream;      /* the vendor's number of the stream, unique within its context */
	uint32_t correlation; /* the vendor's number of the launch; 0 if there is none */
	uint64_t start_ns;    /* of any one clock */
	uint64_t end_ns;
	struct launch_config config; /* all 0 where the backend does not know */
};

#endif
