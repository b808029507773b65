/* Names of intra-kernel scope metrics in profiles, shared by several components. */
#ifndef MODEL_SCOPE_METRICS_H
#define MODEL_SCOPE_METRICS_H

/* Executions of a scope that were recorded in part: `cycles` counts their recorded minimum. */
#define SCOPE_PARTIAL_EXECUTIONS "partial_executions"
/* At a kernel: the cost of its scopes, and the omitted ones, as reported when it was compiled. */
#define SCOPE_WARNING "scopes_warning"
/* At a kernel: its time with its automatic scopes in times of the plain kernel, as measured. */
#define SCOPE_RATIO "scopes_ratio"
/* At a kernel: the ratio as text, with its interval and the omitted scopes. */
#define SCOPE_PRICE "scopes_price"

#endif
