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
#include <limits.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/environment.h"

#define NAMES_MAX 4

static const struct entry {
	const char *names[NAMES_MAX]; /* in order of preference */
	const char *stem;             /* first part of the names of loaded copies */
	const char *named;     /* Proton's variable; for tests and for special installations */
	const char *directory; /* Triton's variables */
	const char *file;
	const char *advice;
} entries[AMD_LIBRARIES] = {
	[AMD_HIP] = {{"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so"},
		     "libamdhip64.so",
		     "PROTON_HIP_PATH",
		     NULL,
		     "TRITON_LIBHIP_PATH",
		     "install ROCm"},
	[AMD_HSA] = {{"libhsa-runtime64.so.1", "libhsa-runtime64.so"},
		     "libhsa-runtime64.so",
		     "PROTON_HSA_PATH",
		     "TRITON_HSA_RUNTIME_PATH",
		     "TRITON_HSA_RUNTIME_LIBRARY",
		     "install ROCm"},
	/* 0.x is found too, and then refused by its version. */
	[AMD_ROCPROFILER_SDK] = {{"librocprofiler-sdk.so.1", "librocprofiler-sdk.so",
				  "librocprofiler-sdk.so.0"},
				 "librocprofiler-sdk.so",
				 "PROTON_ROCPROFILER_SDK_PATH",
				 "TRITON_ROCPROFILER_SDK_LIB_PATH",
				 "TRITON_ROCPROFILER_SDK_LIBRARY",
				 "install rocprofiler-sdk of the same ROCm (7.0 or later)"},
	[AMD_REGISTER] = {.stem = "librocprofiler-register.so"},
	[AMD_TORCH] = {.stem = "libtorch_cpu.so"},
	[AMD_SDK_ROCTX] = {{"librocprofiler-sdk-roctx.so.1", "librocprofiler-sdk-roctx.so"},
			   "librocprofiler-sdk-roctx.so",
			   "PROTON_SDK_ROCTX_PATH",
			   NULL,
			   NULL,
			   "install rocprofiler-sdk of the same ROCm (7.0 or later)"},
	[AMD_ROCTRACER] = {{"libroctracer64.so.4", "libroctracer64.so"},
			   "libroctracer64.so",
			   "PROTON_ROCTRACER_PATH",
			   "TRITON_ROCTRACER_LIB_PATH",
			   "TRITON_ROCTRACER_LIBRARY",
			   "install roctracer of the same ROCm (6.x)"},
	[AMD_ROCTX] = {{"libroctx64.so.4", "libroctx64.so"},
		       "libroctx64.so",
		       "PROTON_ROCTX_PATH",
		       "TRITON_ROCTX_LIB_PATH",
		       "TRITON_ROCTX_LIBRARY",
		       "install roctracer of the same ROCm"},
};

struct search {
	const struct entry *entry;
	void *handle;
	char tried[640];  /* for the error message */
	char reason[320]; /* why a file that exists could not be loaded */
	char home[PATH_MAX];
	char *file_out; /* not NULL: loads nothing, receives the path; PATH_MAX */
};

/* ------------------------------------------------------------------ the process */

struct loaded {
	const char *stem;
	char *path_out; /* PATH_MAX */
};

static int match_loaded(struct dl_phdr_info *info, size_t size, void *user)
{
	const struct loaded *wanted = user;
	const char *slash = strrchr(info->dlpi_name, '/');
	const char *name = slash ? slash + 1 : info->dlpi_name;

	if (strncmp(name, wanted->stem, strlen(wanted->stem)) != 0 ||
	    strlen(info->dlpi_name) >= PATH_MAX)
		return 0;
	strcpy(wanted->path_out, info->dlpi_name); /* NOLINT(*.strcpy): checked */
	return 1;
}

/* By its file name: PyTorch has its own copies, with other sonames than those of ROCm. */
static bool find_loaded(const char *stem, char path_out[static PATH_MAX])
{
	return dl_iterate_phdr(match_loaded, &(struct loaded){stem, path_out}) != 0;
}

/* NULL if it is not set, or empty. */
static const char *value_of(const char *variable)
{
	const char *value = variable ? environment_get(variable) : NULL;

	return value && *value ? value : NULL;
}

void *amd_library_get_loaded(enum amd_library library)
{
	const struct entry *entry = &entries[library];
	const char *named = value_of(entry->named);
	char path[PATH_MAX];

	if (named)
		return dlopen(named, RTLD_LAZY | RTLD_NOLOAD);
	return find_loaded(entry->stem, path) ? dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
}

bool amd_library_is_likely(void)
{
	const char *named = value_of(entries[AMD_HIP].named);

	if (named)
		return access(named, R_OK) == 0;
	return amd_library_get_loaded(AMD_HIP) || access("/dev/kfd", F_OK) == 0;
}

/* ------------------------------------------------------------------ one place */

static void note_tried(struct search *search, const char *what)
{
	size_t used = strlen(search->tried);

	snprintf(search->tried + used, sizeof(search->tried) - used, "%s%s", used ? ", " : "",
		 what);
}

/*
 * The SDK gets into the global scope: librocprofiler-register, to which HIP gives its functions,
 * looks for it there, and otherwise for a name without version, which wheels do not have.
 */
static bool try_file(struct search *search, const char *path)
{
	bool is_global = search->entry == &entries[AMD_ROCPROFILER_SDK];

	if (search->file_out)
		return access(path, R_OK) == 0 &&
		       snprintf(search->file_out, PATH_MAX, "%s", path) > 0;
	search->handle = dlopen(path, RTLD_LAZY | (is_global ? RTLD_GLOBAL : RTLD_LOCAL));
	if (!search->handle && !*search->reason && access(path, R_OK) == 0)
		snprintf(search->reason, sizeof(search->reason), "%s", dlerror());
	return search->handle;
}

static bool try_directory(struct search *search, const char *directory)
{
	char path[PATH_MAX];

	for (size_t i = 0; i < NAMES_MAX && search->entry->names[i]; i++) {
		int length =
			snprintf(path, sizeof(path), "%s/%s", directory, search->entry->names[i]);

		if (length > 0 && (size_t)length < sizeof(path) && access(path, R_OK) == 0 &&
		    try_file(search, path))
			return true;
	}
	return false;
}

static bool has_file(const char *directory, const char *name)
{
	char path[PATH_MAX];
	int length = snprintf(path, sizeof(path), "%s/%s", directory, name);

	return length > 0 && (size_t)length < sizeof(path) && access(path, R_OK) == 0;
}

/* ------------------------------------------------------------------ named by the user */

/* A file or a directory. */
static bool try_named(struct search *search, const char *variable, const char *value)
{
	char what[300];
	struct stat st;

	snprintf(what, sizeof(what), "%s=%.200s", variable, value);
	note_tried(search, what);
	if (stat(value, &st) == 0 && S_ISDIR(st.st_mode))
		return try_directory(search, value);
	return try_file(search, value);
}

/* Triton has a directory and a file name, which may also be a path. */
static bool try_triton(struct search *search)
{
	const struct entry *entry = search->entry;
	const char *directory = value_of(entry->directory);
	const char *file = value_of(entry->file);
	char path[PATH_MAX];
	int length;

	if (file && (!directory || *file == '/'))
		return try_named(search, entry->file, file);
	if (!file)
		return directory && try_named(search, entry->directory, directory);
	length = snprintf(path, sizeof(path), "%s/%s", directory, file);
	note_tried(search, path);
	return length > 0 && (size_t)length < sizeof(path) && try_file(search, path);
}

/* ------------------------------------------------------------------ the home */

/* In the site-packages that `path` is in. */
static bool find_wheel_near(struct search *search, const char *path)
{
	static const char *const places[] = {"torch/lib", "_rocm_sdk_core/lib"};
	const char *end = strstr(path, "-packages/");

	for (size_t i = 0; end && i < ARRAY_LENGTH(places); i++) {
		const struct entry *hip = &entries[AMD_HIP];
		int length = snprintf(search->home, sizeof(search->home), "%.*s-packages/%s",
				      (int)(end - path), path, places[i]);

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
	char *slash;

	if (!find_loaded(entries[AMD_HIP].stem, search->home)) {
		const char *file = value_of(entries[AMD_HIP].file);

		if (!file) {
			dl_iterate_phdr(find_wheel, search);
			return;
		}
		snprintf(search->home, sizeof(search->home), "%s", file);
	}
	slash = strrchr(search->home, '/');
	if (slash)
		*slash = '\0';
	else
		*search->home = '\0';
}

/*
 * ROCm's libraries need libhsa-runtime64.so.1 by this name. If the process has an HSA runtime by
 * another name, the loader does not see that it is one, and loads a second.
 */
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

static bool try_system(struct search *search)
{
	const char *root = value_of("ROCM_PATH");
	char directory[PATH_MAX];

	note_tried(search, "ROCM_PATH, the loader's path, /opt/rocm/lib");
	if (root) {
		snprintf(directory, sizeof(directory), "%.*s/lib", PATH_MAX - 8, root);
		if (try_directory(search, directory))
			return true;
	}
	for (size_t i = 0; i < NAMES_MAX && search->entry->names[i]; i++)
		if (try_file(search, search->entry->names[i]))
			return true;
	return try_directory(search, "/opt/rocm/lib");
}

/* True if the search is over. */
static bool try_own(struct search *search)
{
	const struct entry *entry = search->entry;
	const char *named = value_of(entry->named);
	char path[PATH_MAX];

	if (named) {
		try_named(search, entry->named, named);
		return true;
	}
	note_tried(search, "the process");
	if (find_loaded(entry->stem, path) && try_file(search, path))
		return true;
	if (value_of(entry->directory) || value_of(entry->file)) {
		try_triton(search);
		return true;
	}
	find_home(search);
	if (!*search->home)
		return false;
	note_tried(search, search->home);
	return try_directory(search, search->home);
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
	if (search->handle)
		return PROTON_OK;
	if (*search->reason)
		return err_set(err, PROTON_E_NOLIB, "cannot load %s: %s", entry->names[0],
			       search->reason);
	return err_set(err, PROTON_E_NOLIB,
		       "cannot find %s (searched: %s); %s, or set %s to its directory",
		       entry->names[0], search->tried, entry->advice, entry->named);
}

/* ------------------------------------------------------------------ the interface */

static _Atomic(void *) handles[AMD_LIBRARIES];

void *amd_library_open(enum amd_library library, struct proton_error *err)
{
	struct search search = {.entry = &entries[library]};
	void *known = NULL;

	search.handle = atomic_load_explicit(&handles[library], memory_order_acquire);
	if (search.handle)
		return search.handle;
	if (find_library(&search, err) != PROTON_OK)
		return NULL;
	/* Two threads may have searched: both use the first one's handle. */
	if (!atomic_compare_exchange_strong(&handles[library], &known, search.handle))
		return known;
	return search.handle;
}

/* The directories of LD_LIBRARY_PATH. The contents of the loader's cache are not known here. */
static bool try_loader_path(struct search *search)
{
	const char *rest = environment_get("LD_LIBRARY_PATH");
	char directory[PATH_MAX];

	while (rest && *rest) {
		size_t length = strcspn(rest, ":;");

		snprintf(directory, sizeof(directory), "%.*s", (int)length, rest);
		if (*directory && try_directory(search, directory))
			return true;
		rest += length + (rest[length] != '\0');
	}
	return false;
}

bool amd_library_find_file(enum amd_library library, const char *near, char path[static PATH_MAX])
{
	const struct entry *entry = &entries[library];
	const char *named = value_of(entry->named);
	const char *root = value_of("ROCM_PATH");
	struct search search = {.entry = entry, .file_out = path};
	char directory[PATH_MAX];

	if (named)
		return try_named(&search, entry->named, named);
	if (value_of(entry->directory) || value_of(entry->file))
		return try_triton(&search);
	if (find_wheel_near(&search, near))
		return try_directory(&search, search.home);
	snprintf(directory, sizeof(directory), "%.*s/lib", PATH_MAX - 8, root ? root : "");
	return (root && try_directory(&search, directory)) || try_loader_path(&search) ||
	       try_directory(&search, "/opt/rocm/lib");
}

const char *amd_library_path(enum amd_library library)
{
	void *handle = atomic_load_explicit(&handles[library], memory_order_acquire);
	struct link_map *map;

	return handle && dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 ? map->l_name : NULL;
}
