/* `proton --which`: which programs the names proton and proton-viewer run. */
#include "cli/proton_options.h"

#include <libproton/proton.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "base/array.h"
#include "base/environment.h"
#include "base/message.h"
#include "cli/interpreter.h"
#include "cli/search.h"

#define HEAD_BYTES 4096
#define UNIQUE_PREFIX "triton-"

static const char *const names[] = {"proton", "proton-viewer"};

static const char tritons[] = "Triton's own profiler";

/* Triton's is a short script that imports its profiler; this one is an ELF file. */
static const char *owner_of(const char *path)
{
	char head[HEAD_BYTES];
	size_t length = 0;

	search_read_head(path, head, sizeof(head), &length);
	if (length >= 4 && memcmp(head, "\177ELF", 4) == 0)
		return "this profiler";
	if (length >= 2 && memcmp(head, "#!", 2) == 0 &&
	    memmem(head, length, "triton.profiler", strlen("triton.profiler")))
		return tritons;
	return "another program";
}

static void print_name(const char *name)
{
	char path[PATH_MAX];

	if (search_path(name, path) == SEARCH_PROGRAM)
		printf("%s: %s (%s)\n", name, path, owner_of(path));
	else
		printf("%s: not on PATH\n", name);
}

bool which_print(void)
{
	char own[PATH_MAX] = "";
	struct interpreter python;

	if (readlink("/proc/self/exe", own, sizeof(own) - 1) > 0)
		printf("this program: %s (%s)\n", own, PROTON_VERSION);
	bool is_found = interpreter_find("", &python);
	if (is_found)
		printf("Python: %s\npackage: %s\n", python.executable, python.package);
	for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
		print_name(names[i]);
	fflush(stdout);
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
		if (owner_of(path) == tritons)
			return true;
	}
	if (search_own_directory(own) && snprintf(path, PATH_MAX, "%s/%s", own, name) < PATH_MAX &&
	    owner_of(path) == tritons)
		return true;
	search_path(name, path);
	return owner_of(path) == tritons;
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
	return owner_of(path) == tritons ? UNIQUE_PREFIX "proton-viewer" : "proton-viewer";
}
