/*
 * The names under which a profile holds what the warps of a kernel did to each other, below the
 * kernel: docs/format.md, "Warps of instrumented kernels". All are sums over the CTAs looked at.
 */
#ifndef MODEL_WARP_METRICS_H
#define MODEL_WARP_METRICS_H

#define WARPS_FRAME "<warps>"                     /* KERNEL / <warps> */
#define WARPS_ASYNC_FRAME "<asynchronous>"        /* KERNEL / <warps> / <asynchronous> / SCOPE */
#define WARPS_OUTSIDE_FRAME "(outside of scopes)" /* KERNEL / <warps> / ROLE / SCOPE */

/* Of <warps>. */
#define WARPS_RECORDED_CTAS "recorded_ctas" /* of all launches */
#define WARPS_SAMPLED_CTAS "sampled_ctas"   /* of these, looked at */
#define WARPS_CTA_CYCLES "cta_cycles"       /* how long they ran: all that is on critical paths */
#define WARPS_UNSEEN_CYCLES "unseen_cycles" /* how long before their first records that are left */
/* Of a role. */
#define WARPS_SAMPLED_WARPS "sampled_warps"
#define WARPS_WARP_CYCLES "warp_cycles" /* idle, and busy and waiting in its scopes */
#define WARPS_IDLE_CYCLES "idle_cycles"
/* Of a role's scope. */
#define WARPS_BUSY_CYCLES "busy_cycles"
#define WARPS_WAIT_CYCLES "wait_cycles"
/* Of asynchronous work; without the second the kernel records no waits. */
#define WARPS_ASYNC_CYCLES "async_cycles"
#define WARPS_OVERLAPPED_CYCLES "overlapped_cycles"
/* Of all three. */
#define WARPS_PATH_CYCLES "path_cycles"

#endif
