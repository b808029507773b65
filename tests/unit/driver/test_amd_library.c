/* Search for the libraries of ROCm: each place in turn, and earlier ones win. */
#include "unit/search_runs.h"

#include <dlfcn.h>

#include "driver/amd_library.h"

#define SDK "librocprofiler-sdk.so"
#define PROTON_SDK "PROTON_ROCPROFILER_SDK_PATH"
#define TRITON_DIRECTORY "TRITON_ROCPROFILER_SDK_LIB_PATH"
#define TRITON_FILE "TRITON_ROCPROFILER_SDK_LIBRARY"

static enum amd_library wanted = AMD_ROCPROFILER_SDK;

static void load(const char *path)
{
	if (path && !dlopen(path, RTLD_NOW | RTLD_LOCAL))
		printf("%s", dlerror());
}

/* The run that searches: loads the libraries of two variables, and answers with the path. */
__attribute__((constructor)) static void search(void)
{
	struct proton_error err;
	char file[PATH_MAX];

	if (!getenv("SEARCH_WANTED"))
		return;
	wanted = (enum amd_library)atoi(getenv("SEARCH_WANTED"));
	load(getenv("SEARCH_LOADED_FIRST"));
	load(getenv("SEARCH_LOADED"));
	if (getenv("SEARCH_NEAR"))
		printf("%s",
		       amd_library_find_file(wanted, getenv("SEARCH_NEAR"), file) ? file : "none");
	else if (getenv("SEARCH_LIKELY"))
		printf("%d", amd_library_is_likely());
	else if (amd_library_open(wanted, &err))
		printf("%s%s%s", amd_library_path(wanted),
		       amd_library_open(wanted, &err) ? "" : " once",
		       !getenv("SEARCH_SCOPE")               ? ""
		       : dlsym(RTLD_DEFAULT, "hipGetDevice") ? " global"
							     : " local");
	else
		printf("%d: %s", err.status, err.text);
	fflush(stdout);
	_exit(0);
}

/* A library in the test's directory. */
static const char *place(const char *path)
{
	return search_place(path, getenv("FAKE_LIBRARY"));
}

/* "NAME=PATH", a path in the test's directory, or "NAME==VALUE". */
static void set_variables(const void *user)
{
	static const char *const known[] = {
		"PROTON_HIP_PATH", PROTON_SDK,           TRITON_DIRECTORY,
		TRITON_FILE,       "TRITON_LIBHIP_PATH", "TRITON_ROCTX_LIBRARY",
		"ROCM_PATH",       "LD_LIBRARY_PATH",
	};
	char number[16];

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		unsetenv(known[i]);
	snprintf(number, sizeof(number), "%d", (int)wanted);
	setenv("SEARCH_WANTED", number, 1);
	for (const char *const *given = user; *given; given++) {
		const char *value = strchr(*given, '=') + 1;
		char name[64];

		snprintf(name, sizeof(name), "%.*s", (int)(value - *given) - 1, *given);
		setenv(name, *value == '=' ? value + 1 : rec_path(value), 1);
	}
}

/* Where the library was found with these variables, or the error; until the next call. */
#define FIND(...) search_run(set_variables, (const char *const[]){__VA_ARGS__, NULL})

TEST(a_path_in_the_variable_of_proton_is_the_only_one_tried)
{
	place("named/" SDK ".1");
	place("other/" SDK ".1");
	CHECK_STR(FIND(PROTON_SDK "=named", "LD_LIBRARY_PATH=other"), rec_path("named/" SDK ".1"));
	CHECK_STR(FIND(PROTON_SDK "=named/" SDK ".1"), rec_path("named/" SDK ".1"));
	CHECK_HAS(FIND(PROTON_SDK "=typo", "LD_LIBRARY_PATH=other"),
		  "cannot find " SDK ".1 (searched: " PROTON_SDK "=");
	/* An empty variable is not set. */
	CHECK_STR(FIND(PROTON_SDK "==", "LD_LIBRARY_PATH=other"), rec_path("other/" SDK ".1"));
}

TEST(the_variables_of_triton_name_a_directory_and_a_file)
{
	char message[600];

	place("wheel/" SDK ".1.2");
	place("wheel/" SDK ".1");
	CHECK_STR(FIND(TRITON_DIRECTORY "=wheel"), rec_path("wheel/" SDK ".1"));
	CHECK_STR(FIND(TRITON_DIRECTORY "=wheel", TRITON_FILE "==" SDK ".1.2"),
		  rec_path("wheel/" SDK ".1.2"));
	CHECK_STR(FIND(TRITON_FILE "=wheel/" SDK ".1.2"), rec_path("wheel/" SDK ".1.2"));
	snprintf(message, sizeof(message),
		 "%d: cannot find librocprofiler-sdk.so.1 (searched: the process, "
		 "TRITON_ROCPROFILER_SDK_LIB_PATH=%s); install rocprofiler-sdk of the same ROCm "
		 "(7.0 or later), or set PROTON_ROCPROFILER_SDK_PATH to its directory",
		 PROTON_E_NOLIB, rec_path("typo"));
	CHECK_STR(FIND(TRITON_DIRECTORY "=typo", "LD_LIBRARY_PATH=wheel"), message);
}

TEST(a_copy_in_the_process_is_used_whatever_triton_names)
{
	place("mine/" SDK);
	place("other/" SDK ".1");
	CHECK_STR(FIND("SEARCH_LOADED=mine/" SDK, TRITON_DIRECTORY "=other"),
		  rec_path("mine/" SDK));
}

/* From the last place to the first: each is found although later ones exist. */
TEST(each_place_is_tried_in_order)
{
	static const char *const places[] = {
		"loader/librocprofiler-sdk.so",
		"loader/librocprofiler-sdk.so.1",
		"rocm/lib/librocprofiler-sdk.so.1",
		"site-packages/_rocm_sdk_core/lib/librocprofiler-sdk.so.1",
		"site-packages/torch/lib/librocprofiler-sdk.so",
		"named/librocprofiler-sdk.so.1",
	};
	const char *home = NULL;

	place("site-packages/some/module.so");
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		if (i == 3)
			place("site-packages/_rocm_sdk_core/lib/libamdhip64.so.7");
		if (i == 4)
			place("site-packages/torch/lib/libamdhip64.so");
		if (i == 5)
			home = "TRITON_LIBHIP_PATH=named/libamdhip64.so";
		place(places[i]);
		CHECK_STR(FIND("SEARCH_LOADED=site-packages/some/module.so",
			       "LD_LIBRARY_PATH=loader", "ROCM_PATH=rocm", home),
			  rec_path(places[i]));
	}
}

TEST(the_library_next_to_the_loaded_hip_comes_before_every_other_installation)
{
	place("own/lib/libamdhip64.so");
	place("own/lib/" SDK);
	place("loader/" SDK ".1");
	place("loader/libamdhip64.so.7");
	CHECK_STR(FIND("SEARCH_LOADED=own/lib/libamdhip64.so", "LD_LIBRARY_PATH=loader",
		       "ROCM_PATH=rocm", "TRITON_LIBHIP_PATH=loader/libamdhip64.so.7"),
		  rec_path("own/lib/" SDK));
}

TEST(a_library_that_would_bring_a_second_hsa_runtime_is_refused)
{
	place("own/libamdhip64.so");
	place("own/libhsa-runtime64.so");
	place("loader/" SDK ".1");
	const char *answer = FIND("SEARCH_LOADED_FIRST=own/libhsa-runtime64.so",
				  "SEARCH_LOADED=own/libamdhip64.so", "LD_LIBRARY_PATH=loader");
	CHECK_HAS(answer, "cannot find " SDK ".1 next to the HIP that this process uses");
	CHECK_HAS(answer, rec_path("own"));
	/* The same before HIP is loaded. */
	CHECK_HAS(FIND("LD_LIBRARY_PATH=loader", "TRITON_LIBHIP_PATH=own/libamdhip64.so"),
		  "another ROCm would crash the process");
	/* By its usual name the runtime is one for all. */
	place("loader/libhsa-runtime64.so.1");
	CHECK_STR(FIND("SEARCH_LOADED_FIRST==libhsa-runtime64.so.1",
		       "SEARCH_LOADED=own/libamdhip64.so", "LD_LIBRARY_PATH=loader"),
		  rec_path("loader/" SDK ".1"));
}

TEST(only_the_sdk_is_in_the_global_scope)
{
	char message[600];

	place("d/" SDK ".1");
	place("d/libamdhip64.so.6");
	setenv("SEARCH_SCOPE", "1", 1);
	snprintf(message, sizeof(message), "%s global", rec_path("d/" SDK ".1"));
	CHECK_STR(FIND("LD_LIBRARY_PATH=d"), message);
	wanted = AMD_HIP;
	snprintf(message, sizeof(message), "%s local", rec_path("d/libamdhip64.so.6"));
	CHECK_STR(FIND("LD_LIBRARY_PATH=d"), message);
}

TEST(a_library_that_exists_and_cannot_be_loaded_is_reported_with_the_reason)
{
	int fd = open(search_place("bad/" SDK ".1", NULL), O_CREAT | O_WRONLY, 0700);

	CHECK_EQ(write(fd, "text", 4), 4);
	close(fd);
	CHECK_HAS(FIND(PROTON_SDK "=bad"), "cannot load " SDK ".1: ");
}

TEST(other_libraries_have_their_own_names)
{
	static const struct {
		enum amd_library library;
		const char *path;
	} cases[] = {
		{AMD_ROCTX, "d/libroctx64.so.4"},
		{AMD_ROCTRACER, "d/libroctracer64.so.4"},
		{AMD_HSA, "d/libhsa-runtime64.so.1"},
		{AMD_HIP, "d/libamdhip64.so.6"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		place(cases[i].path);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		wanted = cases[i].library;
		CHECK_STR(FIND("LD_LIBRARY_PATH=d"), rec_path(cases[i].path));
	}
}

/* The command looks for the file that a program would load; from the last place to the first. */
TEST(a_file_is_found_without_loading_it)
{
	static const char *const places[] = {
		"loader/librocprofiler-sdk.so.1",
		"rocm/lib/librocprofiler-sdk.so",
		"site-packages/_rocm_sdk_core/lib/librocprofiler-sdk.so.1",
		"site-packages/torch/lib/librocprofiler-sdk.so.1",
	};

	setenv("SEARCH_NEAR", rec_path("site-packages/triton_proton/libproton_inject.so"), 1);
	if (access("/opt/rocm", F_OK) != 0)
		CHECK_STR(FIND("LD_LIBRARY_PATH=loader", "ROCM_PATH=rocm"), "none");
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		if (i == 2)
			place("site-packages/_rocm_sdk_core/lib/libamdhip64.so.7");
		if (i == 3)
			place("site-packages/torch/lib/libamdhip64.so");
		/* Wheels with HIP and without the library: another ROCm's is not taken. */
		if (i >= 2)
			CHECK_STR(FIND("LD_LIBRARY_PATH=loader", "ROCM_PATH=rocm"), "none");
		place(places[i]);
		CHECK_STR(FIND("LD_LIBRARY_PATH=loader", "ROCM_PATH=rocm"), rec_path(places[i]));
	}
}

TEST(hip_is_likely_if_it_is_loaded_or_the_machine_has_a_gpu)
{
	place("some/libamdhip64.so.6");
	setenv("SEARCH_LIKELY", "1", 1);
	CHECK_STR(FIND("SEARCH_LOADED=some/libamdhip64.so.6"), "1");
	CHECK_STR(FIND("PROTON_HIP_PATH=some/libamdhip64.so.6"), "1");
	CHECK_STR(FIND("PROTON_HIP_PATH=typo"), "0");
	if (access("/dev/kfd", F_OK) == 0)
		SKIP("this machine has an AMD GPU");
	CHECK_STR(FIND("LD_LIBRARY_PATH=some"), "0");
}
