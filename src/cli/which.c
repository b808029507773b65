/* `proton --which`: which programs the names proton and proton-viewer run. */
#include "cli/proton_options.h"

#include <libproton/proton.h>
#include <limits.h>
#include <stdio.h>
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
	FILE *file = fopen(path, "rb");
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

static void print_name(const char *name)
{
	char path[PATH_MAX];
	bool is_found = search_path(name, path) == SEARCH_PROGRAM;
	const char *description = "another program";
	enum owner owner = owner_of(path);

	if (owner == OWNER_US)
		description = "this profiler";
	else if (owner == OWNER_TRITON)
		description = "Triton's own profiler";
	if (is_found)
		printf("%s: %s (%s)\n", name, path, description);
	else
		printf("%s: not on PATH\n", name);
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

/* Searched next to the given Python, next to this program, and on PATH. False: none is Triton's. */
static bool find_tritons(const char *name, char path[PATH_MAX])
{
	const char *python = environment_get("PROTON_PYTHON");
	const char *slash = python ? strrchr(python, '/') : NULL;
	char own[PATH_MAX];

	if (slash) {
		snprintf(path, PATH_MAX, "%.*s/%s", (int)(slash - python), python, name);
		if (owner_of(path) == OWNER_TRITON)
			return true;
	}
	if (search_own_directory(own) && snprintf(path, PATH_MAX, "%s/%s", own, name) < PATH_MAX &&
	    owner_of(path) == OWNER_TRITON)
		return true;
	search_path(name, path);
	return owner_of(path) == OWNER_TRITON;
}

void which_note_others(void)
{
	char path[PATH_MAX];

	for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
		if (find_tritons(names[i], path)) {
			message("%s is Triton's own profiler; this one is always " UNIQUE_PREFIX
				"proton, " UNIQUE_PREFIX
				"proton-viewer and python -m triton_proton",
				path);
			return;
		}
	}
}

const char *which_viewer(void)
{
	char path[PATH_MAX];

	search_path("proton-viewer", path);
	return owner_of(path) == OWNER_TRITON ? UNIQUE_PREFIX "proton-viewer" : "proton-viewer";
}
