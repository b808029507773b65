/*
 * Failing allocations. The program is linked with --wrap for every allocating function (see
 * meson.build): only Proton's own calls fail, number `fails_at` or all from there on.
 */
#pragma once

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>

static _Atomic long live;   /* allocations that were not freed */
static _Atomic long number; /* number of the next allocation */
static long fails_at;       /* 0: never */
static bool fails_from_there;

static bool fails(void)
{
	number++;
	return fails_at && (fails_from_there ? number >= fails_at : number == fails_at);
}

__attribute__((unused)) static bool has_failed(void)
{
	return fails_at && number >= fails_at;
}

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void __real_free(void *memory);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t length);
void *__real_mmap(void *at, size_t length, int protection, int flags, int fd, off_t offset);

void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void __wrap_free(void *memory);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t length);
int __wrap_asprintf(char **out, const char *format, ...) __attribute__((format(printf, 2, 3)));
int __wrap___asprintf_chk(char **out, int flag, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void *__wrap_mmap(void *at, size_t length, int protection, int flags, int fd, off_t offset);

static void *noted(void *memory)
{
	live += memory != NULL;
	return memory;
}

static void *refused(void)
{
	errno = ENOMEM;
	return NULL;
}

void *__wrap_malloc(size_t bytes)
{
	return fails() ? refused() : noted(__real_malloc(bytes));
}

void *__wrap_calloc(size_t count, size_t bytes)
{
	return fails() ? refused() : noted(__real_calloc(count, bytes));
}

void *__wrap_realloc(void *old, size_t bytes)
{
	if (fails())
		return refused();
	void *memory = __real_realloc(old, bytes);
	live += !old && memory;
	return memory;
}

void __wrap_free(void *memory)
{
	live -= memory != NULL;
	__real_free(memory);
}

char *__wrap_strdup(const char *text)
{
	return fails() ? refused() : noted(__real_strdup(text));
}

char *__wrap_strndup(const char *text, size_t length)
{
	return fails() ? refused() : noted(__real_strndup(text, length));
}

static int format_text(char **out, const char *format, va_list arguments)
{
	if (fails()) {
		refused();
		return -1;
	}
	int length = vasprintf(out, format, arguments);
	live += length >= 0;
	return length;
}

int __wrap_asprintf(char **out, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	int length = format_text(out, format, arguments);
	va_end(arguments);
	return length;
}

/* The same with _FORTIFY_SOURCE. */
int __wrap___asprintf_chk(char **out, int flag, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	int length = format_text(out, format, arguments);
	va_end(arguments);
	return length;
}

void *__wrap_mmap(void *at, size_t length, int protection, int flags, int fd, off_t offset)
{
	if (fails()) {
		refused();
		return MAP_FAILED;
	}
	return __real_mmap(at, length, protection, flags, fd, offset);
}
