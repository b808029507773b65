/*
 * Backend "rocprofiler": who registers with rocprofiler-sdk, in which order, in which version. The
 * fakes have HIP's registration (hip_register.c, register.c) and PyTorch's Kineto (kineto.c).
 */
#include "unit/cuda/cuda_session.h"

#include "base/clock.h"

static const char *const versions[] = {"10000", "10201", "10300", "10302", "10305"};

static void *open_library(const char *variable)
{
	void *library = dlopen(getenv(variable), RTLD_LAZY);

	if (!library)
		FAIL("%s", dlerror());
	return library;
}

static void call(const char *variable, const char *name)
{
	void (*function)(void);

	fake_find(&function, open_library(variable), name);
	function();
}

#define initialize_hip() call("PROTON_HIP_PATH", "fake_hip_initialize")
/* torch.profiler starts; Python's package calls proton_prepare() before (_kineto.py). */
#define start_kineto() call("FAKE_TORCH_PATH", "fake_kineto_start")

static bool is_kineto_registered(void)
{
	bool (*is_registered)(void);

	fake_find(&is_registered, open_library("FAKE_TORCH_PATH"), "fake_kineto_is_registered");
	return is_registered();
}

static int start_any(struct proton_error *err)
{
	struct proton_session_options options = {
		.size = sizeof(options),
		.name = rec_path("a"),
		.flags = PROTON_SESSION_QUIET,
	};
	int session = -1;
	int status = proton_start(&options, &session, err);

	return status == PROTON_OK ? session : status;
}

/* A session of the default backend has all kernels. */
static void expect_kernels(const char *backend)
{
	struct proton_error err = {0};
	int session = start_any(&err);

	if (session < 0)
		FAIL("start: %s", err.text);
	/* the controls of the fake that takes the launches */
	setenv("PROTON_TEST_BACKEND", backend, 1);
	load_fake();
	for (int i = 0; i < 7; i++)
		launch_ns("k", 5);
	EXPECT(finish(), {"k", 7});
}

/* The library is registered with once per process. */
static void in_children(void (*run)(void))
{
	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		setenv("FAKE_SDK_VERSION", versions[i], 1);
		rec_in_child(run, versions[i]);
	}
}

static bool is_before(const char *version)
{
	return strcmp(getenv("FAKE_SDK_VERSION"), version) < 0;
}

/* ------------------------------------------------------------------ HIP */

static void after_hip(void)
{
	initialize_hip();
	expect_kernels("rocprofiler");
}

TEST(hip_that_was_initialized_before_is_recorded)
{
	in_children(after_hip);
}

/* The HSA runtime opens the device of the kernel driver. */
static int open_kfd(void)
{
	int device = open("/dev/zero", O_RDWR);

	setenv("PROTON_KFD_DEVICE", "/dev/zero", 1);
	CHECK_LE(0, device);
	return device;
}

/* The kernel driver knows by the upper two bits of the offset what is mapped (kfd_priv.h). */
static void map_kfd(uint64_t type)
{
	int device = open_kfd();

	CHECK(mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, device,
		   (off_t)(type << 62 | 5ull << 46)) != MAP_FAILED);
	close(device);
}

static void after_queue(void)
{
	initialize_hip();
	map_kfd(3); /* doorbells: with the first queue (libhsakmt, queues.c) */
	proton_prepare();
	rec_begin_saying();
	expect_kernels("roctracer");
	CHECK_EQ(rec_printed("recording with roctracer: HIP made a queue before Proton"), 1);
}

TEST(queues_that_exist_are_recorded_with_roctracer)
{
	in_children(after_queue);
}

TEST(such_queues_are_an_error_if_the_backend_was_named)
{
	struct proton_error err = {0};

	initialize_hip();
	map_kfd(3);
	CHECK_LT(start_named("a", "rocprofiler", &err), 0);
	CHECK_EQ(err.status, PROTON_E_STATE);
	CHECK_HAS(err.text, "import Proton before the first use of the GPU, or run the program");
	CHECK(access(rec_path("a.hatchet"), F_OK) != 0);
}

/* Registers and pages of events are mapped when the HSA runtime is initialized. */
static void after_other_mappings(void)
{
	initialize_hip();
	for (uint64_t type = 0; type < 3; type++)
		map_kfd(type);
	expect_kernels("rocprofiler");
}

TEST(a_hip_without_queues_is_recorded_with_rocprofiler)
{
	in_children(after_other_mappings);
}

/* roctracer does not need librocprofiler-register. */
static void after_hip_alone(void)
{
	setenv("FAKE_HIP_ALONE", "1", 1);
	initialize_hip();
	open_kfd();
	rec_begin_saying();
	expect_kernels("roctracer");
	CHECK_EQ(rec_printed("recording with roctracer: the HIP of this process does not give"), 1);
}

TEST(hip_without_librocprofiler_register_is_recorded_with_roctracer)
{
	in_children(after_hip_alone);
}

TEST(such_a_hip_that_is_initialized_later_is_an_error)
{
	struct proton_error err = {0};
	int session, fd;

	setenv("FAKE_HIP_ALONE", "1", 1);
	load_fake();
	session = start_any(&err);
	CHECK_EQ(proton_deactivate(session, true, &err), PROTON_OK);
	fd = open_kfd();
	launch_ns("k", 5);
	CHECK_EQ(proton_deactivate(session, true, &err), PROTON_E_STATE);
	CHECK_HAS(err.text, "built without librocprofiler-register");
	CHECK_EQ(proton_finalize(session, "hatchet", &err), PROTON_E_STATE);
	CHECK_HAS(err.text, "built without librocprofiler-register");
	CHECK_EQ(access(rec_path("a.hatchet"), F_OK), 0);
	close(fd);
}

/* ------------------------------------------------------------------ other tools */

/* `import torch` initializes HIP, and its registration finds Kineto. */
static void after_kineto(void)
{
	/* PyTorch's library needs that of the SDK. */
	dlopen(getenv("PROTON_ROCPROFILER_SDK_PATH"), RTLD_LAZY | RTLD_GLOBAL);
	dlopen(getenv("FAKE_TORCH_PATH"), RTLD_LAZY | RTLD_GLOBAL);
	initialize_hip();
	start_kineto();
	CHECK(is_kineto_registered());
	rec_begin_saying();
	if (is_before("10302")) {
		expect_kernels("roctracer");
		CHECK_EQ(rec_printed("recording with roctracer: rocprofiler-sdk was initialized"),
			 1);
	} else {
		expect_kernels("rocprofiler");
		CHECK_EQ(rec_printed("roctracer"), 0);
	}
}

TEST(after_another_tool_the_default_is_roctracer_or_a_late_registration)
{
	in_children(after_kineto);
}

TEST(a_backend_that_was_named_is_not_replaced_after_another_tool)
{
	struct proton_error err = {0};

	dlopen(getenv("FAKE_TORCH_PATH"), RTLD_LAZY | RTLD_GLOBAL);
	start_kineto();
	CHECK_LT(start_named("a", "rocprofiler", &err), 0);
	CHECK_EQ(err.status, PROTON_E_STATE);
	CHECK_HAS(err.text, "for another tool (torch.profiler, XLA) before Proton");
	CHECK_HAS(err.text, "update ROCm");
}

static void with_torch(void)
{
	open_library("FAKE_TORCH_PATH");
	setenv("ROCP_TOOL_LIBRARIES", "", 1);
	proton_prepare();
	CHECK_STR(getenv("ROCP_TOOL_LIBRARIES"), "");
	start_kineto();
	CHECK(is_kineto_registered());
	initialize_hip();
	expect_kernels("rocprofiler");
}

TEST(torch_profiler_works_if_torch_was_loaded_before_the_registration)
{
	in_children(with_torch);
}

static void before_torch(void)
{
	proton_prepare();
	rec_begin_saying();
	open_library("FAKE_TORCH_PATH");
	initialize_hip();
	proton_prepare();
	start_kineto();
	CHECK_EQ(is_kineto_registered(), !is_before("10302"));
	expect_kernels("rocprofiler");
	CHECK_EQ(rec_printed("torch.profiler has no GPU events"), is_before("10302"));
}

TEST(torch_profiler_works_if_torch_is_loaded_later_or_a_message_says_why_not)
{
	in_children(before_torch);
}

/* ------------------------------------------------------------------ children */

static const char *library_for_children(void)
{
	const char *named = getenv("ROCPROFILER_REGISTER_LIBRARY");

	CHECK_STR(getenv("ROCPROFILER_REGISTER_FORCE_LOAD"), "1");
	return named ? named : "";
}

static void name_for_children(void)
{
	unsetenv("ROCPROFILER_REGISTER_LIBRARY");
	proton_prepare();
	CHECK_STR(library_for_children(), getenv("PROTON_ROCPROFILER_SDK_PATH"));
}

/* librocprofiler-register aborts a child that cannot load the library by its unversioned name. */
TEST(children_find_the_library_that_the_registration_makes_them_load)
{
	in_children(name_for_children);
	setenv("ROCPROFILER_REGISTER_LIBRARY", "/the/user's", 1);
	proton_prepare();
	CHECK_STR(library_for_children(), "/the/user's");
}

TEST(a_registration_that_fails_leaves_children_alone)
{
	unsetenv("ROCPROFILER_REGISTER_LIBRARY");
	setenv("FAKE_CUPTI_FAIL", "create_context=1", 1);
	proton_prepare();
	CHECK(!getenv("ROCPROFILER_REGISTER_LIBRARY"));
}

/* ------------------------------------------------------------------ cost */

static size_t resident_bytes(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	unsigned long total, resident;

	if (!file || fscanf(file, "%lu %lu", &total, &resident) != 2)
		FAIL("no statm");
	fclose(file);
	return resident * 4096u;
}

/* The library's headers take 32 bytes for each byte of a buffer. */
TEST(the_registration_takes_at_most_24_MiB)
{
	if (TAP_IS_SANITIZED)
		SKIP("sanitizers have their own memory");
	open_library("PROTON_ROCPROFILER_SDK_PATH");
	size_t before = resident_bytes();
	proton_prepare();
	CHECK_LT(resident_bytes() - before, 24u << 20);
}

/* A flush reads the headers of half a buffer; writers wait for it. */
TEST(a_flush_takes_at_most_a_millisecond)
{
	int (*flush)(struct sdk_buffer buffer);
	uint64_t best_ns = UINT64_MAX;
	struct proton_error err = {0};

	if (TAP_IS_SANITIZED)
		SKIP("sanitizers are slow");
	setenv("PROTON_TEST_BACKEND", "rocprofiler", 1);
	load_fake();
	CHECK_LE(0, start_any(&err));
	fake_find(&flush, open_library("PROTON_ROCPROFILER_SDK_PATH"), "rocprofiler_flush_buffer");
	for (int i = 0; i < 50; i++) {
		uint64_t begin_ns;

		launch_ns("k", 5);
		begin_ns = clock_monotonic_ns();
		CHECK_EQ(flush((struct sdk_buffer){1}), 0);
		if (clock_monotonic_ns() - begin_ns < best_ns)
			best_ns = clock_monotonic_ns() - begin_ns;
	}
	CHECK_LT(best_ns, 1000000);
	finish();
}
