/* Operators of PyTorch as frames. No function needs the GIL. */
#ifndef EXT_TORCH_OPS_H
#define EXT_TORCH_OPS_H

#include "torch/torch.h"

/* Begins or ends following them. False: this version of PyTorch is not supported. */
bool torch_ops_follow(bool is_wanted);
bool torch_ops_are_on(void);

#endif
