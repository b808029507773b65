/*
 * Cost of the recorder's callbacks per launch: rocprofiler-sdk beside CUPTI.
 * Both are fakes here, and measure the time that they spend in callbacks.
 */
#include "unit/fakes.h"
#include "unit/recorded.h"

#include "fake/fake_cupti.h"

#define LAUNCHES 2000
#define ROUNDS 60
#define WARM_ROUNDS 5

struct side {
	const char *backend;
	uint32_t (*launch)(const struct fake_launch *launch);
	uint64_t (*take_callback_ns)(void);
	double best_ns; /* per launch */
};

static struct side open_side(const char *backend, const char *variable)
{
	void *library = fake_open(variable);
	struct side side = {.backend = backend, .best_ns = 1e9};

	fake_find(&side.launch, library, "fake_launch");
	fake_find(&side.take_callback_ns, library, "fake_take_callback_ns");
	return side;
}

static void measure(struct side *side)
{
	struct proton_session_options options = {
		.size = sizeof(options),
		.name = rec_path(side->backend),
		.backend = side->backend,
		.flags = PROTON_SESSION_QUIET,
	};
	struct proton_error err = {0};
	int session;

	CHECK_OK(proton_start(&options, &session, &err), err);
	for (int round = 0; round < ROUNDS; round++) {
		double ns;

		side->take_callback_ns();
		for (int i = 0; i < LAUNCHES; i++)
			side->launch(&(struct fake_launch){.call = CUPTI_CALL_LAUNCH_KERNEL,
							   .name = "k",
							   .context = side,
							   .records = 1,
							   .stream = 3,
							   .start_ns = 1,
							   .end_ns = 2});
		ns = (double)side->take_callback_ns() / LAUNCHES;
		CHECK(ns > 1);
		if (round >= WARM_ROUNDS && ns < side->best_ns)
			side->best_ns = ns;
		CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
		CHECK_EQ(proton_activate(session, NULL), PROTON_OK);
	}
	rec_finalize(session, "none");
}

/*
 * Measured on two shared cores: 51 to 58 ns (CUPTI) and 49 to 55 ns; with more load 56 and 64 ns,
 * 58 and 61 ns. The limit leaves room for such machines.
 */
TEST(a_launch_costs_about_as_much_as_with_cupti)
{
	struct side cupti;
	struct side sdk;

	if (TAP_IS_SANITIZED)
		SKIP("sanitizers change what is measured");
	cupti = open_side("cupti", "PROTON_CUPTI_PATH");
	sdk = open_side("rocprofiler", "PROTON_ROCPROFILER_SDK_PATH");
	measure(&cupti);
	measure(&sdk);
	printf("# cupti %.0f ns, rocprofiler %.0f ns per launch\n", cupti.best_ns, sdk.best_ns);
	CHECK_LT((long)sdk.best_ns, (long)(cupti.best_ns * 1.5) + 1);
}
