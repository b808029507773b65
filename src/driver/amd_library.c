/*
 * Search for the libraries of ROCm. First hit wins:
 *
 * 1. the variable of Proton for it (`named` below), a file or a directory; nothing else is tried
 * 2. a copy that the process has already loaded
 * 3. Triton's variables for it, which ROCm's wheels set too; nothing else is tried
 * 4. the home: the directory of the libamdhip64 that the process uses. It is the loaded one, else
 *    that of $TRITON_LIBHIP_PATH, else that of PyTorch or of ROCm's wheel in the site-packages of
 *    any library the process has loaded
 * 5. $ROCM_PATH/lib, the loader's search path, /opt/rocm/lib, unless a library from there would
 *    bring a second HSA runtime
 *
 * In each directory versioned names come first: ROCm's wheels have no others.
 */
#include "driver/amd_library.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "base/array.h"
#include "base/environment.h"
#include "driver/library_search.h"

#define NAMES_MAX 4

static const struct entry {
	const char *names[NAMES_MAX]; /* in order of preference */
	const char *named;     /* Proton's variable; for tests and for special installations */
	const char *directory; /* Triton's variables */
	const char *file;
	const char *advice;
} entries[AMD_LIBRARIES] = {
	[AMD_HIP] = {{"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so"},
		     "PROTON_HIP_PATH",
		     NULL,
		     "TRITON_LIBHIP_PATH",
		     "install ROCm"},
	[AMD_HSA] = {{"libhsa-runtime64.so.1", "libhsa-runtime64.so"},
		     "PROTON_HSA_PATH",
		     "TRITON_HSA_RUNTIME_PATH",
		     "TRITON_HSA_RUNTIME_LIBRARY",
		     "install ROCm"},
	/* 0.x is found too, and then refused by its version. */
	[AMD_ROCPROFILER_SDK] = {{"librocprofiler-sdk.so.1", "librocprofiler-sdk.so",
				  "librocprofiler-sdk.so.0"},
				 "PROTON_ROCPROFILER_SDK_PATH",
				 "TRITON_ROCPROFILER_SDK_LIB_PATH",
				 "TRITON_ROCPROFILER_SDK_LIBRARY",
				 "install rocprofiler-sdk of the same ROCm (7.0 or later)"},
	[AMD_REGISTER] = {.names = {"librocprofiler-register.so"}},
	[AMD_TORCH] = {.names = {"libtorch_cpu.so"}},
	[AMD_SDK_ROCTX] = {{"librocprofiler-sdk-roctx.so.1", "librocprofiler-sdk-roctx.so"},
			   "PROTON_SDK_ROCTX_PATH",
			   NULL,
			   NULL,
			   "install rocprofiler-sdk of the same ROCm (7.0 or later)"},
	[AMD_ROCTRACER] = {{"libroctracer64.so.4", "libroctracer64.so"},
			   "PROTON_ROCTRACER_PATH",
			   "TRITON_ROCTRACER_LIB_PATH",
			   "TRITON_ROCTRACER_LIBRARY",
			   "install roctracer of the same ROCm (6.x)"},
	[AMD_ROCTX] = {{"libroctx64.so.4", "libroctx64.so"},
		       "PROTON_ROCTX_PATH",
		       "TRITON_ROCTX_LIB_PATH",
		       "TRITON_ROCTX_LIBRARY",
		       "install roctracer of the same ROCm"},
};

struct search {
	struct library_search in;
	const struct entry *entry;
	char home[PATH_MAX];
	const char *near;
};

/* ------------------------------------------------------------------ the process */

struct loaded {
	const struct entry *entry;
	char *path_out; /* PATH_MAX */
};

static int match_loaded(struct dl_phdr_info *info, size_t size, void *user)
{
	const struct loaded *wanted = user;
	const char *slash = strrchr(info->dlpi_name, '/');
	const char *name = slash ? slash + 1 : info->dlpi_name;
	const char *so = strstr(wanted->entry->names[0], ".so");

	if (strncmp(name, *wanted->entry->names, (size_t)(so + 3 - *wanted->entry->names)) != 0 ||
	    strlen(info->dlpi_name) >= PATH_MAX)
		return 0;
	strcpy(wanted->path_out, info->dlpi_name); /* NOLINT(*.strcpy): checked */
	return 1;
}

/* By its file name, of any version: PyTorch has its own copies, with other sonames than ROCm's. */
static bool find_loaded(const struct entry *entry, char path_out[static PATH_MAX])
{
	return dl_iterate_phdr(match_loaded, &(struct loaded){entry, path_out}) != 0;
}

void *amd_library_get_loaded(enum amd_library library)
{
	const struct entry *entry = &entries[library];
	const char *named = library_search_value(entry->named);
	char path[PATH_MAX];

	if (named)
		return dlopen(named, RTLD_LAZY | RTLD_NOLOAD);
	return find_loaded(entry, path) ? dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
}

bool amd_library_is_likely(void)
{
	const char *named = library_search_value(entries[AMD_HIP].named);

	if (named)
		return access(named, R_OK) == 0;
	return amd_library_get_loaded(AMD_HIP) || access("/dev/kfd", F_OK) == 0;
}

/* ------------------------------------------------------------------ named by the user */

/* The path of a file in a directory; false: there is none. */
static bool find_file(const char *directory, const char *name, char path_out[static PATH_MAX])
{
	int length = snprintf(path_out, PATH_MAX, "%s/%s", directory, name);

	return length > 0 && length < PATH_MAX && access(path_out, R_OK) == 0;
}

static bool has_file(const char *directory, const char *name)
{
	return find_file(directory, name, (char[PATH_MAX]){0});
}

/* Triton has a directory and a file name, which may also be a path. True if one is set. */
static bool try_triton(struct search *search)
{
	const struct entry *entry = search->entry;
	const char *directory = library_search_value(entry->directory);
	const char *file = library_search_value(entry->file);
	char path[PATH_MAX];

	if (!file || !directory || *file == '/')
		return library_search_named(&search->in, file ? entry->file : entry->directory);
	bool exists = find_file(directory, file, path);
	library_search_note(&search->in, path);
	if (exists)
		library_search_file(&search->in, path);
	return true;
}

/* ------------------------------------------------------------------ the home */

/* In the site-packages that `path` is in. */
static bool find_wheel_near(struct search *search, const char *path)
{
	static const char *const places[] = {"torch/lib", "_rocm_sdk_core/lib"};
	size_t packages = library_search_packages(path);

	for (size_t i = 0; packages && i < ARRAY_LENGTH(places); i++) {
		const struct entry *hip = &entries[AMD_HIP];
		int length = snprintf(search->home, sizeof(search->home), "%.*s/%s", (int)packages,
				      path, places[i]);

		if (length <= 0 || (size_t)length >= sizeof(search->home))
			continue;
		for (size_t j = 0; j < NAMES_MAX && hip->names[j]; j++)
			if (has_file(search->home, hip->names[j]))
				return true;
	}
	*search->home = '\0';
	return false;
}

static int find_wheel(struct dl_phdr_info *info, size_t size, void *user)
{
	return find_wheel_near(user, info->dlpi_name);
}

/* The directory of the process's libamdhip64; "" if unknown. */
static void find_home(struct search *search)
{
	if (!find_loaded(&entries[AMD_HIP], search->home)) {
		const char *file = library_search_value(entries[AMD_HIP].file);

		if (!file) {
			dl_iterate_phdr(find_wheel, search);
			return;
		}
		snprintf(search->home, sizeof(search->home), "%s", file);
	}
	char *slash = strrchr(search->home, '/');
	if (slash)
		*slash = '\0';
	else
		*search->home = '\0';
}

/* ROCm's libraries need this name, or a second HSA runtime is loaded beside another's. */
static bool would_load_second_hsa(const struct search *search)
{
	void *handle = dlopen("libhsa-runtime64.so.1", RTLD_LAZY | RTLD_NOLOAD);

	if (handle) {
		dlclose(handle);
		return false;
	}
	if (amd_library_get_loaded(AMD_HSA))
		return true;
	return *search->home && has_file(search->home, "libhsa-runtime64.so") &&
	       !has_file(search->home, "libhsa-runtime64.so.1");
}

/* ------------------------------------------------------------------ the search */

/* The directories of LD_LIBRARY_PATH. The contents of the loader's cache are not known here. */
static bool try_loader_path(struct search *search)
{
	const char *rest = environment_get("LD_LIBRARY_PATH");
	char directory[PATH_MAX];

	while (rest && *rest) {
		size_t length = strcspn(rest, ":;");

		snprintf(directory, sizeof(directory), "%.*s", (int)length, rest);
		if (*directory && library_search_directory(&search->in, directory))
			return true;
		rest += length + (rest[length] != '\0');
	}
	return false;
}

static bool try_system(struct search *search)
{
	const char *root = library_search_value("ROCM_PATH");

	library_search_note(&search->in, "ROCM_PATH, the loader's path, /opt/rocm/lib");
	return (root && library_search_below(&search->in, root, "lib")) ||
	       (search->in.file_out ? try_loader_path(search)
				    : library_search_loader(&search->in, 0)) ||
	       library_search_directory(&search->in, "/opt/rocm/lib");
}

/* True if the search is over. */
static bool try_own(struct search *search)
{
	const struct entry *entry = search->entry;
	bool loads = !search->in.file_out;
	char path[PATH_MAX];

	if (library_search_named(&search->in, entry->named))
		return true;
	library_search_note(&search->in, "the process");
	if (loads && find_loaded(entry, path) && library_search_file(&search->in, path))
		return true;
	if (try_triton(search))
		return true;
	if (loads)
		find_home(search);
	else
		find_wheel_near(search, search->near);
	if (!*search->home)
		return false;
	library_search_note(&search->in, search->home);
	return library_search_directory(&search->in, search->home);
}

static int find_library(struct search *search, struct proton_error *err)
{
	const struct entry *entry = search->entry;

	if (!try_own(search)) {
		if (would_load_second_hsa(search))
			return err_set(err, PROTON_E_NOLIB,
				       "cannot find %s next to the HIP that this process uses, in "
				       "%s; one of another ROCm would crash the process; %s",
				       entry->names[0], search->home, entry->advice);
		try_system(search);
	}
	if (search->in.handle)
		return PROTON_OK;
	if (*search->in.reason)
		return err_set(err, PROTON_E_NOLIB, "cannot load %s: %s", entry->names[0],
			       search->in.reason);
	return err_set(err, PROTON_E_NOLIB,
		       "cannot find %s (searched: %s); %s, or set %s to its directory",
		       entry->names[0], search->in.tried, entry->advice, entry->named);
}

/* ------------------------------------------------------------------ the interface */

static _Atomic(void *) handles[AMD_LIBRARIES];

static struct search search_for(enum amd_library library)
{
	const struct entry *entry = &entries[library];

	return (struct search){.in.names = entry->names, .entry = entry};
}

void *amd_library_open(enum amd_library library, struct proton_error *err)
{
	void *known = atomic_load_explicit(&handles[library], memory_order_acquire);

	if (known)
		return known;
	struct search search = search_for(library);
	/*
	 * The SDK gets into the global scope: librocprofiler-register, to which HIP gives its
	 * functions, looks for it there, and otherwise for a name without version, which wheels do
	 * not have.
	 */
	if (library == AMD_ROCPROFILER_SDK)
		search.in.flags = RTLD_GLOBAL;
	if (find_library(&search, err) != PROTON_OK)
		return NULL;
	/* Two threads may have searched: both use the first one's handle. */
	if (!atomic_compare_exchange_strong(&handles[library], &known, search.in.handle))
		return known;
	return search.in.handle;
}

bool amd_library_find_file(enum amd_library library, const char *near, char path[static PATH_MAX])
{
	struct search search = search_for(library);

	search.in.file_out = path;
	search.near = near;
	/* Wheels with HIP and without the library: another ROCm's is not taken. */
	return try_own(&search) || *search.home ? search.in.is_found : try_system(&search);
}

const char *amd_library_path(enum amd_library library)
{
	void *handle = atomic_load_explicit(&handles[library], memory_order_acquire);
	struct link_map *map;

	return handle && dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 ? map->l_name : NULL;
}
