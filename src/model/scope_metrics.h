/*
 * The names under which a profile holds what is known of scopes inside kernels, where more than one
 * room has to know them.
 */
#ifndef MODEL_SCOPE_METRICS_H
#define MODEL_SCOPE_METRICS_H

/* Executions of a scope of which a part was recorded: `cycles` has what they took at least. */
#define SCOPE_PARTIAL_EXECUTIONS "partial_executions"

#endif
