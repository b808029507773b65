/* Files that Inductor generates for torch.compile: the operators of a call in one. */
#ifndef EXT_GENERATED_H
#define EXT_GENERATED_H

#include <stdint.h>

/*
 * The frame of the operators that were fused into the kernel that line `line` of `file` calls. 0:
 * the file is not generated, cannot be read, or does not name them. Reads the file, so results are
 * to be kept.
 */
uint32_t generated_frame(const char *file, uint32_t line);

#endif
