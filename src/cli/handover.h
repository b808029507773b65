/*
 * How `proton` hands its options to the process it turns into: environment variables, because
 * the arguments belong to the target. Whoever starts the recorder there (triton_proton/_launch,
 * cli/inject.c) removes them before the target's code runs, so neither it nor its children see
 * them.
 */
#ifndef CLI_HANDOVER_H
#define CLI_HANDOVER_H

#include <stdbool.h>

#include "cli/options.h"

#define HANDOVER_PREFIX "PROTON_RUN_"

#define HANDOVER_NAME HANDOVER_PREFIX "NAME"
#define HANDOVER_BACKEND HANDOVER_PREFIX "BACKEND"
#define HANDOVER_CONTEXT HANDOVER_PREFIX "CONTEXT"
#define HANDOVER_MODE HANDOVER_PREFIX "MODE"
#define HANDOVER_DATA HANDOVER_PREFIX "DATA"
#define HANDOVER_HOOK HANDOVER_PREFIX "HOOK"
#define HANDOVER_FORMAT HANDOVER_PREFIX "FORMAT"
#define HANDOVER_QUIET HANDOVER_PREFIX "QUIET" /* "0" or "1"; always there */
/* What the variable of that name was before; absent if it was not set. */
#define HANDOVER_PYTHONPATH HANDOVER_PREFIX "PYTHONPATH"
#define HANDOVER_LD_PRELOAD HANDOVER_PREFIX "LD_PRELOAD"
/* sys.executable of the interpreter that is meant; another one passes everything on. */
#define HANDOVER_PYTHON HANDOVER_PREFIX "PYTHON"

/*
 * Puts the options into the environment and `first` in front of the colon-separated `variable`,
 * whose old value goes to `saved`. False when memory is out (said on standard error).
 */
bool handover_export(const struct options *options, const char *variable, const char *saved,
		     const char *first);

#endif
