/* base/replace: files are replaced whole, and nothing else is touched. */
#include "unit/tap.h"

#include <dirent.h>
#include <sys/resource.h>

#include "base/replace.h"

/* A new directory for this test; drop_folder() removes it. */
static char *make_folder(void)
{
	static char folder[64];

	snprintf(folder, sizeof(folder), "/tmp/proton-test-XXXXXX");
	CHECK(mkdtemp(folder) != NULL);
	return folder;
}

static void drop_folder(const char *folder)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", folder);
	CHECK_EQ(system(command), 0);
}

static size_t entries_of(const char *folder)
{
	char command[128];
	char line[32] = "";

	snprintf(command, sizeof(command), "ls -A %s | wc -l", folder);
	FILE *pipe = popen(command, "r");
	CHECK(pipe != NULL);
	CHECK(fgets(line, sizeof(line), pipe) != NULL);
	pclose(pipe);
	return (size_t)atoi(line);
}

/* Writes `text` to `path` through the functions under test. */
static int replace(const char *path, const char *text, struct proton_error *err)
{
	struct file_replace file;
	int status = file_replace_begin(&file, path, err);

	if (status != PROTON_OK)
		return status;
	out_text(&file.out, text);
	return file_replace_commit(&file, err);
}

static void check_content(const char *path, const char *expected)
{
	char *bytes;
	size_t length;

	CHECK_DONE(file_read_all(path, 0, &bytes, &length, &err));
	CHECK_STR(bytes, expected);
	free(bytes);
}

static void make_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	CHECK(file != NULL);
	fputs(text, file);
	fclose(file);
}

TEST(file_replace_writes_the_file_whole)
{
	char *folder = make_folder();
	struct file_replace file;
	char path[128], *bytes;
	size_t length;

	snprintf(path, sizeof(path), "%s/out.json", folder);
	for (int round = 0; round < 2; round++) {
		CHECK_DONE(file_replace_begin(&file, path, &err));
		out_printf(&file.out, "round %d", round);
		/* Until the commit, other programs see the old content, or none. */
		CHECK_EQ(access(path, F_OK), round ? 0 : -1);
		CHECK_DONE(file_replace_commit(&file, &err));
	}
	CHECK_DONE(file_read_all(path, 0, &bytes, &length, &err));
	CHECK_STR(bytes, "round 1");
	CHECK_EQ(entries_of(folder), 1);
	free(bytes);
	drop_folder(folder);
}

TEST(file_replace_abandoned_leaves_no_trace)
{
	char *folder = make_folder();
	struct file_replace file;
	char path[128];

	snprintf(path, sizeof(path), "%s/out.json", folder);
	CHECK_DONE(file_replace_begin(&file, path, &err));
	out_text(&file.out, "half");
	file_replace_abandon(&file);
	file_replace_abandon(&file);
	CHECK_EQ(entries_of(folder), 0);
	drop_folder(folder);
}

/* Closed streams are not an error, and the new file does not take their numbers. */
TEST(file_replace_leaves_closed_standard_streams_alone)
{
	char *folder = make_folder();
	char path[128];

	snprintf(path, sizeof(path), "%s/x", folder);
	for (int closed = 1; closed < 8; closed++) {
		struct file_replace file;
		struct proton_error err;
		int saved[3];

		fflush(stdout);
		for (int fd = 0; fd < 3; fd++) {
			saved[fd] = fcntl(fd, F_DUPFD_CLOEXEC, 100);
			if (closed & 1 << fd)
				close(fd);
		}
		CHECK_OK(file_replace_begin(&file, path, &err), err);
		for (int fd = 0; fd < 3; fd++)
			CHECK_EQ(fcntl(fd, F_GETFD) < 0, (closed >> fd) & 1);
		out_text(&file.out, "whole");
		CHECK_OK(file_replace_commit(&file, &err), err);
		for (int fd = 0; fd < 3; fd++) {
			CHECK_EQ(fcntl(fd, F_GETFD) < 0, (closed >> fd) & 1);
			dup2(saved[fd], fd);
			close(saved[fd]);
		}
		check_content(path, "whole");
	}
	drop_folder(folder);
}

TEST(file_replace_that_fails_keeps_the_old_file)
{
	char *folder = make_folder();
	struct rlimit limit = {.rlim_cur = 100000, .rlim_max = 100000};
	struct file_replace file;
	struct proton_error err;
	char path[128], *bytes;
	size_t length;

	snprintf(path, sizeof(path), "%s/out.json", folder);
	CHECK_OK(file_replace_begin(&file, path, &err), err);
	out_text(&file.out, "old");
	CHECK_OK(file_replace_commit(&file, &err), err);
	CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
	CHECK_OK(file_replace_begin(&file, path, &err), err);
	for (int i = 0; i < 100000; i++)
		out_text(&file.out, "new text ");
	CHECK_EQ(file_replace_commit(&file, &err), PROTON_E_IO);
	CHECK_HAS(err.text, path);
	CHECK_HAS(err.text, "File too large");
	CHECK_OK(file_read_all(path, 0, &bytes, &length, &err), err);
	CHECK_STR(bytes, "old");
	CHECK_EQ(entries_of(folder), 1);
	free(bytes);
	drop_folder(folder);
}

TEST(file_replace_reports_a_path_that_cannot_be_a_file)
{
	struct file_replace file;
	struct proton_error err;

	CHECK_EQ(file_replace_begin(&file, "/nonexistent/x", &err), PROTON_E_IO);
	CHECK_STR(err.text, "cannot write /nonexistent/x: No such file or directory");
}

TEST(file_replace_cannot_replace_a_directory)
{
	char *folder = make_folder();
	struct file_replace file;
	struct proton_error err;
	char path[128];

	snprintf(path, sizeof(path), "%s/sub", folder);
	CHECK_EQ(mkdir(path, 0777), 0);
	CHECK_EQ(file_replace_begin(&file, path, &err), PROTON_E_INVALID);
	CHECK_HAS(err.text, "it is a directory");
	CHECK_EQ(entries_of(folder), 1);
	drop_folder(folder);
}

TEST(file_replace_keeps_the_permissions_of_an_earlier_file)
{
	static const mode_t modes[] = {0600, 0640, 0644, 0666, 0755};
	char *folder = make_folder();
	struct stat st;
	char path[128];

	snprintf(path, sizeof(path), "%s/x", folder);
	umask(022);
	CHECK_DONE(replace(path, "new", &err));
	CHECK_EQ(stat(path, &st), 0);
	CHECK_EQ(st.st_mode & 07777, 0644);
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		CHECK_EQ(chmod(path, modes[i]), 0);
		CHECK_DONE(replace(path, "newer", &err));
		CHECK_EQ(stat(path, &st), 0);
		CHECK_EQ(st.st_mode & 07777, modes[i]);
	}
	drop_folder(folder);
}

TEST(file_replace_keeps_the_owner_of_an_earlier_file)
{
	char *folder = make_folder();
	struct stat st;
	char path[128];

	if (geteuid() != 0)
		SKIP("needs root");
	snprintf(path, sizeof(path), "%s/x", folder);
	make_file(path, "old");
	CHECK_EQ(chown(path, 12345, 54321), 0);
	CHECK_DONE(replace(path, "new", &err));
	CHECK_EQ(stat(path, &st), 0);
	CHECK_EQ(st.st_uid, 12345);
	CHECK_EQ(st.st_gid, 54321);
	drop_folder(folder);
}

TEST(file_replace_writes_through_a_symbolic_link)
{
	char *folder = make_folder();
	struct stat st;
	char path[128], target[128];

	snprintf(path, sizeof(path), "%s/link", folder);
	snprintf(target, sizeof(target), "%s/sub", folder);
	CHECK_EQ(mkdir(target, 0777), 0);
	snprintf(target, sizeof(target), "%s/sub/file", folder);
	make_file(target, "old");
	CHECK_EQ(symlink("sub/file", path), 0);
	CHECK_DONE(replace(path, "new", &err));
	check_content(target, "new");
	CHECK_EQ(lstat(path, &st), 0);
	CHECK(S_ISLNK(st.st_mode));
	drop_folder(folder);
}

TEST(file_replace_rejects_dangling_links_and_special_files)
{
	char *folder = make_folder();
	struct proton_error err;
	struct stat st;
	char path[128];

	snprintf(path, sizeof(path), "%s/link", folder);
	CHECK_EQ(symlink("nowhere", path), 0);
	CHECK_EQ(replace(path, "x", &err), PROTON_E_INVALID);
	CHECK_HAS(err.text, "it is a symbolic link to a file that does not exist");
	CHECK_EQ(unlink(path), 0);
	CHECK_EQ(symlink("link", path), 0);
	CHECK_NE(replace(path, "x", &err), PROTON_OK);
	CHECK_EQ(unlink(path), 0);
	CHECK_EQ(mkfifo(path, 0600), 0);
	CHECK_EQ(replace(path, "x", &err), PROTON_E_INVALID);
	CHECK_HAS(err.text, "it is not a regular file");
	CHECK_EQ(lstat(path, &st), 0);
	CHECK(S_ISFIFO(st.st_mode));
	CHECK_EQ(replace("/dev/null", "x", &err), PROTON_E_INVALID);
	CHECK_EQ(stat("/dev/null", &st), 0);
	CHECK(S_ISCHR(st.st_mode));
	CHECK_EQ(entries_of(folder), 1);
	drop_folder(folder);
}

TEST(file_replace_exclusive_never_replaces)
{
	char *folder = make_folder();
	struct file_replace file;
	struct proton_error err;
	char path[128];

	snprintf(path, sizeof(path), "%s/x", folder);
	CHECK_OK(file_replace_begin(&file, path, &err), err);
	file.is_exclusive = true;
	make_file(path, "of another program");
	CHECK_NE(file_replace_commit(&file, &err), PROTON_OK);
	CHECK_HAS(err.text, "File exists");
	check_content(path, "of another program");
	CHECK_EQ(entries_of(folder), 1);
	CHECK_EQ(unlink(path), 0);
	CHECK_OK(file_replace_begin(&file, path, &err), err);
	file.is_exclusive = true;
	out_text(&file.out, "new");
	CHECK_OK(file_replace_commit(&file, &err), err);
	check_content(path, "new");
	CHECK_EQ(entries_of(folder), 1);
	drop_folder(folder);
}

TEST(file_replace_of_the_longest_name)
{
	char *folder = make_folder();
	char path[512];

	snprintf(path, sizeof(path), "%s/%0255d", folder, 7);
	CHECK_DONE(replace(path, "new", &err));
	check_content(path, "new");
	drop_folder(folder);
}

/* ------------------------------------------------------------------ temporary files */

/* Leaves a temporary file of `path`, like a killed writer. */
static void crash_writing(const char *path)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		struct file_replace file;

		if (file_replace_begin(&file, path, NULL) == PROTON_OK)
			raise(SIGKILL);
		_exit(1);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFSIGNALED(status));
}

/* The first entry of `folder` that begins with a dot, as a path. */
static void find_hidden(const char *folder, char *path, size_t capacity)
{
	DIR *directory = opendir(folder);
	const struct dirent *entry;

	CHECK(directory != NULL);
	*path = '\0';
	while ((entry = readdir(directory)))
		if (entry->d_name[0] == '.' && strlen(entry->d_name) > 2)
			CHECK((size_t)snprintf(path, capacity, "%s/%s", folder, entry->d_name) <
			      capacity);
	closedir(directory);
	CHECK(*path);
}

TEST(a_temporary_file_of_a_crashed_writer_is_removed)
{
	char *folder = make_folder();
	char path[512], stem[128];

	snprintf(stem, sizeof(stem), "%s/x", folder);
	snprintf(path, sizeof(path), "%s/x.hatchet", folder);
	crash_writing(path);
	crash_writing(path);
	CHECK_EQ(entries_of(folder), 2);
	snprintf(path, sizeof(path), "%s/x.part_7.hatchet", folder);
	crash_writing(path);
	CHECK_EQ(entries_of(folder), 3);
	file_replace_clean(stem);
	CHECK_EQ(entries_of(folder), 0);
	snprintf(path, sizeof(path), "%s/%0255d", folder, 7);
	crash_writing(path);
	CHECK_EQ(entries_of(folder), 1);
	file_replace_clean(path);
	CHECK_EQ(entries_of(folder), 0);
	drop_folder(folder);
}

TEST(temporary_files_in_use_and_of_other_names_stay)
{
	char *folder = make_folder();
	struct file_replace file;
	char path[128], stem[128];

	snprintf(stem, sizeof(stem), "%s/x", folder);
	snprintf(path, sizeof(path), "%s/x.hatchet", folder);
	CHECK_DONE(file_replace_begin(&file, path, &err));
	file_replace_clean(stem);
	out_text(&file.out, "whole");
	CHECK_DONE(file_replace_commit(&file, &err));
	check_content(path, "whole");
	snprintf(path, sizeof(path), "%s/xy.hatchet", folder);
	crash_writing(path);
	file_replace_clean(stem);
	CHECK_EQ(entries_of(folder), 2);
	drop_folder(folder);
}

TEST(files_that_only_look_like_temporary_ones_stay)
{
	static const char *const names[] = {
		".x.hatchet.0123456789abcdef.tmp",
		".x.tmp",
		"x.hatchet.1234.tmp",
		"x.hatchet.tmp",
		".x.1.tmp",
		".x.hatchet..tmp",
	};
	const size_t count = sizeof(names) / sizeof(names[0]);
	char *folder = make_folder();
	char path[256], link_path[256], stem[128];

	snprintf(stem, sizeof(stem), "%s/x", folder);
	for (size_t i = 0; i < count; i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
		make_file(path, "mine");
	}
	file_replace_clean(stem);
	CHECK_EQ(entries_of(folder), count);
	/* A file with a valid name, but with a second link, or a symbolic link. */
	snprintf(path, sizeof(path), "%s/x.hatchet", folder);
	crash_writing(path);
	for (size_t i = 0; i < count; i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
		CHECK_EQ(unlink(path), 0);
	}
	find_hidden(folder, path, sizeof(path));
	snprintf(link_path, sizeof(link_path), "%s/second", folder);
	CHECK_EQ(link(path, link_path), 0);
	file_replace_clean(stem);
	CHECK_EQ(entries_of(folder), 2);
	CHECK_EQ(unlink(path), 0);
	CHECK_EQ(symlink("second", path), 0);
	file_replace_clean(stem);
	CHECK_EQ(entries_of(folder), 2);
	drop_folder(folder);
}

TEST(names_of_temporary_files_differ)
{
	char *folder = make_folder();
	struct file_replace files[50];
	char path[128];

	snprintf(path, sizeof(path), "%s/x", folder);
	for (int i = 0; i < 50; i++)
		CHECK_DONE(file_replace_begin(&files[i], path, &err));
	CHECK_EQ(entries_of(folder), 50);
	for (int i = 0; i < 50; i++)
		file_replace_abandon(&files[i]);
	CHECK_EQ(entries_of(folder), 0);
	drop_folder(folder);
}
