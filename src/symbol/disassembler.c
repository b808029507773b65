/* Disassemblers of GPU vendors: search and execution. */
#include "symbol/disassembler.h"

#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/environment.h"
#include "base/guest.h"

#define PLACES_MAX 2

static const struct vendor {
	const char *name;
	const char *option;
	const char *variable;           /* names a file or a directory; nothing else is tried */
	const char *root;               /* variable with the directory of an installation */
	const char *below;              /* the program there */
	const char *places[PLACES_MAX]; /* patterns of paths */
	const char *wheel;              /* in a directory of Python packages */
	bool is_path_last;              /* PATH is searched after all that */
	const char *last;               /* pattern of the last place; NULL: none */
	const char *remedy;
	const char *hint; /* after a failure */
} vendors[] = {
	[MACHINE_NVIDIA] = {"nvdisasm",
			    "-c",
			    "PROTON_NVDISASM_PATH",
			    "CUDA_HOME",
			    "/bin/nvdisasm",
			    {"/usr/local/cuda/bin/nvdisasm", "/usr/local/cuda-*/bin/nvdisasm"},
			    "/triton/backends/nvidia/bin/nvdisasm",
			    false,
			    NULL,
			    "Triton or a CUDA toolkit",
			    ""},
	/* ROCm's knows the GPUs of that ROCm; another may be too old for them. */
	[MACHINE_AMD] = {"llvm-objdump",
			 "-d",
			 "PROTON_LLVM_OBJDUMP_PATH",
			 "ROCM_PATH",
			 "/llvm/bin/llvm-objdump",
			 {"/opt/rocm/llvm/bin/llvm-objdump", "/opt/rocm-*/llvm/bin/llvm-objdump"},
			 "/_rocm_sdk_core/lib/llvm/bin/llvm-objdump",
			 true,
			 "/usr/lib/llvm-*/bin/llvm-objdump",
			 "ROCm or LLVM",
			 "; its LLVM may be too old for this GPU"},
};

/* Directories above the running program that may have Python packages. */
#define LEVELS 4

/* ------------------------------------------------------------------ search */

/* The path "<directory><rest>", malloc'd, if it is a program. */
static char *program_at(const char *directory, size_t length, const char *rest)
{
	struct stat st;
	char *path;

	if (asprintf(&path, "%.*s%s", (int)length, directory, rest) < 0)
		return NULL;
	if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0)
		return path;
	free(path);
	return NULL;
}

static char *find_in_path(const struct vendor *vendor)
{
	const char *directories = environment_get("PATH");
	char rest[32];

	snprintf(rest, sizeof(rest), "/%s", vendor->name);
	while (directories && *directories) {
		size_t length = strcspn(directories, ":");
		/* Relative directories depend on where a profile is viewed. */
		char *path = *directories == '/' ? program_at(directories, length, rest) : NULL;

		if (path)
			return path;
		directories += length + (directories[length] == ':');
	}
	return NULL;
}

/* The last program, in the order of versions, that matches "<directory><pattern>". */
static char *find_matching(const char *directory, size_t length, const char *pattern)
{
	AT_END(out_fini) struct out text;
	glob_t found;
	char *path = NULL;

	out_init(&text, -1);
	for (size_t i = 0; i < length; i++) {
		if (strchr("*?[\\", directory[i]))
			out_byte(&text, '\\');
		out_byte(&text, directory[i]);
	}
	out_bytes(&text, pattern, strlen(pattern) + 1);
	if (text.errnum == 0 && glob(text.bytes, GLOB_NOSORT, NULL, &found) == 0) {
		for (size_t i = 0; i < found.gl_pathc; i++) {
			const char *other = found.gl_pathv[i];
			char *program = path && strverscmp(other, path) < 0
						? NULL
						: program_at(other, strlen(other), "");

			if (program) {
				free(path);
				path = program;
			}
		}
		globfree(&found);
	}
	return path;
}

static char *find_in_environment(const struct vendor *vendor, const char *prefix, size_t length)
{
	char *path = program_at(prefix, length, vendor->wheel);
	char pattern[128];

	snprintf(pattern, sizeof(pattern), "/lib/python3*/*-packages%s", vendor->wheel);
	return path ? path : find_matching(prefix, length, pattern);
}

/* Above the running program: PREFIX/bin/X, or PREFIX/lib/python3.N/site-packages/PACKAGE/bin/X. */
static char *find_above(const struct vendor *vendor)
{
	char program[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", program, sizeof(program));
	char *path = NULL;

	for (int level = 0; level < LEVELS && length > 0 && !path; level++) {
		while (length > 0 && program[--length] != '/')
			continue;
		if (length > 0)
			path = find_in_environment(vendor, program, (size_t)length);
	}
	return path;
}

static int find_named(const struct vendor *vendor, const char *named, char **path_out,
		      struct proton_error *err)
{
	char *path = program_at(named, strlen(named), "");
	char rest[32];

	snprintf(rest, sizeof(rest), "/%s", vendor->name);
	if (!path)
		path = program_at(named, strlen(named), rest);
	if (!path)
		return err_set(err, PROTON_E_NOLIB,
			       "%s is \"%s\", which is not and does not contain an executable %s",
			       vendor->variable, named, vendor->name);
	*path_out = path;
	return PROTON_OK;
}

static char *search_path(const struct vendor *vendor)
{
	const char *environment = environment_get("VIRTUAL_ENV");
	const char *root = environment_get(vendor->root);
	char *path = vendor->is_path_last ? NULL : find_in_path(vendor);

	if (!path && root && *root)
		path = program_at(root, strlen(root), vendor->below);
	for (size_t i = 0; i < PLACES_MAX && !path; i++)
		path = find_matching("", 0, vendor->places[i]);
	if (!path && environment && *environment)
		path = find_in_environment(vendor, environment, strlen(environment));
	if (!path)
		path = find_above(vendor);
	if (!path && vendor->is_path_last)
		path = find_in_path(vendor);
	return path || !vendor->last ? path : find_matching("", 0, vendor->last);
}

int disassembler_find(enum code_object_machine machine, char **path_out, struct proton_error *err)
{
	const struct vendor *vendor = &vendors[machine];
	const char *named = environment_get(vendor->variable);

	if (named && *named)
		return find_named(vendor, named, path_out, err);
	char *path = search_path(vendor);
	if (!path)
		return err_set(err, PROTON_E_NOLIB,
			       "cannot find the disassembler %s; install %s, or set %s to its "
			       "directory",
			       vendor->name, vendor->remedy, vendor->variable);
	*path_out = path;
	return PROTON_OK;
}

/* ------------------------------------------------------------------ execution */

static int file_of(const void *bytes, size_t length)
{
	int fd = memfd_create("proton-code-object", MFD_CLOEXEC);
	fd = descriptor_move(fd, STDERR_FILENO + 1); /* the tool's standard streams are below */

	for (size_t done = 0; fd >= 0 && done < length;) {
		ssize_t part = write(fd, (const char *)bytes + done, length - done);

		if (part > 0) {
			done += (size_t)part;
		} else if (part == 0 || errno != EINTR) {
			close(fd);
			fd = -1;
		}
	}
	return fd;
}

/*
 * Limits the memory of the child, which reads a file from anywhere. It has run for microseconds:
 * posix_spawn() has no limits, and fork() would copy the page tables of a large viewer.
 */
static void limit_memory(pid_t child, uint64_t bytes)
{
	const struct rlimit memory = {bytes, bytes};
	const struct rlimit none = {0};

	prlimit(child, RLIMIT_AS, &memory, NULL);
	prlimit(child, RLIMIT_FSIZE, &none, NULL);
	prlimit(child, RLIMIT_CORE, &none, NULL);
}

/* Starts the program in its own process group. Returns 0 or an error number. */
static int spawn_tool(const struct vendor *vendor, const char *program, int input, int output,
		      uint64_t memory_bytes, pid_t *child_out)
{
	char *const arguments[] = {(char *)(uintptr_t)vendor->name,
				   (char *)(uintptr_t)vendor->option, (char[]){"/proc/self/fd/0"},
				   NULL};
	/* Neither the recorder nor options of the caller get into it. */
	char *const environment[] = {(char[]){"LC_ALL=C"}, NULL};
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t all, none;
	int errnum;

	/* These two cannot fail with GNU libc. */
	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attributes);
	sigfillset(&all);
	sigemptyset(&none);
	posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
	posix_spawnattr_setpgroup(&attributes, 0);
	posix_spawnattr_setsigdefault(&attributes, &all);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF |
						      POSIX_SPAWN_SETSIGMASK);
	errnum = posix_spawn(child_out, program, &actions, &attributes, arguments, environment);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	if (!errnum)
		limit_memory(*child_out, memory_bytes);
	return errnum;
}

/* Reads to the end, or until `end`. */
static void read_output(int fd, uint64_t end, struct out *out)
{
	for (uint64_t now; out->errnum == 0 && (now = clock_monotonic_ns()) < end;) {
		struct pollfd ready = {.fd = fd, .events = POLLIN};
		char bytes[16384];

		if (poll(&ready, 1, (int)((end - now) / 1000000u) + 1) <= 0)
			continue;
		ssize_t length = read(fd, bytes, sizeof(bytes));
		if (length == 0 || (length < 0 && errno != EINTR))
			return;
		if (length > 0)
			out_bytes(out, bytes, (size_t)length);
	}
}

/*
 * Waits until `end`, then kills the process group. Returns false if it had to. *status_out is 0 if
 * the caller ignores SIGCHLD, because the status is lost then. *used_out: memory, in bytes.
 */
static bool wait_until(pid_t child, uint64_t end, int *status_out, uint64_t *used_out)
{
	struct rusage usage = {0};
	const struct timespec pause = {.tv_nsec = 500000};
	bool is_in_time = true;
	int status = 0;
	pid_t ended;

	while ((ended = wait4(child, &status, is_in_time ? WNOHANG : 0, &usage)) != child) {
		if (ended < 0 && errno != EINTR)
			break;
		if (is_in_time && clock_monotonic_ns() >= end) {
			kill(-child, SIGKILL);
			is_in_time = false;
		}
		nanosleep(&pause, NULL);
	}
	*used_out = (uint64_t)usage.ru_maxrss << 10;
	*status_out = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	return is_in_time;
}

static int run_tool(const struct vendor *vendor, const char *program, int input,
		    struct disassembler_limits limits, struct out *out, struct proton_error *err)
{
	uint64_t end = clock_monotonic_ns() + (uint64_t)limits.ms * 1000000u;
	uint64_t used;
	int ends[2], errnum, status;
	pid_t child;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_errno(err, errno, "cannot run %s", program);
	ends[0] = descriptor_move(ends[0], STDERR_FILENO + 1);
	ends[1] = descriptor_move(ends[1], STDERR_FILENO + 1);
	errnum = spawn_tool(vendor, program, input, ends[1], limits.memory_bytes, &child);
	close(ends[1]);
	if (errnum) {
		close(ends[0]);
		return err_errno(err, errnum, "cannot run %s", program);
	}
	read_output(ends[0], end, out);
	close(ends[0]); /* a program that still writes is ended by SIGPIPE */
	bool is_in_time = wait_until(child, end, &status, &used);
	if (out->errnum)
		return err_errno(err, out->errnum, "cannot read the output of %s", program);
	if (!is_in_time)
		return err_set(err, PROTON_E_IO, "%s was stopped: it took longer than %d ms",
			       program, limits.ms);
	/* The allocation may have failed when it asked for twice as much as before. */
	if (status && used > limits.memory_bytes / 4)
		return err_set(err, PROTON_E_IO,
			       "%s was stopped: it used %" PRIu64
			       " MB of memory, and may use %" PRIu64 " MB",
			       program, used >> 20, limits.memory_bytes >> 20);
	if (status)
		return err_set(err, PROTON_E_IO, "%s failed with exit status %d%s", program, status,
			       vendor->hint);
	return PROTON_OK;
}

int disassembler_run(enum code_object_machine machine, const char *program, const void *object,
		     size_t length, struct disassembler_limits limits, struct out *out,
		     struct proton_error *err)
{
	int input = file_of(object, length);

	if (input < 0)
		return err_errno(err, errno, "cannot pass a code object to %s", program);
	int status = run_tool(&vendors[machine], program, input, limits, out, err);
	close(input);
	return status;
}
