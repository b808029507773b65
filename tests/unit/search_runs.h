/*
 * Support for tests of searches for libraries: the loader reads its search path when a process
 * starts, so each search is a run of this program with its own environment.
 */
#pragma once

#include "unit/recorded.h"

/* "<directory>/<path>", with its directories created; a copy of the library at `copied`, if any. */
static const char *search_place(const char *path, const char *copied)
{
	const char *whole = rec_path(path);
	char part[256], *bytes;
	size_t size;

	for (const char *at = strchr(whole + 5, '/'); at; at = strchr(at + 1, '/')) {
		snprintf(part, sizeof(part), "%.*s", (int)(at - whole), whole);
		if (mkdir(part, 0700) != 0)
			CHECK_EQ(errno, EEXIST);
	}
	if (!copied)
		return whole;
	/* To the loader, links to one file are one library. */
	CHECK_DONE(file_read_all(copied, 0, &bytes, &size, &err));
	int fd = open(whole, O_CREAT | O_TRUNC | O_WRONLY, 0700);
	CHECK_LE(0, fd);
	CHECK_EQ(write(fd, bytes, size), size);
	close(fd);
	free(bytes);
	return whole;
}

/* The answer of this program in a new run, with variables from `set`; until the next call. */
static const char *search_run(void (*set)(const void *user), const void *user)
{
	static char answer[2048];
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
		set(user);
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
