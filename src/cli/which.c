/* `proton --which`: which programs the names proton and proton-viewer run. */
#include "cli/which.h"

#include <libproton/proton.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/environment.h"
#include "base/message.h"
#include "cli/interpreter.h"
#include "cli/search.h"

#define HEAD_BYTES 4096
#define UNIQUE_PREFIX "triton-"

static const char *const names[] = {"proton", "proton-viewer"};

enum owner {
	OWNER_NONE, /* no such program */
	OWNER_US,
	OWNER_TRITON,
	OWNER_OTHER,
};

/* Triton's is a short script that imports its profiler; this one is an ELF file. */
static enum owner owner_of(const char *path)
{
	char head[HEAD_BYTES];
	FILE *file = path ? fopen(path, "rb") : NULL;
	size_t length;

	if (!file)
		return OWNER_NONE;
	length = fread(head, 1, sizeof(head), file);
	fclose(file);
	if (length >= 4 && memcmp(head, "\177ELF", 4) == 0)
		return OWNER_US;
	if (length >= 2 && memcmp(head, "#!", 2) == 0 &&
	    memmem(head, length, "triton.profiler", strlen("triton.profiler")))
		return OWNER_TRITON;
	return OWNER_OTHER;
}

/* The program that a shell would run; malloc'd, NULL if there is none. */
static char *on_path(const char *name)
{
	char *plain;
	char *path = search_path(name, &plain);

	free(plain);
	return path;
}

/* The program `name` in the directory of `other`; malloc'd. */
static char *next_to(const char *other, const char *name)
{
	const char *slash = other ? strrchr(other, '/') : NULL;
	char *path;

	if (!slash || asprintf(&path, "%.*s/%s", (int)(slash - other), other, name) < 0)
		return NULL;
	return path;
}

static void print_name(const char *name)
{
	char *path = on_path(name);
	const char *description = "another program";
	enum owner owner = owner_of(path);

	if (owner == OWNER_US)
		description = "this profiler";
	else if (owner == OWNER_TRITON)
		description = "Triton's own profiler";
	if (path)
		printf("%s: %s (%s)\n", name, path, description);
	else
		printf("%s: not on PATH\n", name);
	free(path);
}

bool which_print(void)
{
	char own[PATH_MAX] = "";
	struct interpreter python;
	bool is_found;

	if (readlink("/proc/self/exe", own, sizeof(own) - 1) > 0)
		printf("this program: %s (%s)\n", own, PROTON_VERSION);
	is_found = interpreter_find("", &python);
	if (is_found)
		printf("Python: %s\npackage: %s\n", python.executable, python.package);
	for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
		print_name(names[i]);
	fflush(stdout);
	interpreter_fini(&python);
	which_note_others();
	return is_found;
}

/* Searched next to the given Python, next to this program, and on PATH. */
static char *find_tritons(const char *name)
{
	char own[PATH_MAX] = "";
	char *places[3];
	char *found = NULL;

	if (readlink("/proc/self/exe", own, sizeof(own) - 1) < 0)
		own[0] = '\0';
	places[0] = next_to(environment_get("PROTON_PYTHON"), name);
	places[1] = next_to(own, name);
	places[2] = on_path(name);
	for (size_t i = 0; i < ARRAY_LENGTH(places); i++) {
		if (!found && owner_of(places[i]) == OWNER_TRITON)
			found = places[i];
		else
			free(places[i]);
	}
	return found;
}

void which_note_others(void)
{
	for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
		char *path = find_tritons(names[i]);

		if (path) {
			message("%s is Triton's own profiler; this one is always " UNIQUE_PREFIX
				"proton, " UNIQUE_PREFIX
				"proton-viewer and python -m triton_proton",
				path);
			free(path);
			return;
		}
	}
}

const char *which_viewer(void)
{
	char *path = on_path("proton-viewer");
	const char *name = owner_of(path) == OWNER_TRITON ? UNIQUE_PREFIX "proton-viewer"
							  : "proton-viewer";

	free(path);
	return name;
}
