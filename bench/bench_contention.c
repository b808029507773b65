/* Benchmark: recording from several threads at once. Prints one figure per line,
 * "name<TAB>unit<TAB>value".
 *
 * usage: bench_contention DIRECTORY [ROUNDS [PART]]
 *
 * A figure is the time of a core per scope: wall time, times the cores that the threads can use,
 * divided by all scopes. Without contention it is the same for any number of threads; waiting for a
 * lock or for a cache line adds to it. Medians over ROUNDS (default 3). PART: only figures with it
 * in their name.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <libproton/proton.h>

#include "base/clock.h"
#include "bench_session.h"
#include "measuring.h"

#define THREADS_MAX 64

enum work {
	WORK_SCOPE,
	WORK_TIMED,
	WORK_KERNEL,
	WORK_METRIC,
	WORK_COUNT
};

static const char *const work_names[WORK_COUNT] = {
	"scope",
	"timed scope",
	"scope with a kernel",
	"scope with a metric",
};

static struct {
	enum work work;
	bool is_own; /* each thread has its own context */
	long loops;  /* per thread */
	pthread_barrier_t gate;
} run;

static void do_one(uint32_t scope, uint32_t kernel)
{
	static const struct proton_metric metric = {
		.name = "n", .type = PROTON_METRIC_INT64, .value.int64 = 1};
	uint64_t token = run.work == WORK_TIMED ? proton_scope_enter_timed_frame(scope)
						: proton_scope_enter_frame(scope);

	if (run.work == WORK_KERNEL) {
		proton_kernel_begin(kernel);
		proton_kernel_end();
	} else if (run.work == WORK_METRIC) {
		proton_metrics_add(proton_context_here(), &metric, 1, NULL);
	}
	proton_scope_exit(token, NULL);
}

struct thread {
	pthread_t id;
	int number;
	uint64_t start_ns;
	uint64_t end_ns;
};

static void *record(void *data)
{
	struct thread *thread = data;
	uint32_t kernel = proton_frame("kernel", 6);
	uint32_t scope;
	char name[32];

	snprintf(name, sizeof(name), "thread%d", run.is_own ? thread->number : 0);
	scope = proton_frame(name, strlen(name));
	for (int i = 0; i < 100; i++) /* warm-up: contexts and rows exist */
		do_one(scope, kernel);
	pthread_barrier_wait(&run.gate);
	thread->start_ns = clock_monotonic_ns();
	for (long i = 0; i < run.loops; i++)
		do_one(scope, kernel);
	thread->end_ns = clock_monotonic_ns();
	return NULL;
}

/* ns of a core per scope, of `count` threads. */
static double measure(int count)
{
	struct thread threads[THREADS_MAX];
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	uint64_t start_ns = UINT64_MAX;
	uint64_t end_ns = 0;

	pthread_barrier_init(&run.gate, NULL, (unsigned)count);
	for (int i = 0; i < count; i++) {
		threads[i].number = i;
		if (pthread_create(&threads[i].id, NULL, record, &threads[i]) != 0)
			die("cannot start a thread");
	}
	for (int i = 0; i < count; i++) {
		pthread_join(threads[i].id, NULL);
		if (threads[i].start_ns < start_ns)
			start_ns = threads[i].start_ns;
		if (threads[i].end_ns > end_ns)
			end_ns = threads[i].end_ns;
	}
	pthread_barrier_destroy(&run.gate);
	return (double)(end_ns - start_ns) * (double)(count < cores ? count : cores) /
	       (double)count / (double)run.loops;
}

static void bench(const char *directory, int rounds, const char *data, int count, const char *part)
{
	long scopes = strcmp(data, "trace") == 0 ? 200000 : 800000;
	double values[ROUNDS_MAX];
	char name[128];

	snprintf(name, sizeof(name), "%s, %s, %s, %d thread%s", data, work_names[run.work],
		 run.is_own ? "a context per thread" : "one context", count, count == 1 ? "" : "s");
	if (!strstr(name, part))
		return;
	run.loops = scopes / count;
	for (int round = 0; round < rounds; round++) {
		int session = bench_session_start(directory, "contention", "host", data);

		values[round] = measure(count);
		bench_session_end(session, "none");
	}
	print_median(name, "ns", values, rounds);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	static const char *const data[] = {"tree", "trace"};
	static const int counts[] = {1, 4, 16, 64};
	int rounds;

	if (argc < 2)
		die("usage: bench_contention DIRECTORY [ROUNDS [PART]]");
	rounds = rounds_of(argc > 2 ? argv[2] : NULL, 3);
	for (size_t d = 0; d < 2; d++)
		for (int work = 0; work < WORK_COUNT; work++)
			for (int own = 0; own < 2; own++)
				for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
					run.work = (enum work)work;
					run.is_own = own;
					bench(argv[1], rounds, data[d], counts[c],
					      argc > 3 ? argv[3] : "");
				}
	return 0;
}
