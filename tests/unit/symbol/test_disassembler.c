/* symbol/disassembler: programs that hang, fail or print too much; test_sass.py has the search. */
#include "unit/tap.h"

#include <ftw.h>
#include <glob.h>
#include <limits.h>
#include <sys/sendfile.h>

#include "base/clock.h"
#include "symbol/disassembler.h"

/* The run that searches: with this variable, the program prints what it finds. */
__attribute__((constructor)) static void search(void)
{
	struct proton_error err;
	char *path = NULL;

	if (!getenv("TEST_SEARCH"))
		return;
	printf("%s", disassembler_find(MACHINE_NVIDIA, &path, &err) == PROTON_OK ? path : err.text);
	fflush(stdout);
	_exit(0);
}

/* "<root>/<path>", a link to this program or, with a text, a script; directories are created. */
static const char *place(const char *root, const char *path, const char *text)
{
	static char whole[PATH_MAX];
	size_t length = (size_t)snprintf(whole, sizeof(whole), "%s/%s", root, path);

	for (size_t i = strlen(root) + 1; i < length; i++) {
		if (whole[i] != '/')
			continue;
		whole[i] = '\0';
		if (mkdir(whole, 0700) != 0)
			CHECK_EQ(errno, EEXIST);
		whole[i] = '/';
	}
	int fd = open(whole, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
	CHECK_LE(0, fd);
	if (text) {
		CHECK_EQ(write(fd, text, strlen(text)), strlen(text));
	} else {
		int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

		while (sendfile(fd, self, NULL, 1 << 20) > 0)
			continue;
		close(self);
	}
	close(fd);
	return whole;
}

/* The disassembler that the copy of this program at `program` finds without variables and PATH. */
static const char *found_by(const char *program)
{
	static char answer[PATH_MAX];
	char searching[] = "TEST_SEARCH=1";
	char *const environment[] = {searching, NULL};
	size_t length = 0;
	ssize_t got;
	int fds[2];

	skip_if_emulated("the emulator starts no further programs of its processor");
	CHECK_EQ(pipe(fds), 0);
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		dup2(fds[1], STDOUT_FILENO);
		close(fds[0]);
		close(fds[1]);
		execle(program, "searching", (char *)NULL, environment);
		_exit(1);
	}
	close(fds[1]);
	while ((got = read(fds[0], answer + length, sizeof(answer) - 1 - length)) > 0)
		length += (size_t)got;
	answer[length] = '\0';
	close(fds[0]);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
	return answer;
}

/* Runs a shell script as the disassembler of the four bytes "abc\n"; returns the status. */
static int run_script(const char *script, int limit_ms, struct out *out, struct proton_error *err)
{
	char directory[] = "/tmp/test_disassembler.XXXXXX";
	char path[64];
	int fd, status;

	CHECK(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/nvdisasm", directory);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
	CHECK(fd >= 0);
	CHECK_EQ(dprintf(fd, "#!/bin/sh\n%s\n", script), (int)strlen(script) + 11);
	close(fd);
	status = disassembler_run(MACHINE_NVIDIA, path, "abc\n", 4,
				  (struct disassembler_limits){limit_ms, 256u << 20}, out, err);
	unlink(path);
	rmdir(directory);
	return status;
}

TEST(the_program_reads_the_cubin_by_the_path_that_it_is_given)
{
	struct proton_error err;
	struct out out;

	out_init(&out, -1);
	CHECK_OK(run_script("read -r a < \"$2\"; echo \"$1 $# $a ${HOME-none}\"", 30000, &out,
			    &err),
		 err);
	out_byte(&out, '\0');
	CHECK_STR(out.bytes, "-c 2 abc none\n");
	out_fini(&out);
}

TEST(a_program_that_hangs_is_killed_with_its_children)
{
	static const char *const scripts[] = {
		"echo a; /bin/sleep 1000",
		"exec >&- 2>&-; /bin/sleep 1000",
	};

	for (int i = 0; i < 2; i++) {
		uint64_t start = clock_monotonic_ns();
		struct proton_error err;
		struct out out;

		out_init(&out, -1);
		CHECK_EQ(run_script(scripts[i], 200, &out, &err), PROTON_E_IO);
		CHECK_HAS(err.text, "was stopped: it took longer than 200 ms");
		CHECK(clock_monotonic_ns() - start < 20000000000u);
		out_fini(&out);
	}
}

TEST(a_program_that_prints_too_much_is_ended)
{
	struct proton_error err;
	struct out out;

	out_init(&out, -1);
	out.limit = 100000;
	CHECK_NE(run_script("while :; do echo 0123456789; done", 30000, &out, &err), PROTON_OK);
	CHECK_HAS(err.text, "cannot read the output of");
	out_fini(&out);
}

TEST(a_program_that_takes_too_much_memory_is_ended)
{
	struct proton_error err;
	struct out out;

	skip_if_emulated("the emulator does not limit memory");
	if (TAP_IS_SANITIZED)
		SKIP("a sanitizer's child has its own limits");
	out_init(&out, -1);
	CHECK_EQ(run_script("x=0123456789; while :; do x=$x$x; done", 60000, &out, &err),
		 PROTON_E_IO);
	CHECK_HAS(err.text, "nvdisasm was stopped: it used ");
	CHECK_HAS(err.text, " MB of memory, and may use 256 MB");
	out_fini(&out);
}

TEST(a_program_cannot_write_files)
{
	struct proton_error err;
	char script[128];
	struct stat st;
	struct out out;

	snprintf(script, sizeof(script), "sleep 0.2; echo x >/tmp/test_disassembler.%d",
		 (int)getpid());
	out_init(&out, -1);
	CHECK_EQ(run_script(script, 30000, &out, &err), PROTON_E_IO);
	out_fini(&out);
	snprintf(script, sizeof(script), "/tmp/test_disassembler.%d", (int)getpid());
	CHECK_EQ(stat(script, &st), 0);
	CHECK_EQ(st.st_size, 0);
	unlink(script);
}

TEST(failures_have_a_reason)
{
	struct proton_error err;
	struct out out;

	skip_if_emulated("a program that the emulator cannot start ends with status 127");
	out_init(&out, -1);
	CHECK_EQ(run_script("exit 7", 30000, &out, &err), PROTON_E_IO);
	CHECK_HAS(err.text, "failed with exit status 7");
	CHECK_EQ(run_script("kill -SEGV $$", 30000, &out, &err), PROTON_E_IO);
	CHECK_HAS(err.text, "failed with exit status 139");
	CHECK_NE(disassembler_run(MACHINE_NVIDIA, "/nowhere/nvdisasm", "", 0,
				  (struct disassembler_limits){1000, 256u << 20}, &out, &err),
		 PROTON_OK);
	CHECK_HAS(err.text, "cannot run /nowhere/nvdisasm: No such file or directory");
	out_fini(&out);
}

TEST(closed_streams_and_ignored_children_do_not_matter)
{
	int output = dup(STDOUT_FILENO), errors = dup(STDERR_FILENO), input = dup(STDIN_FILENO);
	struct proton_error err;
	struct out out;

	signal(SIGCHLD, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	fflush(stdout);
	for (int fd = 0; fd < 3; fd++)
		close(fd);
	out_init(&out, -1);
	int status = run_script("read -r a < \"$2\"; echo \"$a\"; echo b >&2", 30000, &out, &err);
	dup2(input, STDIN_FILENO);
	dup2(output, STDOUT_FILENO);
	dup2(errors, STDERR_FILENO);
	close(input);
	close(output);
	close(errors);
	CHECK_OK(status, err);
	out_byte(&out, '\0');
	CHECK_STR(out.bytes, "abc\nb\n");
	out_fini(&out);
}

#define PACKAGES "lib/python3.12/site-packages/"

static int remove_entry(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

/* proton-viewer is in the bin directory of an environment, or in a package of it. */
TEST(program_of_an_environment_finds_the_disassembler_there)
{
	char root[] = "/tmp/test_disassembler.XXXXXX";
	char expected[PATH_MAX];
	glob_t toolkits;

	if (glob("/usr/local/cuda*/bin/nvdisasm", 0, NULL, &toolkits) == 0)
		SKIP("a CUDA toolkit is installed");
	CHECK(mkdtemp(root));
	CHECK_STR(found_by(place(root, "bin/viewer", NULL)),
		  "cannot find the disassembler nvdisasm; install Triton or a CUDA toolkit, or set "
		  "PROTON_NVDISASM_PATH to its directory");
	snprintf(expected, sizeof(expected), "%s",
		 place(root, PACKAGES "triton/backends/nvidia/bin/nvdisasm", "#!/bin/sh\n"));
	CHECK_STR(found_by(place(root, "bin/viewer", NULL)), expected);
	CHECK_STR(found_by(place(root, PACKAGES "triton_proton/bin/viewer", NULL)), expected);
	nftw(root, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}
