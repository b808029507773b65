/* symbol/disassembler: programs that hang, fail or print too much; test_sass.py has the search. */
#include "unit/tap.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "symbol/disassembler.h"

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
	int status;

	signal(SIGCHLD, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	fflush(stdout);
	for (int fd = 0; fd < 3; fd++)
		close(fd);
	out_init(&out, -1);
	status = run_script("read -r a < \"$2\"; echo \"$a\"; echo b >&2", 30000, &out, &err);
	dup2(input, STDIN_FILENO);
	dup2(output, STDOUT_FILENO);
	dup2(errors, STDERR_FILENO);
	CHECK_OK(status, err);
	out_byte(&out, '\0');
	CHECK_STR(out.bytes, "abc\nb\n");
	out_fini(&out);
}
