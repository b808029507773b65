/*
 * Failing allocations, preloaded into a program: number N of those that a library with "proton" in
 * its path asks for fails, or all from there on. The allocations of the program itself succeed.
 */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define EXPORT __attribute__((visibility("default")))
#define RANGES_MAX 16
#define CALLER __builtin_return_address(0)

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);

static struct {
	const char *start, *end;
} ranges[RANGES_MAX];

static int range_count;
static bool is_all; /* and all later ones */
static _Atomic long number;
static _Atomic long fails_at; /* 0: none */

static int add_ranges(struct dl_phdr_info *info, size_t size, void *unused)
{
	if (!strstr(info->dlpi_name, "proton"))
		return 0;
	for (int i = 0; i < info->dlpi_phnum && range_count < RANGES_MAX; i++) {
		const char *start = (const char *)info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;

		if (info->dlpi_phdr[i].p_type != PT_LOAD || !(info->dlpi_phdr[i].p_flags & PF_X))
			continue;
		ranges[range_count].start = start;
		ranges[range_count++].end = start + info->dlpi_phdr[i].p_memsz;
	}
	return 0;
}

/* Returns the number of libraries that it watches. */
EXPORT int failing_begin(long at, bool all)
{
	range_count = 0;
	dl_iterate_phdr(add_ranges, NULL);
	is_all = all;
	number = 0;
	fails_at = at;
	return range_count;
}

/* Returns the number of allocations since then. */
EXPORT long failing_end(void)
{
	fails_at = 0;
	return number;
}

static bool fails(const void *caller)
{
	const char *from = caller;
	long count;

	for (int i = 0; fails_at && i < range_count; i++) {
		if (from < ranges[i].start || from >= ranges[i].end)
			continue;
		count = atomic_fetch_add(&number, 1) + 1;
		if (count != fails_at && !(is_all && count > fails_at))
			return false;
		errno = ENOMEM;
		return true;
	}
	return false;
}

EXPORT void *malloc(size_t bytes)
{
	return fails(CALLER) ? NULL : __libc_malloc(bytes);
}

EXPORT void *calloc(size_t count, size_t bytes)
{
	return fails(CALLER) ? NULL : __libc_calloc(count, bytes);
}

EXPORT void *realloc(void *old, size_t bytes)
{
	return fails(CALLER) ? NULL : __libc_realloc(old, bytes);
}

EXPORT char *strndup(const char *text, size_t max)
{
	size_t length = strnlen(text, max);
	char *copy = fails(CALLER) ? NULL : __libc_malloc(length + 1);

	if (!copy)
		return NULL;
	memcpy(copy, text, length);
	copy[length] = '\0';
	return copy;
}

EXPORT char *strdup(const char *text)
{
	size_t bytes = strlen(text) + 1;
	char *copy = fails(CALLER) ? NULL : __libc_malloc(bytes);

	return copy ? memcpy(copy, text, bytes) : NULL;
}

EXPORT int vasprintf(char **out, const char *format, va_list arguments)
{
	va_list again;
	int length;

	va_copy(again, arguments);
	length = vsnprintf(NULL, 0, format, again);
	va_end(again);
	*out = length < 0 ? NULL : __libc_malloc((size_t)length + 1);
	return *out ? vsnprintf(*out, (size_t)length + 1, format, arguments) : -1;
}

EXPORT int asprintf(char **out, const char *format, ...)
{
	bool is_failing = fails(CALLER);
	va_list arguments;
	int length;

	if (is_failing)
		return -1;
	va_start(arguments, format);
	length = vasprintf(out, format, arguments);
	va_end(arguments);
	return length;
}

EXPORT int __asprintf_chk(char **out, int flag, const char *format, ...)
{
	bool is_failing = fails(CALLER);
	va_list arguments;
	int length;

	if (is_failing)
		return -1;
	va_start(arguments, format);
	length = vasprintf(out, format, arguments);
	va_end(arguments);
	return length;
}

EXPORT void *mmap(void *at, size_t length, int protection, int flags, int fd, off_t offset)
{
	static void *(*next)(void *, size_t, int, int, int, off_t);

	if (!next) {
		void *symbol = dlsym(RTLD_NEXT, "mmap");

		memcpy(&next, &symbol, sizeof(next));
	}
	return fails(CALLER) ? MAP_FAILED : next(at, length, protection, flags, fd, offset);
}
