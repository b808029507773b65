/*
 * Profiling a C program with libproton: a session, scopes with metrics, "kernels" that run on
 * the CPU, a second independent session, and what was recorded and lost.
 *
 *     make
 *     ./scopes
 *     proton-viewer -m time/us,cpu_time/us,elements scopes.hatchet
 *
 * Under `proton -n other -- ./scopes` the session is the command's, and so is its output.
 */
#include <libproton/proton.h>
#include <stdio.h>
#include <stdlib.h>

#define ELEMENTS 100000
#define STEPS 5

static double values[ELEMENTS];

static void fail(const char *what, const struct proton_error *err)
{
	fprintf(stderr, "scopes: cannot %s: %s\n", what, err->text);
	exit(1);
}

/*
 * A kernel is any work that deserves a line with its count and time. Make frames once: making
 * one costs a search by name, using one costs nothing.
 */
static void scale(uint32_t frame, double factor)
{
	proton_kernel_begin(frame);
	for (size_t i = 0; i < ELEMENTS; i++)
		values[i] = values[i] * factor + 1.0;
	proton_kernel_end();
}

static double sum(uint32_t frame)
{
	double total = 0.0;

	proton_kernel_begin(frame);
	for (size_t i = 0; i < ELEMENTS; i++)
		total += values[i];
	proton_kernel_end();
	return total;
}

static double step(uint32_t scale_frame, uint32_t sum_frame)
{
	/* "elements" adds up into the scopes around; "(pty)" makes a property. */
	const struct proton_metric metrics[] = {
		{.name = "elements", .type = PROTON_METRIC_INT64, .value.int64 = ELEMENTS},
		{.name = "factor (pty)", .type = PROTON_METRIC_DOUBLE, .value.float64 = 0.5},
	};
	struct proton_error err;
	uint64_t timed = proton_scope_enter_timed("step"); /* adds its wall time as cpu_time */
	uint64_t inner;
	double total;

	if (proton_metrics_add(proton_scope_context(timed), metrics, 2, &err) != PROTON_OK)
		fail("add metrics", &err);
	scale(scale_frame, 0.5);
	inner = proton_scope_enter("reduce");
	total = sum(sum_frame);
	proton_scope_exit(inner, NULL);
	proton_scope_exit(timed, NULL);
	return total;
}

static void print_statistics(int session)
{
	struct proton_counter counters[64];
	struct proton_error err;
	int count = proton_statistics(session, counters, 64, &err);

	if (count < 0)
		fail("read statistics", &err);
	for (int i = 0; i < count && i < 64; i++)
		if (counters[i].value > 0 || !counters[i].is_loss)
			printf("%s: %llu\n", counters[i].name,
			       (unsigned long long)counters[i].value);
}

int main(void)
{
	const struct proton_session_options options = {.size = sizeof(options), .name = "scopes"};
	const struct proton_session_options last_only = {.size = sizeof(last_only),
							 .name = "scopes_last"};
	uint32_t scale_frame = proton_frame("scale", 5);
	uint32_t sum_frame = proton_frame("sum", 3);
	struct proton_error err;
	uint64_t outer;
	double total = 0.0;
	int session;
	int second;

	if (proton_start(&options, &session, &err) != PROTON_OK)
		fail("start", &err);
	outer = proton_scope_enter("main");
	for (int i = 0; i < STEPS - 1; i++)
		total = step(scale_frame, sum_frame);
	/* Several sessions may record at once; this one sees the last step only. */
	if (proton_start(&last_only, &second, &err) != PROTON_OK)
		fail("start a second session", &err);
	total = step(scale_frame, sum_frame);
	proton_scope_exit(outer, NULL);
	printf("sum: %.3f\n", total);
	print_statistics(session);
	/* hatchet is what proton-viewer and others read; NULL would ask for the same. */
	if (proton_finalize(session, "hatchet", &err) != PROTON_OK ||
	    proton_finalize(second, "hatchet", &err) != PROTON_OK)
		fail("write the profile", &err);
	return 0;
}
