/* Fake libroctx64: ranges of the program, reported to roctracer. */
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "fake/fake_roctracer.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* ROCTX's are its own */

typedef int (*report_fn)(uint32_t domain, uint32_t call, void *data);

static _Atomic(report_fn) report;
static _Thread_local int level;

static void report_call(uint32_t call, const char *message)
{
	struct roctracer_roctx_data data = {.message = message};
	report_fn to = atomic_load(&report);

	if (to)
		to(ROCTRACER_DOMAIN_ROCTX, call, &data);
}

FAKE_EXPORT void roctxRegisterTracerCallback(report_fn function)
{
	atomic_store(&report, function);
}

FAKE_EXPORT int roctxRangePushA(const char *message)
{
	report_call(ROCTRACER_ROCTX_PUSH, message);
	return level++;
}

FAKE_EXPORT int roctxRangePop(void)
{
	report_call(ROCTRACER_ROCTX_POP, NULL);
	return level ? --level : -1;
}
