/* What went wrong in kernels' launches, and how much of them traces hold: said once per kernel. */
#ifndef BACKEND_INTRA_LOSS_WARNINGS_H
#define BACKEND_INTRA_LOSS_WARNINGS_H

#include "backend/intra/loaded_kernels.h"

/* A run begins; `is_bounded`: the mode does not say how many launches traces keep. */
void loss_start(bool is_bounded);
/*
 * A launch with so many slices is about to go into the traces; false: this and later ones of the
 * kernel are too many.
 */
bool loss_has_room(struct kernel *kernel, uint64_t events);
/* A launch of the kernel has been decoded. */
void loss_add(struct kernel *kernel, const struct decode_totals *totals);
/* Says it for every kernel that has something new. */
void loss_report_all(void);
void loss_forget(void);

#endif
