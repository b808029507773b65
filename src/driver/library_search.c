/* Search for a vendor's shared library. */
#include "driver/library_search.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/environment.h"

void library_search_note(struct library_search *search, const char *what)
{
	size_t used = strlen(search->tried);

	snprintf(search->tried + used, sizeof(search->tried) - used, "%s%s", used ? ", " : "",
		 what);
}

static bool open_file(struct library_search *search, const char *path, int flags)
{
	search->handle = dlopen(path, RTLD_LAZY | search->flags | flags);
	if (!search->handle && !*search->reason && access(path, R_OK) == 0)
		snprintf(search->reason, sizeof(search->reason), "%s", dlerror());
	return search->handle;
}

bool library_search_file(struct library_search *search, const char *path)
{
	if (!search->file_out)
		return open_file(search, path, 0);
	search->is_found = access(path, R_OK) == 0 &&
			   snprintf(search->file_out, PATH_MAX, "%s", path) > 0;
	return search->is_found;
}

bool library_search_directory(struct library_search *search, const char *directory)
{
	char path[PATH_MAX];

	for (size_t i = 0; search->names[i]; i++) {
		int length = snprintf(path, sizeof(path), "%s/%s", directory, search->names[i]);

		if (length > 0 && length < PATH_MAX && access(path, R_OK) == 0 &&
		    library_search_file(search, path))
			return true;
	}
	return false;
}

bool library_search_below(struct library_search *search, const char *root, const char *below)
{
	char path[PATH_MAX];
	int length = snprintf(path, sizeof(path), "%s/%s", root, below);

	return length > 0 && length < PATH_MAX && library_search_directory(search, path);
}

bool library_search_loader(struct library_search *search, int flags)
{
	for (size_t i = 0; search->names[i]; i++)
		if (open_file(search, search->names[i], flags))
			return true;
	return false;
}

const char *library_search_value(const char *variable)
{
	const char *value = variable ? environment_get(variable) : NULL;

	return value && *value ? value : NULL;
}

bool library_search_named(struct library_search *search, const char *variable)
{
	const char *value = library_search_value(variable);
	char what[300];
	struct stat st;

	if (!value)
		return false;
	snprintf(what, sizeof(what), "%s=%.200s", variable, value);
	library_search_note(search, what);
	if (stat(value, &st) == 0 && S_ISDIR(st.st_mode))
		library_search_directory(search, value);
	else
		library_search_file(search, value);
	return true;
}

size_t library_search_packages(const char *path)
{
	const char *end = strstr(path, "-packages/");

	return end ? (size_t)(end - path) + strlen("-packages") : 0;
}
