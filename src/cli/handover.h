/*
 * How `proton` hands its options to the process it turns into: environment variables, because
 * the arguments belong to the target. Whoever starts the recorder there (triton_proton/_launch,
 * cli/inject.c) removes them before the target's code runs, so neither it nor its children see
 * them.
 *
 * Where there is an NVIDIA driver, children that initialise CUDA are recorded too, unless the user
 * says otherwise: CUDA_INJECTION64_PATH then names libproton_inject.so, which the driver loads into
 * each such process, and what that needs to know stays in the environment (HANDOVER_PID is set).
 */
#ifndef CLI_HANDOVER_H
#define CLI_HANDOVER_H

#include <stdbool.h>

#include "cli/proton_options.h"

#define HANDOVER_PREFIX "PROTON_RUN_"

#define HANDOVER_NAME HANDOVER_PREFIX "NAME"
#define HANDOVER_BACKEND HANDOVER_PREFIX "BACKEND"
#define HANDOVER_CONTEXT HANDOVER_PREFIX "CONTEXT"
#define HANDOVER_MODE HANDOVER_PREFIX "MODE"
#define HANDOVER_DATA HANDOVER_PREFIX "DATA"
#define HANDOVER_HOOK HANDOVER_PREFIX "HOOK"
#define HANDOVER_FORMAT HANDOVER_PREFIX "FORMAT"
#define HANDOVER_MEMORY HANDOVER_PREFIX "MEMORY" /* "1", or absent */
#define HANDOVER_QUIET HANDOVER_PREFIX "QUIET"   /* "0" or "1"; always there */
/* What to call `proton-viewer` in messages; absent if that name is ours. */
#define HANDOVER_VIEWER HANDOVER_PREFIX "VIEWER"
/* What the variable of that name was before; absent if it was not set. */
#define HANDOVER_PYTHONPATH HANDOVER_PREFIX "PYTHONPATH"
#define HANDOVER_LD_PRELOAD HANDOVER_PREFIX "LD_PRELOAD"
/*
 * Absolute path, without suffix, of what children write; their process id is added. It is there
 * if children are recorded.
 */
#define HANDOVER_CHILDREN HANDOVER_PREFIX "CHILDREN"
/* "1" if children are entered through LD_PRELOAD too and report to the target at their end. */
#define HANDOVER_GATHER HANDOVER_PREFIX "GATHER"
/*
 * The process id of the target, in decimal; there if CUDA_INJECTION64_PATH is ours or the target
 * was entered through LD_PRELOAD.
 */
#define HANDOVER_PID HANDOVER_PREFIX "PID"
/* sys.executable of the interpreter that is meant; another one passes everything on. */
#define HANDOVER_PYTHON HANDOVER_PREFIX "PYTHON"

/* True if CUDA_INJECTION64_PATH would bring a library into a process that initialises CUDA. */
bool handover_can_inject(const struct options *options);

/*
 * Puts the options into the environment, and the `library` that the driver is to load (NULL: none
 * is there) into children, or into the target too if `must_inject`. False when memory is out (said
 * on standard error).
 */
bool handover_export(const struct options *options, const char *library, bool must_inject);

/* For a target that is entered through LD_PRELOAD: its children are, too, unless not wanted. */
bool handover_follow(const struct options *options);

/* `first` in front of the colon-separated `variable`, whose old value goes to `saved`. */
bool handover_put_in_front(const char *variable, const char *saved, const char *first);

#endif
