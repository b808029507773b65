/*
 * Search for libcupti and loading of its functions. First hit wins:
 *
 * 1. $PROTON_CUPTI_PATH, a file or a directory; nothing else is tried
 * 2. $TRITON_CUPTI_LIB_PATH, a directory; nothing else is tried
 * 3. a copy that the process has already loaded (with two copies, each sees half of the work)
 * 4. NVIDIA's wheel, then Triton's, in the site-packages of any library the process has loaded
 * 5. $CUDA_HOME, $CUDA_PATH, /usr/local/cuda: extras/CUPTI/lib64, lib64
 * 6. the loader's search path
 */
#include "backend/cuda/cupti_api.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/environment.h"
#include "driver/driver.h"
#include "driver/library_search.h"

struct cupti_api libcupti;

enum need {
	NEEDED_FIRST = 1,  /* by CUPTI's first interface */
	NEEDED_SECOND = 2, /* by the second */
};

/* Newest first. Triton's wheel and SDKs without versions use the bare name. */
static const char *const sonames[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so", NULL};

static int try_site_packages(struct dl_phdr_info *info, size_t size, void *data)
{
	static const char *const places[] = {
		"nvidia/cu13/lib",
		"nvidia/cuda_cupti/lib",
		"triton/backends/nvidia/lib/cupti",
	};
	size_t packages = library_search_packages(info->dlpi_name);
	char root[1024];

	snprintf(root, sizeof(root), "%.*s", (int)packages, info->dlpi_name);
	for (size_t i = 0; packages && i < ARRAY_LENGTH(places); i++)
		if (library_search_below(data, root, places[i]))
			return 1;
	return 0;
}

static bool try_toolkits(struct library_search *search)
{
	const char *roots[] = {environment_get("CUDA_HOME"), environment_get("CUDA_PATH"),
			       "/usr/local/cuda"};

	for (size_t i = 0; i < ARRAY_LENGTH(roots); i++)
		if (roots[i] && (library_search_below(search, roots[i], "extras/CUPTI/lib64") ||
				 library_search_below(search, roots[i], "lib64")))
			return true;
	return false;
}

static void search_places(struct library_search *search)
{
	if (library_search_named(search, "PROTON_CUPTI_PATH") ||
	    library_search_named(search, "TRITON_CUPTI_LIB_PATH") ||
	    library_search_loader(search, RTLD_NOLOAD))
		return;
	library_search_note(search, "the process");
	if (dl_iterate_phdr(try_site_packages, search))
		return;
	library_search_note(search, "NVIDIA's and Triton's wheels");
	if (try_toolkits(search))
		return;
	library_search_note(search, "CUDA_HOME, CUDA_PATH, /usr/local/cuda");
	if (!library_search_loader(search, 0))
		library_search_note(search, "the loader's path");
}

/* NULL: there is none. */
static void *open_cupti(struct proton_error *err)
{
	struct library_search search = {.names = sonames};
	struct link_map *map;

	search_places(&search);
	if (!search.handle)
		err_set(err, PROTON_E_NOLIB,
			"cannot find libcupti (searched: %s); run pip install nvidia-cuda-cupti, "
			"or set PROTON_CUPTI_PATH to its directory",
			search.tried);
	else if (dlinfo(search.handle, RTLD_DI_LINKMAP, &map) == 0)
		snprintf(libcupti.path, sizeof(libcupti.path), "%s", map->l_name);
	return search.handle;
}

void cupti_api_version_text(uint32_t version, char *text, size_t capacity)
{
	/* 22 is 12.4 ... 27 is 12.9; from 13.0 on xxyyzz. */
	if (version >= 130000)
		snprintf(text, capacity, "%u.%u", version / 10000, version / 100 % 100);
	else if (version >= 18 && version < 100)
		snprintf(text, capacity, "12.%u", version - 18);
	else
		snprintf(text, capacity, "(version code %u)", version);
}

/*
 * Only too old a libcupti is refused. Whether it works with the driver is tried: drivers accept
 * newer and older versions of CUPTI in ways that the version numbers do not show.
 */
static int read_version(struct proton_error *err)
{
	char text[32];

	/* From 13.2 on this fails without a driver that CUPTI supports. */
	if (!libcupti.cuptiGetVersion)
		return PROTON_OK; /* it is reported as missing */
	if (libcupti.cuptiGetVersion(&libcupti.version) != CUPTI_OK)
		return err_set(
			err, PROTON_E_VERSION,
			"cannot determine the version of %s (driver: CUDA %d.%d); update the "
			"driver, or set PROTON_CUPTI_PATH to an older libcupti",
			libcupti.path, libcupti.driver / 1000, libcupti.driver % 1000 / 10);
	cupti_api_version_text(libcupti.version, text, sizeof(text));
	if (libcupti.version < 22)
		return err_set(err, PROTON_E_VERSION, "%s is CUPTI %s; 12.4 or later is required",
			       libcupti.path, text);
	return PROTON_OK;
}

static int load_cupti(struct proton_error *err)
{
	static const struct function functions[] = {
#define O(name, args) {#name, offsetof(struct cupti_api, name), 0},
#define F(name, args) {#name, offsetof(struct cupti_api, name), NEEDED_FIRST},
#define S(name, args) {#name, offsetof(struct cupti_api, name), NEEDED_SECOND},
#define V(name, args) {#name, offsetof(struct cupti_api, name), NEEDED_FIRST | NEEDED_SECOND},
#include "backend/cuda/cupti_symbols.def"
#undef V
	};
	int status = driver_load_cuda(FOR_RECORDING, err);
	void *library = status == PROTON_OK ? open_cupti(err) : NULL;

	if (!library)
		return status == PROTON_OK ? PROTON_E_NOLIB : status;
	functions_bind(library, functions, ARRAY_LENGTH(functions), &libcupti);
	libcupti.missing_first =
		functions_missing(functions, ARRAY_LENGTH(functions), &libcupti, NEEDED_FIRST);
	libcupti.missing_second =
		functions_missing(functions, ARRAY_LENGTH(functions), &libcupti, NEEDED_SECOND);
	if (libcuda.cuDriverGetVersion(&libcupti.driver) != 0)
		libcupti.driver = 0;
	status = read_version(err);
	if (status == PROTON_OK && libcupti.missing_first &&
	    (libcupti.missing_second || libcupti.version < CUPTI_VERSION_SECOND))
		status = err_set(err, PROTON_E_VERSION,
				 "%s does not provide %s; it is older than CUDA 12.4",
				 libcupti.path, libcupti.missing_first);
	return status;
	/* libcupti is never closed: its threads and callbacks may still run. */
}

int cupti_api_load(struct proton_error *err)
{
	static struct functions_once once = {.lock = PTHREAD_MUTEX_INITIALIZER};

	return functions_load_once(&once, load_cupti, err);
}

void cupti_api_preload_host(void)
{
	static bool is_done;
	char path[1100];
	const char *slash = strrchr(libcupti.path, '/');

	if (is_done || !slash)
		return;
	is_done = true;
	snprintf(path, sizeof(path), "%.*s/libnvperf_host.so", (int)(slash - libcupti.path),
		 libcupti.path);
	dlopen(path, RTLD_NOW | RTLD_GLOBAL);
}

/* ILLEGAL_ADDRESS to LAUNCH_FAILED, and the errors between: a context with one of them is lost. */
#define CUDA_E_LOST_FIRST 700
#define CUDA_E_LOST_LAST 719

/* Tools that use CUPTI, and a library that identifies each. */
static const struct tool {
	const char *library;
	const char *name;
} tools[] = {
	{"libToolsInjection", "nsys"},
	{"libcuda-injection", "ncu"},
	{"libtorch_cuda", "torch.profiler"},
};

static int find_tool(struct dl_phdr_info *info, size_t size, void *data)
{
	const struct tool **found = data;

	for (size_t i = 0; i < ARRAY_LENGTH(tools); i++)
		if (strstr(info->dlpi_name, tools[i].library) && (!*found || &tools[i] < *found))
			*found = &tools[i];
	return 0;
}

/* Sets `data`, a char **, to the path of a second libcupti in this process. */
static int find_other_cupti(struct dl_phdr_info *info, size_t size, void *data)
{
	const char *slash = strrchr(info->dlpi_name, '/');

	if (!slash || strncmp(slash, "/libcupti.so", 12) != 0 ||
	    strcmp(info->dlpi_name, libcupti.path) == 0)
		return 0;
	*(const char **)data = info->dlpi_name;
	return 1;
}

static void no_callback(void *user, uint32_t domain, uint32_t call, const void *data)
{
}

/*
 * CUPTI 13.0 and later report the subscriber, through the newer subscribe call. From 13.3 on that
 * call, if it succeeds, excludes the first interface: there interface.c has tried it, or must not.
 */
static void ask_who(char *name)
{
	struct cupti_subscriber_params params = {
		.size = offsetof(struct cupti_subscriber_params, allows_several),
		.name = "Proton",
		.other_name = name,
		.other_name_bytes = CUPTI_SUBSCRIBER_NAME_BYTES,
	};
	void *subscriber = NULL;

	memcpy(name, libcupti.other_name, sizeof(libcupti.other_name));
	if (libcupti.cuptiSubscribe_v2 && libcupti.version < CUPTI_VERSION_SECOND &&
	    libcupti.cuptiSubscribe_v2(&subscriber, no_callback, NULL, &params) == CUPTI_OK)
		libcupti.cuptiUnsubscribe(subscriber); /* the other tool has just unsubscribed */
}

static int busy_error(const char *call, const char *text, struct proton_error *err)
{
	char name[CUPTI_SUBSCRIBER_NAME_BYTES + 1] = "";
	const struct tool *tool = NULL;
	const char *other_cupti = NULL;

	ask_who(name);
	dl_iterate_phdr(find_tool, &tool);
	dl_iterate_phdr(find_other_cupti, &other_cupti);
	return err_set(err, PROTON_E_BUSY,
		       "CUPTI is already in use by another tool in this process (%s%s%s); stop "
		       "that tool first%s%s%s [%s: %s]",
		       *name  ? name
		       : tool ? tool->name
			      : "torch.profiler, nsys, ncu, a second Proton",
		       *name && tool ? "; here: " : "", *name && tool ? tool->name : "",
		       tool == &tools[2]
			       ? "; torch.profiler holds CUPTI until the process exits, or, if "
				 "TEARDOWN_CUPTI=1 was set when it started, until the next CUDA "
				 "call after it"
			       : "",
		       other_cupti ? "; both tools must use the same libcupti: "
				     "set PROTON_CUPTI_PATH to "
				   : "",
		       other_cupti ? other_cupti : "", call, text);
}

/* CUPTI does not work with the driver. */
static int driver_error(const char *call, const char *text, struct proton_error *err)
{
	char version[32];

	cupti_api_version_text(libcupti.version, version, sizeof(version));
	return err_set(err, PROTON_E_VERSION,
		       "CUPTI %s does not support this driver (CUDA %d.%d); update the driver, or "
		       "set PROTON_CUPTI_PATH to a libcupti older than %s [%s: %s]",
		       version, libcupti.driver / 1000, libcupti.driver % 1000 / 10, libcupti.path,
		       call, text);
}

/* The error of the current CUDA context that only a new process ends; 0: none is known. */
static int lost_context(void)
{
	int result = libcuda.cuStreamQuery ? libcuda.cuStreamQuery(NULL) : 0;

	return result >= CUDA_E_LOST_FIRST && result <= CUDA_E_LOST_LAST ? result : 0;
}

/* NOT_INITIALIZED has two causes. */
static int not_initialized_error(const char *call, const char *text, struct proton_error *err)
{
	int lost = lost_context();
	char code[48] = "";

	if (!lost && !libcupti.has_worked)
		return driver_error(call, text, err);
	if (lost)
		snprintf(code, sizeof(code), " (CUDA error %d)", lost);
	return err_set(err, PROTON_E_STATE,
		       "CUPTI does not work any more in this process: its CUDA context is lost%s; "
		       "look for the first CUDA error that the program got, and start the process "
		       "again [%s: %s]",
		       code, call, text);
}

int cupti_api_error(int result, const char *call, struct proton_error *err)
{
	const char *text = NULL;

	if (libcupti.cuptiGetResultString(result, &text) != CUPTI_OK || !text)
		text = "unknown error";
	switch (result) {
	case CUPTI_E_MULTIPLE_SUBSCRIBERS:
		return busy_error(call, text, err);
	case CUPTI_E_NOT_INITIALIZED:
		return not_initialized_error(call, text, err);
	case CUPTI_E_INSUFFICIENT_PRIVILEGES:
		return err_set(
			err, PROTON_E_PERMISSION,
			"the driver restricts profiling to administrators; load nvidia.ko with "
			"NVreg_RestrictProfilingToAdminUsers=0, or run as root [%s: %s]",
			call, text);
	case CUPTI_E_HARDWARE_BUSY:
		return err_set(
			err, PROTON_E_BUSY,
			"another process measures this GPU (DCGM, Nsight Compute, a profiler); "
			"wait for its end, or pause DCGM with \"dcgmi profile --pause\" [%s: "
			"%s]",
			call, text);
	default:
		return err_set(err, PROTON_E_IO, "%s failed: %s (%d)", call, text, result);
	}
}
