/* Program search on $PATH, as shells do it. */
#include "cli/search.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/environment.h"

bool search_is_program(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0;
}

/* Returns `path` if it is a program; else frees it, or keeps it in *found_plain if it is a file. */
static char *accept_program(char *path, char **found_plain)
{
	if (!path || search_is_program(path))
		return path;
	if (access(path, F_OK) == 0 && !*found_plain)
		*found_plain = path;
	else
		free(path);
	return NULL;
}

char *search_path(const char *name, char **found_plain)
{
	const char *part = environment_get("PATH");

	*found_plain = NULL;
	if (strchr(name, '/'))
		return accept_program(strdup(name), found_plain);
	if (!part)
		part = "/usr/local/bin:/bin:/usr/bin";
	for (;;) {
		size_t length = strcspn(part, ":");
		char *path;

		/* An empty part is the current directory. */
		if (asprintf(&path, "%.*s%s%s", (int)length, part, length ? "/" : "./", name) < 0)
			return NULL;
		path = accept_program(path, found_plain);
		if (path) {
			free(*found_plain);
			*found_plain = NULL;
			return path;
		}
		part += length;
		if (*part == '\0')
			return NULL;
		part++;
	}
}

char *search_own_directory(void)
{
	char path[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
	char *slash;

	if (length <= 0)
		return NULL;
	path[length] = '\0';
	slash = strrchr(path, '/');
	if (!slash)
		return NULL;
	*slash = '\0';
	return strdup(path);
}
