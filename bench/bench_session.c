/* A quiet session for benchmarks. See bench_session.h. */
#include "bench_session.h"

#include <stdio.h>

#include <libproton/proton.h>

#include "cuda_driver.h"

int bench_session_start(const char *directory, const char *name)
{
	char path[4096];
	struct proton_session_options options = {
		.size = sizeof(options),
		.name = path,
		.backend = "cupti",
		.flags = PROTON_SESSION_QUIET,
	};
	struct proton_error err;
	int session;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	if (proton_start(&options, &session, &err) != PROTON_OK)
		die(err.text);
	return session;
}

void bench_session_end(int session)
{
	struct proton_error err;

	if (proton_finalize(session, "hatchet", &err) != PROTON_OK)
		die(err.text);
}
