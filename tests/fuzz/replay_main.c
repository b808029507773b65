/*
 * Runs a fuzz target over files instead of random bytes: its corpus becomes an ordinary test with
 * any compiler. Usage: replay_<reader> FILE-OR-DIRECTORY... Each input is also truncated at up
 * to 64 places, because truncation is the usual defect of files. Output is TAP, one test per file.
 */
#include <dirent.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

#define MAX_CUTS 64

static int number;
static int failed;

/* A copy in memory of the exact size: AddressSanitizer finds a read past the end. */
static void try_bytes(const uint8_t *bytes, size_t length)
{
	uint8_t *copy = malloc(length ? length : 1);

	if (!copy)
		exit(1);
	memcpy(copy, bytes, length);
	LLVMFuzzerTestOneInput(copy, length);
	free(copy);
}

static uint8_t *read_file(const char *path, size_t *length_out)
{
	FILE *file = fopen(path, "rb");
	uint8_t *bytes = NULL;
	long size;

	if (!file)
		return NULL;
	if (fseek(file, 0, SEEK_END) == 0 && (size = ftell(file)) >= 0) {
		rewind(file);
		bytes = malloc((size_t)size + 1);
		if (bytes)
			*length_out = fread(bytes, 1, (size_t)size, file);
	}
	fclose(file);
	return bytes;
}

static void replay_file(const char *path)
{
	size_t length = 0;
	uint8_t *bytes = read_file(path, &length);

	number++;
	if (!bytes) {
		printf("not ok %d - %s cannot be read\n", number, path);
		failed++;
		return;
	}
	/* Printed first: the last line of a crashed run then names the input. */
	printf("# %s\n", path);
	fflush(stdout);
	try_bytes(bytes, length);
	for (size_t i = 0; i < MAX_CUTS && i < length; i++)
		try_bytes(bytes, length * i / MAX_CUTS);
	printf("ok %d - %s\n", number, strrchr(path, '/') ? strrchr(path, '/') + 1 : path);
	free(bytes);
}

static void replay(const char *path)
{
	struct dirent **entries;
	struct stat st;
	int count;

	if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode)) {
		replay_file(path);
		return;
	}
	count = scandir(path, &entries, NULL, alphasort);
	for (int i = 0; i < count; i++) {
		char name[PATH_MAX];

		if (entries[i]->d_name[0] != '.') {
			snprintf(name, sizeof(name), "%s/%s", path, entries[i]->d_name);
			replay(name);
		}
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		replay(argv[i]);
	if (number == 0) {
		printf("not ok 1 - the corpus is empty\n");
		number = failed = 1;
	}
	printf("1..%d\n", number);
	return failed > 0;
}
