/* Summaries and names of child processes. See inject_children.h. */
#include "cli/inject_children.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/printable.h"
#include "base/size_signal.h"

#define LEDGER_SUFFIX "children"

static bool ledger_path(const char *base, pid_t root, char path[PATH_MAX])
{
	int length = snprintf(path, PATH_MAX, "%s.%d." LEDGER_SUFFIX, base, (int)root);

	return length > 0 && length < PATH_MAX;
}

static bool is_alive(pid_t process)
{
	return process > 0 && (kill(process, 0) == 0 || errno == EPERM);
}

bool children_report(const char *base, pid_t root, const char *part, const char *summary)
{
	char line[sizeof(struct children)];
	char path[PATH_MAX];
	size_t length;
	bool ok;
	int fd;

	if (!is_alive(root) || !ledger_path(base, root, path))
		return false;
	fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return false;
	length = (size_t)snprintf(line, sizeof(line), "%s ", part);
	length +=
		printable_copy(line + length, sizeof(line) - length - 1, summary, strlen(summary));
	line[length++] = '\n';
	/* One write: lines of several processes do not mix. */
	ok = size_signal_write(fd, line, length) == (ssize_t)length;
	close(fd);
	if (ok && is_alive(root))
		return true;
	unlink(path); /* the root has ended meanwhile and may not have seen it */
	return false;
}

void children_gather(const char *base, struct children *children)
{
	char line[sizeof(struct children)];
	char path[PATH_MAX];
	FILE *file;

	*children = (struct children){0};
	if (!ledger_path(base, getpid(), path))
		return;
	file = fopen(path, "re");
	if (!file)
		return;
	unlink(path);
	while (fgets(line, sizeof(line), file)) {
		size_t length = strcspn(line, " \n");

		if (children->count++)
			continue;
		line[strcspn(line, "\n")] = '\0';
		snprintf(children->first, sizeof(children->first), "%.*s", (int)length, line);
		snprintf(children->summary, sizeof(children->summary), "%s",
			 line + length + (line[length] == ' '));
	}
	fclose(file);
}

static bool may_replace(void)
{
	const char *keep = getenv("PROTON_NO_CLOBBER");

	return !keep || !*keep || strcmp(keep, "0") == 0;
}

/* `.PART.` becomes `.` where the summary names the file. */
static void rename_in(char *summary, const char *own)
{
	char part[80];
	char *last = NULL;
	size_t length = (size_t)snprintf(part, sizeof(part), ".%s.", own);

	for (char *at = summary; (at = strstr(at, part)); at++)
		last = at;
	if (last)
		memmove(last + 1, last + length, strlen(last + length) + 1);
}

void children_take_name(const char *base, struct children *children)
{
	const char *slash = strrchr(base, '/');
	char directory[PATH_MAX];
	char prefix[NAME_MAX + 32];
	size_t length = (size_t)snprintf(prefix, sizeof(prefix), "%s.%s.", slash ? slash + 1 : base,
					 children->first);
	bool is_renamed = false;
	struct dirent *entry;
	DIR *stream;

	snprintf(directory, sizeof(directory), "%.*s", (int)(slash ? slash - base + 1 : 2),
		 slash ? base : "./");
	stream = opendir(directory);
	while (stream && (entry = readdir(stream))) {
		char to[PATH_MAX];

		if (length >= sizeof(prefix) || strncmp(entry->d_name, prefix, length) != 0 ||
		    snprintf(to, sizeof(to), "%s.%s", base, entry->d_name + length) >= PATH_MAX)
			continue;
		if (renameat2(dirfd(stream), entry->d_name, AT_FDCWD, to,
			      may_replace() ? 0 : RENAME_NOREPLACE) == 0)
			is_renamed = true;
	}
	if (stream)
		closedir(stream);
	if (is_renamed)
		rename_in(children->summary, children->first);
}
