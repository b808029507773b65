/* Device work of the backends themselves appears in no profile; with fake libraries. */
#include "unit/cuda/cuda_session.h"

#include "backend/cuda/memory.h"
#include "record/record.h"

#define STREAM 7

static _Atomic uint32_t kernels_of_ours;
static _Atomic uint32_t sets_of_ours;

/* Each launch through the driver, as CUPTI sees it. */
static void on_launch(bool is_captured, uint32_t node)
{
	(void)is_captured;
	(void)node;
	kernels_of_ours++;
	launch_ns("proton_calibrate", 5);
}

/* Each memory operation, likewise; which one it is does not matter. */
static void on_memory(void)
{
	struct cupti_memset record = {
		.kind = CUPTI_KIND_MEMSET,
		.memory_kind = 3,
		.bytes = 64,
		.start_ns = 1000,
		.end_ns = 1020,
	};
	uint32_t call = 0;

	sets_of_ours++;
	while (!memory_is_call(call))
		call++;
	record.correlation_id = fake.launch(&(struct fake_launch){.call = call, .context = &fake});
	fake.record(&record, sizeof(record));
}

static int start_session(const char *name, const char *backend, const char *mode, uint32_t flags)
{
	return start_options((struct proton_session_options){
		.name = rec_path(name), .backend = backend, .mode = mode, .flags = flags});
}

TEST(protons_own_work_is_not_attributed)
{
	int session = start_session("a", "cupti", NULL, PROTON_SESSION_MEMORY);

	record_own_work_begin();
	record_own_work_begin();
	launch_ns("ours", 5);
	record_own_work_end();
	on_memory();
	record_own_work_end();
	launch_ns("theirs", 7);
	CHECK_OK(proton_deactivate(session, true, NULL), (struct proton_error){0});
	CHECK_U64(rec_counter(session, "kernels"), 1);
	CHECK_U64(rec_counter(session, "memory operations"), 0);
	CHECK_U64(rec_counter(session, "lost: kernel record without a known launch"), 0);
	CHECK_U64(rec_counter(session, "lost: memory record without a known call"), 0);
	CHECK_U64(rec_counter(session, "lost: kernel record never received"), 0);
	EXPECT(finish(), {"theirs", 1});
}

/* A launch of a kernel with scopes: its buffer, the calibration, the reader thread's copies. */
TEST(instrumentation_is_not_seen_by_cupti)
{
	void *cuda = fake_open("PROTON_CUDA_PATH");
	static const char layout[] = "proton-instrument 1\nvendor nvidia\nwarps 1\n"
				     "warps_per_unit 1\nring 64\nslack 0\ncta 128\ncta_stride 1\n"
				     "units 0\nscope s\ncode 0 0\n";
	void (*set_on_launch)(void (*)(bool, uint32_t));
	void (*set_on_memory)(void (*)(void));
	int session = start_session("a", "cupti", NULL, PROTON_SESSION_MEMORY);
	int other = start_session("b", "instrumentation", "default:optimizations=time_shift", 0);

	fake_find(&set_on_launch, cuda, "fake_set_on_launch");
	fake_find(&set_on_memory, cuda, "fake_set_on_memory");
	set_on_launch(on_launch);
	set_on_memory(on_memory);
	CHECK_DONE(proton_instrument_kernel(1, "mm", layout, &err));
	uint64_t scope = proton_scope_enter("step"); /* where threads without scopes are */
	CHECK(proton_instrument_buffer(128, 128, STREAM) != 0);
	proton_instrument_launched(1, STREAM);
	launch_ns("mm", 7);
	CHECK_OK(proton_deactivate(other, true, NULL), (struct proton_error){0});
	CHECK(kernels_of_ours > 0);
	CHECK(sets_of_ours > 2);
	proton_scope_exit(scope, NULL);
	CHECK_OK(proton_deactivate(session, true, NULL), (struct proton_error){0});
	CHECK_U64(rec_counter(session, "kernels"), 1);
	CHECK_U64(rec_counter(session, "memory operations"), 0);
	EXPECT(finish(), {"step/mm", 1});
	set_on_launch(NULL);
	set_on_memory(NULL);
}
