/* For benchmarks: a quiet session of libproton; failures end the program. */
#pragma once

#include <stdint.h>

#define BENCH_LAYERS 3

/* Starts `name` in `directory` with a backend and data "tree" or "trace"; the session's id. */
int bench_session_start(const char *directory, const char *name, const char *backend,
			const char *data);
/* Ends it and writes its output in the format. */
void bench_session_end(int session, const char *format);
/* The bytes of the output, which is removed. */
double bench_session_megabytes(const char *directory, const char *name, const char *suffix);

/* Goes into scopes, for real work is in some, and out of them. */
void bench_layers_enter(uint64_t tokens[BENCH_LAYERS]);
void bench_layers_exit(const uint64_t tokens[BENCH_LAYERS]);
