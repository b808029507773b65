/* Cost of the recorder's callbacks per launch: AMD compared with CUPTI, over fakes. */
#include "unit/fakes.h"
#include "unit/recorded.h"

#include "fake/fake_cupti.h"

#define LAUNCHES 2000u /* timed together: about 100 us */
#define ROUNDS 16
#define TURNS_MIN 4  /* sessions of each side */
#define TURNS_MAX 60 /* if the target is missed: other processes may have used the cores */
#define TARGET 1.2   /* times CUPTI's cost */
#define LIMIT 1.4    /* for processors with other costs than those on which it was measured */

struct side {
	const char *backend;
	uint64_t (*time_launches)(const struct fake_launch *launch, uint32_t count);
	uint64_t best_ns;
	uint64_t empty_ns; /* the same with callbacks that do nothing */
};

static struct side open_side(const char *backend, const char *variable)
{
	void *library = fake_open(variable);
	struct side side = {.backend = backend, .best_ns = UINT64_MAX, .empty_ns = UINT64_MAX};

	fake_find(&side.time_launches, library, "fake_time_launches");
	return side;
}

static void measure(struct side *side)
{
	struct fake_launch launch = {.call = CUPTI_CALL_LAUNCH_KERNEL,
				     .name = "k",
				     .context = side,
				     .records = 1,
				     .stream = 3,
				     .start_ns = 1,
				     .end_ns = 2};
	struct proton_session_options options = {.size = sizeof(options),
						 .name = rec_path("p"),
						 .backend = side->backend,
						 .flags = PROTON_SESSION_QUIET};
	int session;

	CHECK_DONE(proton_start(&options, &session, &err));
	for (int round = 0; round < 2 * ROUNDS; round++) {
		uint64_t *best_ns = round % 2 ? &side->best_ns : &side->empty_ns;
		uint64_t ns;

		launch.is_unseen = best_ns == &side->empty_ns;
		ns = side->time_launches(&launch, LAUNCHES);
		*best_ns = ns < *best_ns ? ns : *best_ns;
	}
	rec_finalize(session, "proton");
	CHECK_U64(rec_count(rec_load("p.proton"), "k"), ROUNDS * LAUNCHES);
}

/* Per launch, without the calls of the callbacks. */
static double cost_ns(const struct side *side)
{
	return ((double)side->best_ns - (double)side->empty_ns) / LAUNCHES;
}

static bool is_within(const struct side *side, const struct side *cupti, double limit)
{
	return cost_ns(side) <= cost_ns(cupti) * limit;
}

/*
 * The sides take turns, and the best round of each counts. Load makes rounds slower; with more
 * turns each side has one that was not disturbed. Measured: 30 ns (CUPTI), 32 ns (rocprofiler-sdk),
 * 32 ns (roctracer).
 */
TEST(a_launch_costs_about_as_much_as_with_cupti)
{
	struct side cupti, sdk, tracer;

	if (TAP_IS_SANITIZED)
		SKIP("sanitizers change what is measured");
	cupti = open_side("cupti", "PROTON_CUPTI_PATH");
	sdk = open_side("rocprofiler", "PROTON_ROCPROFILER_SDK_PATH");
	tracer = open_side("roctracer", "PROTON_ROCTRACER_PATH");
	fake_open("PROTON_HIP_PATH");
	for (int turn = 0; turn < TURNS_MAX; turn++) {
		if (turn >= TURNS_MIN && is_within(&sdk, &cupti, TARGET) &&
		    is_within(&tracer, &cupti, TARGET))
			break;
		measure(&cupti);
		measure(&sdk);
		measure(&tracer);
	}
	printf("# cupti %.0f ns, rocprofiler %.0f ns, roctracer %.0f ns per launch\n",
	       cost_ns(&cupti), cost_ns(&sdk), cost_ns(&tracer));
	CHECK(is_within(&sdk, &cupti, LIMIT));
	CHECK(is_within(&tracer, &cupti, LIMIT));
}
