/* Files that Inductor generates for torch.compile, and the kernels that they call. */
#pragma once

#include <stdatomic.h>

#include <libproton/proton.h>

#define GENERATED_NAMES_BYTES 1024

/* Frames below that of the call. */
struct generated {
	uint32_t line;      /* in the program; 0: not known */
	uint32_t operators; /* nodes and operators that were fused; 0: none */
	uint32_t shaped;    /* the same with the shapes of their inputs */
	uint32_t inside;    /* modules of a part, if there are several below the common one; or 0 */
	uint32_t module_count;
	uint32_t work_count;
	_Atomic bool has_several;     /* kernels in a call */
	struct proton_metric work[2]; /* flops and bytes of a call, those that are known */
	/* The modules, outermost first, each with a zero; "=" before the class of a whole model. */
	char names[GENERATED_NAMES_BYTES];
};

/* Describes the kernel that `line` of `file` calls, which is read. False: it does not tell. */
bool generated_read(const char *file, uint32_t line, struct generated *out);

/* Whether `shaped` is shown, even where operators are not. */
bool generated_shows_shapes(void);

/* The context of these modules below `context`. */
uint32_t generated_modules_below(const struct generated *generated, uint32_t context);
