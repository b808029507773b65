/* A program that closes descriptors that it did not open, as daemons do, and reuses the numbers. */
#include "unit/recorded.h"

/* Closes every descriptor from 3 up and opens "mine" under each number that had been in use. */
static void reuse_descriptors(void)
{
	bool was_open[4096] = {false};
	int file = open(rec_path("mine"), O_RDWR | O_CREAT | O_TRUNC, 0600);

	CHECK_LE(0, file);
	for (int fd = 3; fd < 4096; fd++)
		was_open[fd] = fd != file && fcntl(fd, F_GETFD) >= 0;
	for (int fd = 3; fd < 4096; fd++)
		if (was_open[fd])
			CHECK_EQ(dup2(file, fd), fd);
}

TEST(a_signal_writes_the_profile_and_nothing_into_a_file_of_the_program)
{
	struct profile *profile;
	struct stat st;
	int status;
	pid_t pid;

	rec_dir();
	pid = fork();
	if (pid == 0) {
		struct proton_error err;

		rec_start("a");
		CHECK_OK(proton_finalize_on_signals(&err), err);
		rec_kernel("k");
		reuse_descriptors();
		raise(SIGTERM);
		for (;;)
			pause();
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFSIGNALED(status));
	CHECK_EQ(WTERMSIG(status), SIGTERM);
	CHECK_EQ(stat(rec_path("mine"), &st), 0);
	CHECK_EQ(st.st_size, 0);
	profile = rec_load("a.hatchet");
	CHECK_U64(rec_count(profile, "k"), 1);
	profile_free(profile);
}
