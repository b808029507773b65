/* Loading of libcuda, and GPU properties, with a fake libcuda. */
#include "unit/fakes.h"
#include "unit/tap.h"

#include <grp.h>
#include <semaphore.h>
#include <sys/sendfile.h>

#include "driver/driver.h"
#include "fake/gpus.h"
#include "record/store/devices.h"
#include "record/thread/record_launch.h"

static const struct {
	const char *name;
	unsigned users;
} functions[] = {
#define X(name, version, arguments, users) {#name #version, users},
#include "driver/cuda_functions.def"
#undef X
};
#define FUNCTIONS (sizeof(functions) / sizeof(functions[0]))

static const struct {
	enum driver_user user;
	int status;
	const char *text;
} users[] = {
	{FOR_RECORDING, PROTON_E_VERSION, "recording requires a newer driver"},
	{FOR_METRICS, PROTON_E_UNSUPPORTED, "device metrics require a newer driver"},
	{FOR_INTRA, PROTON_E_UNSUPPORTED, "instrumentation requires a newer driver"},
};
#define USERS (sizeof(users) / sizeof(users[0]))

/* A libcuda that lacks a function; and a thread that stops while it loads libcuda. */
static const char *missing = "";
static _Atomic bool is_stopping;
static sem_t stopped;
static sem_t released;
void *__real_dlsym(void *handle, const char *name);
void *__wrap_dlsym(void *handle, const char *name);

void *__wrap_dlsym(void *handle, const char *name)
{
	if (atomic_exchange(&is_stopping, false)) {
		sem_post(&stopped);
		sem_wait(&released);
	}
	return strcmp(name, missing) == 0 ? NULL : __real_dlsym(handle, name);
}

static void need_fake(void)
{
	if (!getenv("PROTON_CUDA_PATH"))
		SKIP("no fake libraries: run by `meson test`");
}

/* Runs in its own process, because a loaded library stays loaded. */
static void in_child(void (*run)(size_t), size_t index)
{
	int status;

	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		alarm(20);
		run(index);
		exit(0);
	}
	CHECK_LT(0, pid);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		FAIL("%s: see above", functions[index].name);
}

/* In a copy of this program: prints why there is no libcuda. */
#define SHOWS_ERROR "TEST_SHOWS_ERROR"

__attribute__((constructor)) static void show_error(void)
{
	struct proton_error err = {0};

	if (!getenv(SHOWS_ERROR))
		return;
	driver_load_cuda(FOR_RECORDING, &err);
	dprintf(STDOUT_FILENO, "loading: %s\n", err.text);
	_exit(0);
}

/* A copy of this program with its owner's rights, in a new directory. */
static void copy_privileged(char *directory, char *path, size_t capacity)
{
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), to;
	struct stat st;

	CHECK(mkdtemp(directory));
	CHECK_EQ(chmod(directory, 0755), 0);
	snprintf(path, capacity, "%s/program", directory);
	to = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
	CHECK(from >= 0 && to >= 0);
	CHECK_EQ(fstat(from, &st), 0);
	for (off_t done = 0; done < st.st_size;)
		CHECK_LT(0, sendfile(to, from, &done, (size_t)(st.st_size - done)));
	CHECK_EQ(fchmod(to, 04755), 0);
	close(from);
	close(to);
}

/* Runs it as another user, with a planted library, and reads what it prints. */
static void run_as_other_user(const char *path, char *text, size_t capacity)
{
	char *const words[] = {(char[]){"program"}, NULL};
	char *const environment[] = {(char[]){"PROTON_CUDA_PATH=/planted/libcuda.so.1"},
				     (char[]){SHOWS_ERROR "=1"}, NULL};
	int ends[2];

	CHECK_EQ(pipe(ends), 0);
	pid_t pid = fork();
	if (pid == 0) {
		alarm(20);
		dup2(ends[1], STDOUT_FILENO);
		if (setgroups(0, NULL) == 0 && setgid(65534) == 0 && setuid(65534) == 0)
			execve(path, words, environment);
		_exit(1);
	}
	close(ends[1]);
	ssize_t length = read(ends[0], text, capacity - 1);
	text[length > 0 ? length : 0] = '\0';
	close(ends[0]);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
}

TEST(a_privileged_program_does_not_load_what_the_environment_names)
{
	char directory[] = "/tmp/test_driver.XXXXXX";
	char path[64], text[600];

	skip_if_emulated("the emulator starts no further programs of its processor");
	if (geteuid() != 0 || TAP_IS_SANITIZED)
		SKIP("making a setuid program needs root, and no sanitizer");
	copy_privileged(directory, path, sizeof(path));
	run_as_other_user(path, text, sizeof(text));
	CHECK_HAS(text, "loading: ");
	CHECK(!strstr(text, "planted"));
	CHECK_EQ(chmod(path, 0755), 0); /* the same program without the rights */
	run_as_other_user(path, text, sizeof(text));
	CHECK_HAS(text, "/planted/libcuda.so.1");
	unlink(path);
	rmdir(directory);
}

TEST(missing_library_is_an_error_until_there_is_one)
{
	struct proton_error err = {0};

	need_fake();
	char *fake = strdup(getenv("PROTON_CUDA_PATH"));
	setenv("PROTON_CUDA_PATH", "/nonexistent/libcuda.so.1", 1);
	CHECK(!driver_cuda_is_likely());
	for (size_t i = 0; i < USERS; i++) {
		CHECK_EQ(driver_load_cuda(users[i].user, &err), PROTON_E_NOLIB);
		CHECK_HAS(err.text, "cannot load the NVIDIA driver's libcuda.so.1: /nonexistent/");
	}
	CHECK_EQ(driver_bind(false, &err), PROTON_E_NOLIB);
	CHECK(!driver_is_bound());
	setenv("PROTON_CUDA_PATH", fake, 1);
	CHECK(driver_cuda_is_likely());
	CHECK_OK(driver_load_cuda(FOR_RECORDING, &err), err);
	setenv("PROTON_CUDA_PATH", "/nonexistent/libcuda.so.1", 1); /* it is loaded once */
	for (size_t i = 0; i < USERS; i++)
		CHECK_OK(driver_load_cuda(users[i].user, &err), err);
	CHECK_OK(driver_bind(false, &err), err);
	free(fake);
}

static void load_without(size_t index)
{
	const char *name = functions[index].name;
	struct proton_error err;

	missing = name;
	for (size_t i = 0; i < USERS; i++) {
		if (!(functions[index].users & users[i].user)) {
			CHECK_OK(driver_load_cuda(users[i].user, &err), err);
			continue;
		}
		CHECK_EQ(driver_load_cuda(users[i].user, &err), users[i].status);
		CHECK_HAS(err.text, users[i].text);
		CHECK_HAS(err.text, name);
	}
	CHECK_EQ(driver_bind(false, &err) == PROTON_OK, !(functions[index].users & FOR_INTRA));
	CHECK_EQ(driver_is_bound(), !(functions[index].users & FOR_INTRA));
	if (driver_is_bound())
		CHECK_EQ(driver.cuModuleLoadData != NULL,
			 !(functions[index].users & FOR_CALIBRATION));
}

TEST(missing_function_is_an_error_for_its_users_only)
{
	need_fake();
	for (size_t i = 0; i < FUNCTIONS; i++)
		in_child(load_without, i);
}

static void load_again(size_t index)
{
	struct proton_error err;

	missing = functions[index].name;
	for (size_t i = 0; i < USERS; i++)
		if (functions[index].users & users[i].user)
			CHECK_EQ(driver_load_cuda(users[i].user, &err), users[i].status);
	missing = "";
	for (size_t i = 0; i < USERS; i++)
		CHECK_OK(driver_load_cuda(users[i].user, &err), err);
}

TEST(failed_load_is_not_remembered)
{
	need_fake();
	for (size_t i = 0; i < FUNCTIONS; i++)
		in_child(load_again, i);
}

/* `arch` is the compute capability without its point. */
static void check_device(uint32_t id, uint32_t ordinal, const char *arch)
{
	const struct device *device = devices_get(id);
	const struct fake_gpu *gpu = fake_cuda_gpu((int)ordinal);
	char name[32];

	CHECK(device && gpu);
	snprintf(name, sizeof(name), "Fake GPU %u", ordinal);
	CHECK_STR(device->type, "CUDA");
	CHECK_EQ(device->id, ordinal);
	CHECK_STR(device->name, name);
	CHECK_STR(device->arch, arch);
	CHECK_U64(device->processors, gpu->processors);
	CHECK_U64(device->clock_khz, gpu->clock_khz);
	CHECK_U64(device->memory_clock_khz, gpu->memory_clock_khz);
	CHECK_U64(device->bus_width_bits, gpu->bus_width_bits);
}

TEST(architecture_is_the_compute_capability)
{
	static const char *const archs[] = {"121", "120", "100", "90", "89", "86", "80", "75"};

	need_fake();
	setenv("FAKE_CUDA_GPUS", "GB10,RTX 5090,B200,H200,L4,A40,A100,T4", 1);
	CHECK_DONE(driver_load_cuda(FOR_RECORDING, &err));
	for (uint32_t i = 0; i < 8; i++)
		check_device(gpu_device_of_cuda(i), i, archs[i]);
}

TEST(properties_are_read_once_per_device_for_all_users)
{
	uint32_t (*calls)(const char *name);
	uint32_t first, second, queries;

	fake_find(&calls, fake_open("PROTON_CUDA_PATH"), "fake_calls");
	CHECK_DONE(driver_load_cuda(FOR_RECORDING, &err));
	second = gpu_device_of_cuda(1);
	first = gpu_device_of_cuda(0);
	check_device(first, 0, "90");
	check_device(second, 1, "89");
	queries = calls("cuDeviceGetAttribute");
	CHECK_DONE(driver_bind(false, &err));
	int mode = driver_own_begin();
	CHECK_EQ(gpu_device_here(), first);
	CHECK_U64(gpu_device_timer_khz(), 1000000);
	driver_own_end(mode);
	CHECK_EQ(gpu_device_of_cuda(1), second);
	CHECK_EQ(gpu_device_of_cuda(DEVICE_MAX), DEVICE_NONE);
	CHECK_EQ(calls("cuDeviceGetName"), 2);
	CHECK_EQ(calls("cuDeviceGetAttribute"), queries);
}

TEST(a_device_without_an_identity_is_described)
{
	char uuid[48];

	need_fake();
	CHECK_DONE(driver_load_cuda(FOR_RECORDING, &err));
	setenv("FAKE_CUDA_NO_ID", "1", 1);
	const struct device *device = devices_get(gpu_device_of_cuda(1));
	CHECK(device);
	CHECK_STR(device->name, "Fake GPU 1");
	CHECK_STR(device->pci, "");
	CHECK_STR(device->uuid, "");
	unsetenv("FAKE_CUDA_NO_ID");
	device = devices_get(gpu_device_of_cuda(0));
	CHECK(device);
	CHECK_STR(device->pci, "0000:4e:00.0");
	snprintf(uuid, sizeof(uuid), FAKE_GPU_UUID, (unsigned)getpid());
	CHECK_STR(device->uuid, uuid);
}

TEST(the_capture_mode_of_the_thread_is_restored_after_own_work)
{
	int (*exchange)(int *mode);

	fake_find(&exchange, fake_open("PROTON_CUDA_PATH"), "cuThreadExchangeStreamCaptureMode");
	CHECK_DONE(driver_bind(false, &err));
	for (int first = 0; first <= 1; first++) {
		int mode = first;

		exchange(&mode);
		CHECK_EQ(driver_own_begin(), first);
		CHECK(record_is_own_work());
		mode = DRIVER_CAPTURE_RELAXED;
		exchange(&mode);
		CHECK_EQ(mode, DRIVER_CAPTURE_RELAXED);
		driver_own_end(first);
		CHECK(!record_is_own_work());
		mode = first;
		exchange(&mode);
		CHECK_EQ(mode, first);
	}
	setenv("FAKE_CUDA_FAIL", "cuThreadExchangeStreamCaptureMode=999", 1);
	CHECK_EQ(driver_own_begin(), -1);
	unsetenv("FAKE_CUDA_FAIL");
	driver_own_end(-1);
	CHECK(!record_is_own_work());
}

TEST(without_a_context_there_is_no_device)
{
	void (*fail)(const char *name, uint32_t first, uint32_t count, int code);

	fake_find(&fail, fake_open("PROTON_CUDA_PATH"), "fake_fail");
	CHECK_DONE(driver_bind(false, &err));
	fail("cuCtxGetDevice", 1, 1, 201);
	CHECK_EQ(gpu_device_here(), DEVICE_NONE);
	CHECK_EQ(gpu_device_here(), 0);
}

static void *load(void *unused)
{
	CHECK_DONE(driver_load_cuda(FOR_RECORDING, &err));
	return NULL;
}

static void load_in_child(size_t unused)
{
	load(NULL);
	CHECK_EQ(gpu_device_of_cuda(1), 0);
}

TEST(child_can_load_libcuda_that_a_thread_of_the_parent_was_loading)
{
	pthread_t thread;

	need_fake();
	if (libcuda.cuDriverGetVersion)
		SKIP("needs its own process: another test has loaded libcuda");
	sem_init(&stopped, 0, 0);
	sem_init(&released, 0, 0);
	atomic_store(&is_stopping, true);
	CHECK_EQ(pthread_create(&thread, NULL, load, NULL), 0);
	sem_wait(&stopped);
	in_child(load_in_child, 0);
	sem_post(&released);
	CHECK_EQ(pthread_join(thread, NULL), 0);
}
