/*
 * Names of warp analysis metrics in profiles, below a kernel: docs/format.md, "Warps of
 * instrumented kernels". All are sums over the analyzed CTAs.
 */
#pragma once

#define WARPS_FRAME "<warps>"                     /* KERNEL / <warps> */
#define WARPS_ASYNC_FRAME "<asynchronous>"        /* KERNEL / <warps> / <asynchronous> / SCOPE */
#define WARPS_OUTSIDE_FRAME "(outside of scopes)" /* KERNEL / <warps> / ROLE / SCOPE */

/* On <warps>. */
#define WARPS_RECORDED_CTAS "recorded_ctas" /* in all launches */
#define WARPS_SAMPLED_CTAS "sampled_ctas"   /* analyzed ones of these */
#define WARPS_CTA_CYCLES "cta_cycles"       /* their cycles: all are on critical paths */
#define WARPS_UNSEEN_CYCLES "unseen_cycles" /* before the first record that is left */
/* On a role. */
#define WARPS_SAMPLED_WARPS "sampled_warps"
#define WARPS_WARP_CYCLES "warp_cycles" /* idle, and busy and waiting in scopes */
#define WARPS_IDLE_CYCLES "idle_cycles"
/* On a role's scope. */
#define WARPS_BUSY_CYCLES "busy_cycles"
#define WARPS_WAIT_CYCLES "wait_cycles"
/* On asynchronous work; without wait cycles the kernel records no waits. */
#define WARPS_ASYNC_CYCLES "async_cycles"
#define WARPS_OVERLAPPED_CYCLES "overlapped_cycles"
/* On all three. */
#define WARPS_PATH_CYCLES "path_cycles"

/* Of scopes of instrumented kernels. */

/* Executions of a scope that were recorded in part: `cycles` counts their recorded minimum. */
#define SCOPE_PARTIAL_EXECUTIONS "partial_executions"
/* At a kernel: the cost of its scopes, and the omitted ones, as reported when it was compiled. */
#define SCOPE_WARNING "scopes_warning"
/* At a kernel: its time with its automatic scopes in times of the plain kernel, as measured. */
#define SCOPE_RATIO "scopes_ratio"
/* At a kernel: the ratio as text, with its interval and the omitted scopes. */
#define SCOPE_PRICE "scopes_price"
