/* Frames of kernel names, by the address at which the vendor's library keeps each name once. */
#ifndef BACKEND_GPU_KERNEL_NAMES_H
#define BACKEND_GPU_KERNEL_NAMES_H

#include <stdint.h>

/* NULL is "(unnamed kernel)". Only on the thread of the records. */
uint32_t kernel_names_frame(const char *name);
/* Before the first record: the library may have used an address for another name since the last. */
void kernel_names_clear(void);

#endif
