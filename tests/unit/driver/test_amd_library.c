/*
 * Search for the libraries of ROCm: each place in turn, and earlier ones win. The loader reads its
 * search path when a process starts, so each search is a run of this program with its own
 * environment.
 */
#include "unit/recorded.h"

#include <dlfcn.h>

#include "driver/amd_library.h"

#define ANSWER_BYTES 2048
#define VARIABLES_MAX 8

/* The run that searches: loads the libraries of SEARCH_LOADED, and answers with the path. */
__attribute__((constructor)) static void search(void)
{
	char *loaded = getenv("SEARCH_LOADED");
	enum amd_library wanted = AMD_ROCPROFILER_SDK;
	struct proton_error err;
	char file[PATH_MAX];
	char *rest;

	if (!loaded)
		return;
	if (getenv("SEARCH_WANTED"))
		wanted = (enum amd_library)atoi(getenv("SEARCH_WANTED"));
	for (char *path = strtok_r(loaded, ":", &rest); path; path = strtok_r(NULL, ":", &rest))
		if (!dlopen(path, RTLD_NOW | RTLD_LOCAL))
			printf("%s", dlerror());
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

/* "<directory>/<path>", with its directories created and, with `is_file`, a library. */
static const char *place(const char *path, bool is_file)
{
	const char *whole = rec_path(path);
	char part[256];

	for (const char *at = strchr(whole + 5, '/'); at; at = strchr(at + 1, '/')) {
		snprintf(part, sizeof(part), "%.*s", (int)(at - whole), whole);
		if (mkdir(part, 0700) != 0)
			CHECK_EQ(errno, EEXIST);
	}
	if (is_file) {
		struct proton_error err;
		char *bytes;
		size_t size;
		int fd;

		/* A copy: to the loader, links to one file are one library. */
		CHECK_OK(file_read_all(getenv("FAKE_LIBRARY"), 0, &bytes, &size, &err), err);
		fd = open(whole, O_CREAT | O_TRUNC | O_WRONLY, 0700);
		CHECK_LE(0, fd);
		CHECK_EQ(write(fd, bytes, size), size);
		close(fd);
		free(bytes);
	}
	return whole;
}

struct searched {
	const char *loaded; /* libraries that the process has already, with colons between */
	const char *names[VARIABLES_MAX]; /* of variables, and their values below the directory */
	const char *values[VARIABLES_MAX];
	enum amd_library wanted; /* AMD_HIP: the SDK, which most tests search for */
};

static void set_variables(const struct searched *searched)
{
	static const char *const known[] = {
		"PROTON_HIP_PATH",
		"PROTON_ROCPROFILER_SDK_PATH",
		"TRITON_LIBHIP_PATH",
		"TRITON_ROCPROFILER_SDK_LIB_PATH",
		"TRITON_ROCPROFILER_SDK_LIBRARY",
		"TRITON_ROCTX_LIBRARY",
		"ROCM_PATH",
		"LD_LIBRARY_PATH",
	};
	char wanted[16];

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		unsetenv(known[i]);
	for (size_t i = 0; i < VARIABLES_MAX && searched->names[i]; i++)
		setenv(searched->names[i],
		       *searched->values[i] == '=' ? searched->values[i] + 1
						   : rec_path(searched->values[i]),
		       1);
	setenv("SEARCH_LOADED", searched->loaded ? searched->loaded : "", 1);
	snprintf(wanted, sizeof(wanted), "%d", (int)searched->wanted);
	if (searched->wanted)
		setenv("SEARCH_WANTED", wanted, 1);
}

/* Where the library was found, or the error; until the next call. */
static const char *find(struct searched searched)
{
	static char answer[ANSWER_BYTES];
	size_t length = 0;
	ssize_t got;
	int fds[2];
	pid_t pid;

	skip_if_emulated("the emulator starts no further programs of its processor");
	CHECK_EQ(pipe(fds), 0);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		dup2(fds[1], STDOUT_FILENO);
		close(fds[0]);
		close(fds[1]);
		set_variables(&searched);
		execl("/proc/self/exe", "searching", (char *)NULL);
		_exit(1);
	}
	close(fds[1]);
	while ((got = read(fds[0], answer + length, sizeof(answer) - 1 - length)) > 0)
		length += (size_t)got;
	close(fds[0]);
	answer[length] = '\0';
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
	return answer;
}

TEST(a_path_in_the_variable_of_proton_is_the_only_one_tried)
{
	char *named = strdup(place("named/librocprofiler-sdk.so.1", true));

	place("other/librocprofiler-sdk.so.1", true);
	CHECK_STR(
		find((struct searched){.names = {"PROTON_ROCPROFILER_SDK_PATH", "LD_LIBRARY_PATH"},
				       .values = {"named", "other"}}),
		named);
	CHECK_STR(find((struct searched){.names = {"PROTON_ROCPROFILER_SDK_PATH"},
					 .values = {"named/librocprofiler-sdk.so.1"}}),
		  named);
	CHECK_HAS(
		find((struct searched){.names = {"PROTON_ROCPROFILER_SDK_PATH", "LD_LIBRARY_PATH"},
				       .values = {"typo", "other"}}),
		"cannot find librocprofiler-sdk.so.1 (searched: PROTON_ROCPROFILER_SDK_PATH=");
	/* An empty variable is not set. */
	CHECK_STR(
		find((struct searched){.names = {"PROTON_ROCPROFILER_SDK_PATH", "LD_LIBRARY_PATH"},
				       .values = {"=", "other"}}),
		rec_path("other/librocprofiler-sdk.so.1"));
	free(named);
}

TEST(the_variables_of_triton_name_a_directory_and_a_file)
{
	char *file = strdup(place("wheel/librocprofiler-sdk.so.1.2", true));
	char *versioned = strdup(place("wheel/librocprofiler-sdk.so.1", true));
	char wanted[600];

	CHECK_STR(find((struct searched){.names = {"TRITON_ROCPROFILER_SDK_LIB_PATH"},
					 .values = {"wheel"}}),
		  versioned);
	CHECK_STR(find((struct searched){.names = {"TRITON_ROCPROFILER_SDK_LIB_PATH",
						   "TRITON_ROCPROFILER_SDK_LIBRARY"},
					 .values = {"wheel", "=librocprofiler-sdk.so.1.2"}}),
		  file);
	CHECK_STR(find((struct searched){.names = {"TRITON_ROCPROFILER_SDK_LIBRARY"},
					 .values = {"wheel/librocprofiler-sdk.so.1.2"}}),
		  file);
	snprintf(wanted, sizeof(wanted),
		 "%d: cannot find librocprofiler-sdk.so.1 (searched: the process, "
		 "TRITON_ROCPROFILER_SDK_LIB_PATH=%s); install rocprofiler-sdk of the same ROCm "
		 "(7.0 or later), or set PROTON_ROCPROFILER_SDK_PATH to its directory",
		 PROTON_E_NOLIB, rec_path("typo"));
	CHECK_STR(find((struct searched){.names = {"TRITON_ROCPROFILER_SDK_LIB_PATH",
						   "LD_LIBRARY_PATH"},
					 .values = {"typo", "wheel"}}),
		  wanted);
	free(versioned);
	free(file);
}

TEST(a_copy_in_the_process_is_used_whatever_triton_names)
{
	char *loaded = strdup(place("mine/librocprofiler-sdk.so", true));

	place("other/librocprofiler-sdk.so.1", true);
	CHECK_STR(find((struct searched){.loaded = loaded,
					 .names = {"TRITON_ROCPROFILER_SDK_LIB_PATH"},
					 .values = {"other"}}),
		  loaded);
	free(loaded);
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
	char *module = strdup(place("site-packages/some/module.so", true));
	struct searched searched = {.loaded = module,
				    .names = {"LD_LIBRARY_PATH", "ROCM_PATH"},
				    .values = {"loader", "rocm"}};

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		const char *whole;

		if (i == 3)
			place("site-packages/_rocm_sdk_core/lib/libamdhip64.so.7", true);
		if (i == 4)
			place("site-packages/torch/lib/libamdhip64.so", true);
		if (i == 5) {
			searched.names[2] = "TRITON_LIBHIP_PATH";
			searched.values[2] = "named/libamdhip64.so";
		}
		whole = place(places[i], true);
		CHECK_STR(find(searched), whole);
	}
	free(module);
}

TEST(the_library_next_to_the_loaded_hip_comes_before_every_other_installation)
{
	char *hip = strdup(place("own/lib/libamdhip64.so", true));
	char *own = strdup(place("own/lib/librocprofiler-sdk.so", true));

	place("loader/librocprofiler-sdk.so.1", true);
	place("loader/libamdhip64.so.7", true);
	CHECK_STR(find((struct searched){.loaded = hip,
					 .names = {"LD_LIBRARY_PATH", "ROCM_PATH",
						   "TRITON_LIBHIP_PATH"},
					 .values = {"loader", "rocm", "loader/libamdhip64.so.7"}}),
		  own);
	free(own);
	free(hip);
}

TEST(a_library_that_would_bring_a_second_hsa_runtime_is_refused)
{
	char *hip = strdup(place("own/libamdhip64.so", true));
	char *hsa = strdup(place("own/libhsa-runtime64.so", true));
	char *system = strdup(place("loader/librocprofiler-sdk.so.1", true));
	char both[1024];
	const char *answer;

	snprintf(both, sizeof(both), "%s:%s", hsa, hip);
	answer = find((struct searched){
		.loaded = both, .names = {"LD_LIBRARY_PATH"}, .values = {"loader"}});
	CHECK_HAS(answer, "cannot find librocprofiler-sdk.so.1 next to the HIP that this process "
			  "uses");
	CHECK_HAS(answer, rec_path("own"));
	/* The same before HIP is loaded. */
	answer = find((struct searched){.names = {"LD_LIBRARY_PATH", "TRITON_LIBHIP_PATH"},
					.values = {"loader", "own/libamdhip64.so"}});
	CHECK_HAS(answer, "another ROCm would crash the process");
	/* By its usual name the runtime is one for all. */
	place("loader/libhsa-runtime64.so.1", true);
	snprintf(both, sizeof(both), "libhsa-runtime64.so.1:%s", hip);
	CHECK_STR(find((struct searched){
			  .loaded = both, .names = {"LD_LIBRARY_PATH"}, .values = {"loader"}}),
		  system);
	free(system);
	free(hsa);
	free(hip);
}

TEST(only_the_sdk_is_in_the_global_scope)
{
	struct searched searched = {.names = {"LD_LIBRARY_PATH"}, .values = {"d"}};
	char *sdk = strdup(place("d/librocprofiler-sdk.so.1", true));
	char *hip = strdup(place("d/libamdhip64.so.6", true));
	char wanted[600];

	setenv("SEARCH_SCOPE", "1", 1);
	snprintf(wanted, sizeof(wanted), "%s global", sdk);
	CHECK_STR(find(searched), wanted);
	setenv("SEARCH_WANTED", "0", 1);
	snprintf(wanted, sizeof(wanted), "%s local", hip);
	CHECK_STR(find(searched), wanted);
	free(sdk);
	free(hip);
}

TEST(a_library_that_exists_and_cannot_be_loaded_is_reported_with_the_reason)
{
	int fd = open(place("bad/librocprofiler-sdk.so.1", false), O_CREAT | O_WRONLY, 0700);

	CHECK_EQ(write(fd, "text", 4), 4);
	close(fd);
	CHECK_HAS(find((struct searched){.names = {"PROTON_ROCPROFILER_SDK_PATH"},
					 .values = {"bad"}}),
		  "cannot load librocprofiler-sdk.so.1: ");
}

TEST(other_libraries_have_their_own_names)
{
	char *roctx = strdup(place("d/libroctx64.so.4", true));
	char *tracer = strdup(place("d/libroctracer64.so.4", true));
	char *hsa = strdup(place("d/libhsa-runtime64.so.1", true));
	char *hip = strdup(place("d/libamdhip64.so.6", true));
	struct searched searched = {.names = {"LD_LIBRARY_PATH"}, .values = {"d"}};

	searched.wanted = AMD_ROCTX;
	CHECK_STR(find(searched), roctx);
	searched.wanted = AMD_ROCTRACER;
	CHECK_STR(find(searched), tracer);
	searched.wanted = AMD_HSA;
	CHECK_STR(find(searched), hsa);
	setenv("SEARCH_WANTED", "0", 1);
	searched.wanted = AMD_HIP;
	CHECK_STR(find(searched), hip);
	free(roctx);
	free(tracer);
	free(hsa);
	free(hip);
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
	struct searched searched = {.names = {"LD_LIBRARY_PATH", "ROCM_PATH"},
				    .values = {"loader", "rocm"}};

	setenv("SEARCH_NEAR", rec_path("site-packages/triton_proton/libproton_inject.so"), 1);
	if (access("/opt/rocm", F_OK) != 0)
		CHECK_STR(find(searched), "none");
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		if (i == 2)
			place("site-packages/_rocm_sdk_core/lib/libamdhip64.so.7", true);
		if (i == 3)
			place("site-packages/torch/lib/libamdhip64.so", true);
		/* Wheels with HIP and without the library: another ROCm's is not taken. */
		if (i >= 2)
			CHECK_STR(find(searched), "none");
		place(places[i], true);
		CHECK_STR(find(searched), rec_path(places[i]));
	}
}

TEST(hip_is_likely_if_it_is_loaded_or_the_machine_has_a_gpu)
{
	char *hip = strdup(place("some/libamdhip64.so.6", true));

	setenv("SEARCH_LIKELY", "1", 1);
	CHECK_STR(find((struct searched){.loaded = hip}), "1");
	CHECK_STR(find((struct searched){.names = {"PROTON_HIP_PATH"},
					 .values = {"some/libamdhip64.so.6"}}),
		  "1");
	CHECK_STR(find((struct searched){.names = {"PROTON_HIP_PATH"}, .values = {"typo"}}), "0");
	if (access("/dev/kfd", F_OK) == 0)
		SKIP("this machine has an AMD GPU");
	CHECK_STR(find((struct searched){.names = {"LD_LIBRARY_PATH"}, .values = {"some"}}), "0");
	free(hip);
}
