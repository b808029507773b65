/*
 * exec and posix_spawn wrappers that load the recorder into the new program.
 *
 * They run between fork and exec, after vfork even in the parent's memory: they allocate nothing,
 * change nothing, and use addresses of the real functions that were looked up before.
 */
#include "cli/inject.h"

#include <alloca.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/array.h"
#include "base/environment.h"
#include "cli/handover.h"
#include "cli/search.h"

#define HERE __attribute__((visibility("default")))
#define KEPT_MAX 32

const char *inject_library;
static char *kept[KEPT_MAX]; /* NAME=VALUE: variables that `proton` set, except LD_PRELOAD */
static size_t kept_count;
static bool is_for_children;

static __typeof__(execve) *real_execve;
static __typeof__(execvpe) *real_execvpe;
static __typeof__(fexecve) *real_fexecve;
static __typeof__(posix_spawn) *real_spawn;
static __typeof__(posix_spawnp) *real_spawnp;
static __typeof__(fclose) *real_fclose;

static bool is_variable(const char *entry, const char *name)
{
	size_t length = strlen(name);

	return strncmp(entry, name, length) == 0 && entry[length] == '=';
}

/* The length of NAME= if it is a variable that loads the recorder later; 0 for others. */
static size_t injection_length(const char *entry)
{
	static const char *const names[] = {"CUDA_INJECTION64_PATH=", "ROCP_TOOL_LIBRARIES=",
					    "ROCPROFILER_REGISTER_LIBRARY=", "HSA_TOOLS_LIB="};

	for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
		if (strncmp(entry, names[i], strlen(names[i])) == 0)
			return strlen(names[i]);
	return 0;
}

static bool is_left_by_proton(const char *entry)
{
	return strncmp(entry, HANDOVER_PREFIX, strlen(HANDOVER_PREFIX)) == 0;
}

/* Looks up the wrapped functions, and the path of this library. */
__attribute__((constructor(101))) static void find_real(void)
{
	Dl_info info;

	if (dladdr(&inject_library, &info))
		inject_library = info.dli_fname;
	real_execve = (__typeof__(execve) *)dlsym(RTLD_NEXT, "execve");
	real_execvpe = (__typeof__(execvpe) *)dlsym(RTLD_NEXT, "execvpe");
	real_fexecve = (__typeof__(fexecve) *)dlsym(RTLD_NEXT, "fexecve");
	real_spawn = (__typeof__(posix_spawn) *)dlsym(RTLD_NEXT, "posix_spawn");
	real_spawnp = (__typeof__(posix_spawnp) *)dlsym(RTLD_NEXT, "posix_spawnp");
	real_fclose = (__typeof__(fclose) *)dlsym(RTLD_NEXT, "fclose");
}

static bool is_injection(const char *entry)
{
	const char *value = entry + injection_length(entry);

	if (value == entry)
		return false;
	if (strncmp(entry, "CUDA_", 5) == 0)
		return strcmp(value, inject_library) == 0;
	if (strncmp(entry, "ROCP_", 5) == 0)
		return strstr(value, "/" HANDOVER_AMD_TOOL);
	if (strncmp(entry, "HSA_", 4) == 0)
		return strstr(value, "/" HANDOVER_AMD_HSA_TOOL);
	return environment_get(HANDOVER_SDK);
}

void inject_exec_keep(void)
{
	for (char **entry = environ; entry && *entry; entry++) {
		if (!is_left_by_proton(*entry) && !is_injection(*entry))
			continue;
		if (is_variable(*entry, HANDOVER_LD_PRELOAD) || kept_count == KEPT_MAX)
			continue;
		if (is_variable(*entry, HANDOVER_GATHER))
			is_for_children = true;
		kept[kept_count] = strdup(*entry);
		kept_count += kept[kept_count] != NULL;
	}
}

void inject_exec_detach(void)
{
	for (size_t i = 0; i < kept_count; i++) {
		if (!is_variable(kept[i], HANDOVER_PID))
			continue;
		free(kept[i]);
		kept[i] = strdup(HANDOVER_PID "=0");
	}
}

/* ------------------------------------------------------------------ the environment */

bool inject_is_first(const char *preload)
{
	size_t length = inject_library ? strlen(inject_library) : 0;

	return length && strncmp(preload, inject_library, length) == 0 &&
	       (preload[length] == '\0' || preload[length] == ':');
}

static size_t count_words(char *const *words)
{
	size_t count = 0;

	while (words && words[count])
		count++;
	return count;
}

/* LD_PRELOAD in `given`; NULL: not set. *is_done: another `proton` has added itself. */
static const char *find_preload(char *const *given, bool *is_done)
{
	const char *preload = NULL;

	*is_done = false;
	for (; given && *given; given++) {
		if (is_variable(*given, "LD_PRELOAD"))
			preload = strchr(*given, '=') + 1;
		else if (is_variable(*given, HANDOVER_PYTHON))
			*is_done = true;
	}
	*is_done = *is_done || (preload && inject_is_first(preload));
	return preload;
}

static bool is_replaced(const char *entry)
{
	if (is_variable(entry, "LD_PRELOAD") || is_left_by_proton(entry))
		return true;
	for (size_t i = 0; i < kept_count && injection_length(entry); i++)
		if (strcmp(entry, kept[i]) == 0)
			return true;
	return false;
}

/* Another value of the variable `own` in `given`, such as another tool's, is not replaced. */
static bool has_other_value(char *const *given, const char *own)
{
	size_t length = injection_length(own);

	for (; length && given && *given; given++)
		if (strncmp(*given, own, length) == 0 && strcmp(*given, own) != 0)
			return true;
	return false;
}

static size_t environment_words(char *const *given)
{
	return count_words(given) + kept_count + 3;
}

static size_t environment_bytes(const char *preload)
{
	return 2 * (preload ? strlen(preload) : 0) + strlen(inject_library) + 64;
}

/* `given` with the recorder added; `words` and `bytes` are large enough. */
static void make_environment(char *const *given, const char *preload, char **words, char *bytes)
{
	size_t count = 0;

	words[count++] = bytes;
	bytes += sprintf(bytes, "LD_PRELOAD=%s%s%s", inject_library, preload && *preload ? ":" : "",
			 preload ? preload : "") +
		 1;
	if (preload) {
		words[count++] = bytes;
		sprintf(bytes, HANDOVER_LD_PRELOAD "=%s", preload);
	}
	for (size_t i = 0; i < kept_count; i++)
		if (!has_other_value(given, kept[i]))
			words[count++] = kept[i];
	for (; given && *given; given++)
		if (!is_replaced(*given))
			words[count++] = *given;
	words[count] = NULL;
}

/* ------------------------------------------------------------------ the program */

/* True if the recorder may enter this program: LD_PRELOAD breaks some, and others warn about it. */
static bool is_to_follow(const char *name, bool is_searched, bool is_child)
{
	char path[PATH_MAX], file[PATH_MAX];

	if (!kept_count || !name || (is_child && !is_for_children))
		return false;
	if (is_searched ? search_path(name, path) != SEARCH_PROGRAM
			: snprintf(path, sizeof(path), "%s", name) >= PATH_MAX ||
				  !search_is_program(path))
		return false;
	return program_kind(path, file) == PROGRAM_DYNAMIC;
}

struct plan {
	bool is_followed;
	bool has_left; /* the session of this process was ended in favor of the new program's */
	const char *preload;
};

static struct plan make_plan(const char *name, bool is_searched, bool is_child, char *const *given)
{
	struct plan plan = {0};
	int saved = errno;
	bool is_done = false;

	if (!real_execve)
		find_real(); /* called by a constructor that ran before this library's */
	if (is_to_follow(name, is_searched, is_child)) {
		plan.preload = find_preload(given, &is_done);
		plan.is_followed = !is_done;
		if (!is_child)
			plan.has_left = inject_leave();
	}
	errno = saved;
	return plan;
}

/* The new program did not start: this one continues. */
static int come_back(const struct plan *plan, int result)
{
	int saved = errno;

	if (plan->has_left)
		inject_return();
	errno = saved;
	return result;
}

/* ------------------------------------------------------------------ exec */

static int run_program(const char *name, bool is_searched, char *const *argv, char *const *given)
{
	struct plan plan = make_plan(name, is_searched, !inject_is_owner(), given);
	char *const *environment = given;

	if (plan.is_followed) {
		char **words = alloca(environment_words(given) * sizeof(*words));

		make_environment(given, plan.preload, words,
				 alloca(environment_bytes(plan.preload)));
		environment = words;
	}
	if (is_searched)
		return come_back(&plan, real_execvpe(name, argv, environment));
	return come_back(&plan, real_execve(name, argv, environment));
}

HERE int execve(const char *path, char *const argv[], char *const envp[])
{
	return run_program(path, false, argv, envp);
}

HERE int execv(const char *path, char *const argv[])
{
	return run_program(path, false, argv, environ);
}

HERE int execvp(const char *file, char *const argv[])
{
	return run_program(file, true, argv, environ);
}

HERE int execvpe(const char *file, char *const argv[], char *const envp[])
{
	return run_program(file, true, argv, envp);
}

HERE int fexecve(int fd, char *const argv[], char *const envp[])
{
	char path[64];

	if (fd < 0)
		return real_fexecve(fd, argv, envp);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return run_program(path, false, argv, envp);
}

/* The arguments of execl(): first counted, then copied. `first` is argv[0]. */
#define COLLECT(first, args, argv)                                                                 \
	do {                                                                                       \
		va_list counting;                                                                  \
		size_t word_count = 1;                                                             \
		va_copy(counting, args);                                                           \
		while (va_arg(counting, char *))                                                   \
			word_count++;                                                              \
		va_end(counting);                                                                  \
		(argv) = alloca((word_count + 1) * sizeof(*(argv)));                               \
		(argv)[0] = (char *)(uintptr_t)(first);                                            \
		for (size_t word = 1; word <= word_count; word++)                                  \
			(argv)[word] = va_arg(args, char *);                                       \
	} while (0)

HERE int execl(const char *path, const char *first, ...)
{
	char **argv;
	va_list args;

	va_start(args, first);
	COLLECT(first, args, argv);
	va_end(args);
	return run_program(path, false, argv, environ);
}

HERE int execlp(const char *file, const char *first, ...)
{
	char **argv;
	va_list args;

	va_start(args, first);
	COLLECT(first, args, argv);
	va_end(args);
	return run_program(file, true, argv, environ);
}

HERE int execle(const char *path, const char *first, ...)
{
	char **argv;
	va_list args;

	va_start(args, first);
	COLLECT(first, args, argv);
	char **environment = va_arg(args, char **);
	va_end(args);
	return run_program(path, false, argv, environment);
}

/* ------------------------------------------------------------------ posix_spawn */

static int spawn_program(__typeof__(posix_spawn) *real, bool is_searched, pid_t *pid,
			 const char *name, const posix_spawn_file_actions_t *actions,
			 const posix_spawnattr_t *attributes, char *const *argv, char *const *given)
{
	struct plan plan = make_plan(name, is_searched, true, given);

	if (!plan.is_followed)
		return real(pid, name, actions, attributes, argv, given);
	char **words = alloca(environment_words(given) * sizeof(*words));
	make_environment(given, plan.preload, words, alloca(environment_bytes(plan.preload)));
	return real(pid, name, actions, attributes, argv, words);
}

HERE int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
		     const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
	return spawn_program(real_spawn, false, pid, path, actions, attributes, argv, envp);
}

HERE int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
		      const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
	return spawn_program(real_spawnp, true, pid, file, actions, attributes, argv, envp);
}

/* ------------------------------------------------------------------ the end */

HERE int fclose(FILE *stream)
{
	if (!real_fclose)
		find_real();
	if (stream == stderr)
		inject_wrapper_closes_error();
	return real_fclose(stream);
}

static _Noreturn void leave_process(int status)
{
	for (;;)
		syscall(SYS_exit_group, status);
}

/* Shells exit like this: prints their line too. */
HERE _Noreturn void _exit(int status)
{
	inject_wrapper_exits(status);
	leave_process(status);
}

HERE _Noreturn void _Exit(int status)
{
	inject_wrapper_exits(status);
	leave_process(status);
}
