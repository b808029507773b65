/* CUDA backend: search for libcupti: each place in turn, and earlier ones win. */
#include "unit/search_runs.h"

#include <dlfcn.h>
#include <sched.h>
#include <sys/mount.h>

#include "backend/cuda/cupti_api.h"

extern char **environ;

#define TOOLKIT "/usr/local/cuda"

/*
 * The run that searches: loads the libraries named in SEARCH_LOADED, and answers with the path, or
 * with SEARCH_BUSY set with the message for a libcupti that another tool has.
 */
__attribute__((constructor)) static void search(void)
{
	const char *loaded = getenv("SEARCH_LOADED");
	struct proton_error err;

	if (!loaded)
		return;
	if (*loaded && !dlopen(loaded, RTLD_NOW | RTLD_LOCAL))
		printf("%s", dlerror());
	else if (cupti_api_load(&err) != PROTON_OK ||
		 (getenv("SEARCH_BUSY") &&
		  cupti_api_error(CUPTI_E_MULTIPLE_SUBSCRIBERS, "cuptiSubscribe", &err)))
		printf("%s", err.text);
	else
		printf("%s", libcupti.path);
	fflush(stdout);
	_exit(0);
}

static const char *place(const char *path, bool is_file)
{
	return search_place(path, is_file ? getenv("PROTON_CUPTI_PATH") : NULL);
}

struct searched {
	const char *loaded; /* a library that the process has already */
	const char *proton; /* PROTON_CUPTI_PATH, and so on; NULL: not set */
	const char *triton;
	const char *home;
	const char *path;
	const char *loader;
	bool is_busy; /* then another tool has CUPTI */
};

static void set(const char *name, const char *value)
{
	if (value)
		setenv(name, value, 1);
	else
		unsetenv(name);
}

/* This test hides the machine's own toolkit. */
static void hide_toolkit(void)
{
	if (access(TOOLKIT, F_OK) != 0)
		return;
	if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("none", TOOLKIT, "tmpfs", 0, "size=64k") != 0)
		SKIP("hiding %s needs root: %s", TOOLKIT, strerror(errno));
}

static void set_variables(const void *user)
{
	const struct searched *searched = user;

	setenv("SEARCH_LOADED", searched->loaded ? searched->loaded : "", 1);
	set("PROTON_CUPTI_PATH", searched->proton);
	set("TRITON_CUPTI_LIB_PATH", searched->triton);
	set("CUDA_HOME", searched->home);
	set("CUDA_PATH", searched->path);
	set("LD_LIBRARY_PATH", searched->loader);
	set("SEARCH_BUSY", searched->is_busy ? "1" : NULL);
}

/* Where libcupti was found, or the error; until the next call. */
static const char *find(struct searched searched)
{
	return search_run(set_variables, &searched);
}

static void need_fake(void)
{
	if (!getenv("PROTON_CUPTI_PATH"))
		SKIP("no fake libraries: run by `meson test`");
}

TEST(a_path_in_the_environment_is_the_only_one_tried)
{
	const char *directory, *other;

	need_fake();
	directory = place("named/libcupti.so.12", true);
	other = place("other/libcupti.so", true);
	CHECK_STR(find((struct searched){.proton = directory}), directory);
	CHECK_STR(find((struct searched){.proton = rec_path("named")}), directory);
	CHECK_STR(find((struct searched){.triton = rec_path("other")}), other);
	CHECK_STR(find((struct searched){.proton = rec_path("named"), .triton = rec_path("other")}),
		  directory);
	CHECK_STR(find((struct searched){.proton = "", .triton = rec_path("other")}), other);
	/* A missing library is an error, even if another is found elsewhere. */
	CHECK_HAS(find((struct searched){.proton = rec_path("typo"), .triton = rec_path("other")}),
		  "cannot find libcupti (searched: PROTON_CUPTI_PATH=");
	CHECK_HAS(find((struct searched){.triton = rec_path("typo"), .loader = rec_path("other")}),
		  "cannot find libcupti (searched: TRITON_CUPTI_LIB_PATH=");
}

TEST(of_one_directory_the_newest_library_is_taken)
{
	const char *names[] = {"d/libcupti.so", "d/libcupti.so.12", "d/libcupti.so.13"};

	need_fake();
	for (int i = 0; i < 3; i++) {
		const char *newest = place(names[i], true);

		CHECK_STR(find((struct searched){.proton = rec_path("d")}), newest);
	}
}

/* From the last place to the first: each is found although later ones exist. */
TEST(without_a_path_in_the_environment_each_place_is_tried_in_order)
{
	static const char *const places[] = {
		"loader/libcupti.so.13",
		"path/lib64/libcupti.so",
		"path/extras/CUPTI/lib64/libcupti.so.12",
		"home/lib64/libcupti.so",
		"home/extras/CUPTI/lib64/libcupti.so",
		"site-packages/triton/backends/nvidia/lib/cupti/libcupti.so",
		"site-packages/nvidia/cuda_cupti/lib/libcupti.so.12",
		"site-packages/nvidia/cu13/lib/libcupti.so.13",
	};
	struct searched searched = {0};

	need_fake();
	hide_toolkit();
	searched.loaded = strdup(place("site-packages/some/module.so", true));
	searched.home = strdup(rec_path("home"));
	searched.path = strdup(rec_path("path"));
	searched.loader = strdup(rec_path("loader"));
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		const char *whole = place(places[i], true);

		CHECK_STR(find(searched), whole);
	}
	free((void *)(uintptr_t)searched.loaded);
	free((void *)(uintptr_t)searched.home);
	free((void *)(uintptr_t)searched.path);
	free((void *)(uintptr_t)searched.loader);
}

/* Each place alone: a missing place does not end the search. */
TEST(one_place_is_found_without_the_others)
{
	static const char *const places[] = {
		"1/loader/libcupti.so",
		"2/path/lib64/libcupti.so.13",
		"3/home/extras/CUPTI/lib64/libcupti.so.13",
		"4/dist-packages/triton/backends/nvidia/lib/cupti/libcupti.so",
	};

	need_fake();
	hide_toolkit();
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		const char *whole = place(places[i], true);
		char roots[4][64];
		char module[64];

		snprintf(module, sizeof(module), "%zu/dist-packages/module.so", i + 1);
		snprintf(roots[0], 64, "%s/%zu/home", rec_dir(), i + 1);
		snprintf(roots[1], 64, "%s/%zu/path", rec_dir(), i + 1);
		snprintf(roots[2], 64, "%s/%zu/loader", rec_dir(), i + 1);
		CHECK_STR(find((struct searched){.loaded = place(module, true),
						 .home = roots[0],
						 .path = i == 1 ? roots[1] : NULL,
						 .loader = roots[2]}),
			  whole);
	}
}

TEST(a_copy_that_the_process_has_loaded_comes_first)
{
	const char *loaded, *wheel;

	need_fake();
	loaded = place("loader/libcupti.so.12", true);
	wheel = place("site-packages/nvidia/cu13/lib/libcupti.so.13", true);
	place("site-packages/libcupti.so.11", true);
	CHECK_STR(find((struct searched){.loaded = "libcupti.so.12", .loader = rec_path("loader")}),
		  loaded);
	CHECK_STR(find((struct searched){.loaded = rec_path("site-packages/libcupti.so.11"),
					 .loader = rec_path("loader")}),
		  wheel);
}

TEST(a_second_libcupti_is_named_if_another_tool_has_cupti)
{
	const char *loaded, *named, *answer;
	char remedy[256];

	need_fake();
	loaded = place("theirs/libcupti.so.12", true);
	named = place("named/libcupti.so.12", true);
	answer = find((struct searched){.loaded = loaded, .proton = named, .is_busy = true});
	snprintf(remedy, sizeof(remedy),
		 "; both tools must use the same libcupti: set PROTON_CUPTI_PATH to %s [", loaded);
	CHECK_HAS(answer, remedy);
	answer = find((struct searched){.loaded = loaded, .proton = loaded, .is_busy = true});
	CHECK_HAS(answer, "CUPTI is already in use");
	CHECK(!strstr(answer, "same libcupti"));
}

TEST(the_searched_paths_are_reported)
{
	need_fake();
	hide_toolkit();
	const char *answer = find((struct searched){.home = rec_path("home"), .path = ""});
	if (*answer == '/')
		SKIP("the loader finds %s", answer);
	CHECK_STR(answer,
		  "cannot find libcupti (searched: the process, NVIDIA's and Triton's "
		  "wheels, CUDA_HOME, CUDA_PATH, /usr/local/cuda, the loader's path); run "
		  "pip install nvidia-cuda-cupti, or set PROTON_CUPTI_PATH to its directory");
}
