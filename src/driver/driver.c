/* Loading of libcuda, and the choice between it and HIP for instrumented kernels. */
#include "driver/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include "base/array.h"
#include "base/environment.h"
#include "base/message.h"
#include "driver/hip_driver.h"
#include "driver/library_search.h"

enum vendor {
	NONE,
	CUDA,
	HIP
};

struct driver libcuda;
struct driver libhip;
struct driver driver;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic enum vendor bound;

static const struct function cuda_functions[] = {
#define X(name, version, arguments, users) {#name #version, offsetof(struct driver, name), users},
#include "driver/cuda_functions.def"
#undef X
};

/* ------------------------------------------------------------------ libcuda */

static void *open_cuda(void)
{
	const char *named = library_search_value("PROTON_CUDA_PATH"); /* for tests: a fake */

	return dlopen(named ?: "libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
}

bool driver_cuda_is_likely(void)
{
	void *library = open_cuda();

	if (!library)
		return false;
	dlclose(library);
	/* Some images ship the library without a device; WSL has /dev/dxg instead. */
	return environment_get("PROTON_CUDA_PATH") || access("/dev/nvidiactl", F_OK) == 0 ||
	       access("/dev/dxg", F_OK) == 0;
}

static const char *missing_for(unsigned users)
{
	return functions_missing(cuda_functions, ARRAY_LENGTH(cuda_functions), &libcuda, users);
}

static int load_cuda(enum driver_user user, struct proton_error *err)
{
	static bool is_loaded; /* some user has what it needs */

	if (!is_loaded) {
		void *library = open_cuda();

		if (!library)
			return err_set(err, PROTON_E_NOLIB,
				       "cannot load the NVIDIA driver's libcuda.so.1: %s",
				       dlerror());
		functions_bind(library, cuda_functions, ARRAY_LENGTH(cuda_functions), &libcuda);
	}
	const char *missing = missing_for(user);
	if (missing)
		return err_set(err, user == FOR_RECORDING ? PROTON_E_VERSION : PROTON_E_UNSUPPORTED,
			       "%s a newer driver: libcuda.so.1 does not provide %s",
			       user == FOR_RECORDING ? "recording requires"
			       : user == FOR_METRICS ? "device metrics require"
						     : "instrumentation requires",
			       missing);
	is_loaded = true;
	return PROTON_OK;
}

static void forget_in_child(void)
{
	pthread_mutex_init(&lock, NULL);
	hip_driver_forget();
}

static void register_fork(void)
{
	pthread_atfork(NULL, NULL, forget_in_child);
}

static void begin_loading(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, register_fork);
	pthread_mutex_lock(&lock);
}

int driver_load_cuda(enum driver_user user, struct proton_error *err)
{
	begin_loading();
	int status = load_cuda(user, err);
	pthread_mutex_unlock(&lock);
	return status;
}

int driver_load_hip(struct proton_error *err)
{
	begin_loading();
	int status = hip_driver_bind(&libhip, err);
	pthread_mutex_unlock(&lock);
	return status;
}

/* ------------------------------------------------------------------ instrumented kernels */

int driver_look(struct proton_error *err)
{
	if (hip_driver_is_likely() || open_cuda())
		return PROTON_OK;
	return err_set(
		err, PROTON_E_NOLIB,
		"instrumentation requires a GPU: found neither an NVIDIA driver (%s) nor an AMD "
		"driver (no libamdhip64.so, no /dev/kfd)",
		dlerror());
}

static int bind(bool is_amd, struct proton_error *err)
{
	TRY(is_amd ? hip_driver_bind(&libhip, err) : load_cuda(FOR_INTRA, err));
	driver = is_amd ? libhip : libcuda;
	if (!is_amd && missing_for(FOR_CALIBRATION))
		driver.cuModuleLoadData = NULL; /* which calibrate() checks */
	return PROTON_OK;
}

int driver_bind(bool is_amd, struct proton_error *err)
{
	enum vendor wanted = is_amd ? HIP : CUDA;
	int status = PROTON_OK;

	begin_loading();
	enum vendor now = atomic_load_explicit(&bound, memory_order_relaxed);
	if (now == NONE)
		status = bind(is_amd, err);
	else if (now != wanted)
		status = err_set(
			err, PROTON_E_UNSUPPORTED,
			"the kernel is for %s GPUs, but this process has already instrumented "
			"kernels for %s GPUs",
			is_amd ? "AMD" : "NVIDIA", is_amd ? "NVIDIA" : "AMD");
	if (status == PROTON_OK)
		/* release: pairs with driver_is_bound */
		atomic_store_explicit(&bound, wanted, memory_order_release);
	pthread_mutex_unlock(&lock);
	return status;
}

bool driver_cuda_synchronize(void *context)
{
	bool is_popped = false;
	void *popped;

	if (libcuda.cuCtxPushCurrent(context) != 0)
		return false;
	bool done = libcuda.cuCtxSynchronize() == 0;
	/* If it stays pushed, the program continues in the wrong context: try twice. */
	for (int tries = 0; tries < 2 && !is_popped; tries++)
		is_popped = libcuda.cuCtxPopCurrent(&popped) == 0;
	if (!is_popped)
		message_once(
			"cuCtxPopCurrent failed: the current CUDA context of the calling thread "
			"has changed");
	return done;
}

bool driver_is_bound(void)
{
	return atomic_load_explicit(&bound, memory_order_acquire) != NONE;
}

bool driver_is_hip(void)
{
	return atomic_load_explicit(&bound, memory_order_acquire) == HIP;
}
