/* For benchmarks on a GPU: a quiet session of libproton; failures end the program. */
#ifndef BENCH_SESSION_H
#define BENCH_SESSION_H

/* Starts `name` in `directory` with the backend "cupti"; the session's id. */
int bench_session_start(const char *directory, const char *name);
/* Ends it and writes its hatchet file. */
void bench_session_end(int session);

#endif
