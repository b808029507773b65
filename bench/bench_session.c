/* A quiet session for benchmarks. See bench_session.h. */
#include "bench_session.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <libproton/proton.h>

#include "measuring.h"

int bench_session_start(const char *directory, const char *name, const char *backend,
			const char *data)
{
	char path[4096];
	struct proton_session_options options = {
		.size = sizeof(options),
		.name = path,
		.data = data,
		.backend = backend,
		.flags = PROTON_SESSION_QUIET,
	};
	struct proton_error err;
	int session;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	if (proton_start(&options, &session, &err) != PROTON_OK)
		die(err.text);
	return session;
}

void bench_session_end(int session, const char *format)
{
	struct proton_error err;

	if (proton_finalize(session, format, &err) != PROTON_OK)
		die(err.text);
}

double bench_session_megabytes(const char *directory, const char *name, const char *suffix)
{
	struct stat st;
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s.%s", directory, name, suffix);
	if (stat(path, &st) != 0)
		die("the output is not there");
	unlink(path);
	return (double)st.st_size / 1e6;
}

void bench_layers_enter(uint64_t tokens[BENCH_LAYERS])
{
	static const char *const names[BENCH_LAYERS] = {"epoch", "batch", "layer"};

	for (int i = 0; i < BENCH_LAYERS; i++)
		tokens[i] = proton_scope_enter(names[i]);
}

void bench_layers_exit(const uint64_t tokens[BENCH_LAYERS])
{
	for (int i = BENCH_LAYERS - 1; i >= 0; i--)
		proton_scope_exit(tokens[i], NULL);
}
