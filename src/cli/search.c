/* Program search on $PATH, as execvp() does it. */
#include "cli/search.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/environment.h"

bool search_is_program(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0;
}

enum search_result search_path(const char *name, char path[PATH_MAX])
{
	const char *part = environment_get("PATH");
	char plain[PATH_MAX] = "";

	/* A name with a slash is not searched: it is like the only part. */
	if (strchr(name, '/'))
		part = "";
	else if (!part)
		part = "/usr/local/bin:/bin:/usr/bin";
	for (;; part++) {
		size_t length = strcspn(part, ":");
		/* An empty part is the current directory. */
		const char *joint = strchr(name, '/') ? "" : length ? "/" : "./";

		if (snprintf(path, PATH_MAX, "%.*s%s%s", (int)length, part, joint, name) <
		    PATH_MAX) {
			if (search_is_program(path))
				return SEARCH_PROGRAM;
			if (!*plain && access(path, F_OK) == 0)
				memcpy(plain, path, sizeof(plain));
		}
		part += length;
		if (!*part)
			break;
	}
	memcpy(path, plain, sizeof(plain));
	return *plain ? SEARCH_FILE : SEARCH_NOTHING;
}

bool search_own_directory(char path[PATH_MAX])
{
	ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
	char *slash;

	path[length < 0 ? 0 : length] = '\0';
	slash = strrchr(path, '/');
	if (slash)
		*slash = '\0';
	return slash != NULL;
}
