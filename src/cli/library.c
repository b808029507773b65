/* Search for libproton_inject.so. */

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/environment.h"
#include "base/message.h"
#include "cli/interpreter.h"
#include "cli/search.h"

#define LIBRARY_NAME "libproton_inject.so"

/* Relative to this executable: a build tree, an installation, a Python environment. */
static const char *const library_patterns[] = {
	"",
	"../", /* from the bin directory of the package */
	"../lib*/proton/",
	"../lib/*/proton/",
	"../lib*/python3*/site-packages/triton_proton/",
	"../lib*/python3*/dist-packages/triton_proton/",
};

/* The first readable match of a pattern; malloc'd. */
static char *match_pattern(const char *pattern)
{
	glob_t matches = {0};
	char *path = NULL;

	if (glob(pattern, 0, NULL, &matches) == 0)
		for (size_t i = 0; i < matches.gl_pathc && !path; i++)
			if (access(matches.gl_pathv[i], R_OK) == 0)
				path = realpath(matches.gl_pathv[i], NULL);
	globfree(&matches);
	return path;
}

/* Escapes pattern characters in `directory`. */
static char *quote_path(const char *directory)
{
	char *quoted = malloc(2 * strlen(directory) + 1);
	char *end = quoted;

	for (; quoted && *directory; directory++) {
		if (strchr("*?[\\", *directory))
			*end++ = '\\';
		*end++ = *directory;
	}
	if (quoted)
		*end = '\0';
	return quoted;
}

static char *find_next_to(void)
{
	char directory[PATH_MAX];
	char *quoted = search_own_directory(directory) ? quote_path(directory) : NULL;
	char *path = NULL;

	for (size_t i = 0; quoted && i < ARRAY_LENGTH(library_patterns) && !path; i++) {
		char *pattern;

		if (asprintf(&pattern, "%s/%s" LIBRARY_NAME, quoted, library_patterns[i]) < 0)
			break;
		path = match_pattern(pattern);
		free(pattern);
	}
	free(quoted);
	return path;
}

static char *find_in(const char *directory)
{
	char *path;

	if (!directory || asprintf(&path, "%s/" LIBRARY_NAME, directory) < 0)
		return NULL;
	if (access(path, R_OK) == 0)
		return path;
	free(path);
	return NULL;
}

char *library_find_in_package(const char *package)
{
	const char *named = environment_get("PROTON_INJECT_LIB");
	char *path = named && *named ? realpath(named, NULL) : find_in(package);

	return path ? path : find_next_to();
}

char *library_find(const char *library_directory)
{
	const char *named = environment_get("PROTON_INJECT_LIB");
	struct interpreter python;
	char *path;

	if (named && named[0] != '\0') {
		path = realpath(named, NULL);
		if (!path)
			message("cannot use PROTON_INJECT_LIB='%s': %s", named, strerror(errno));
		return path;
	}
	path = find_next_to();
	if (!path)
		path = find_in(library_directory);
	if (path)
		return path;
	/* Ask a Python that keeps its packages elsewhere. */
	if (!interpreter_find("", &python))
		return NULL;
	path = find_in(python.package);
	if (!path)
		message("cannot find " LIBRARY_NAME "; set PROTON_INJECT_LIB to its path");
	interpreter_fini(&python);
	return path;
}
