/* Kind of a program file, from its ELF headers, #! line and mode. */
#include "cli/search.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define HEAD_BYTES 4096
#define NAMES_BYTES (1 << 20) /* in it linkers put the names of required libraries */
/* A script's interpreter may be a script; the limit is like Linux's. */
#define SCRIPT_DEPTH_MAX 4

struct head {
	unsigned char bytes[HEAD_BYTES + 1];
	size_t length;
};

static bool read_head(const char *path, struct head *head)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, head->bytes, HEAD_BYTES);

	if (fd >= 0)
		close(fd);
	if (got < 0)
		return false;
	head->length = (size_t)got;
	head->bytes[got] = '\0';
	return true;
}

static int own_machine(void)
{
#if defined(__x86_64__)
	return EM_X86_64;
#elif defined(__aarch64__)
	return EM_AARCH64;
#elif defined(__riscv)
	return EM_RISCV;
#elif defined(__powerpc64__)
	return EM_PPC64;
#else
	return EM_NONE; /* not checked */
#endif
}

static enum program_kind kind_of_elf(const struct head *head)
{
	Elf64_Ehdr header;

	if (head->length < sizeof(header))
		return PROGRAM_UNKNOWN;
	memcpy(&header, head->bytes, sizeof(header));
	if (header.e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) ||
	    (own_machine() != EM_NONE && header.e_machine != own_machine()))
		return PROGRAM_FOREIGN;
	if (sizeof(void *) != 8)
		return PROGRAM_DYNAMIC; /* 32-bit hosts: not checked */
	for (size_t i = 0; i < header.e_phnum; i++) {
		Elf64_Phdr segment;
		uint64_t offset = header.e_phoff + i * sizeof(segment);

		if (header.e_phoff > HEAD_BYTES || offset + sizeof(segment) > head->length)
			return PROGRAM_DYNAMIC; /* distant headers: it may work */
		memcpy(&segment, head->bytes + offset, sizeof(segment));
		if (segment.p_type == PT_INTERP)
			return PROGRAM_DYNAMIC;
	}
	return PROGRAM_STATIC;
}

static bool is_script(const struct head *head)
{
	return head->length >= 2 && memcmp(head->bytes, "#!", 2) == 0;
}

/* The interpreter of a script: the first word after `#!`, terminated in place in `head`. */
static const char *interpreter_of(struct head *head)
{
	char *text = (char *)head->bytes + 2;

	text += strspn(text, " \t");
	text[strcspn(text, " \t\n")] = '\0';
	return text;
}

static bool is_privileged(const char *path)
{
	struct stat status;

	if (stat(path, &status) != 0)
		return false;
	if ((status.st_mode & S_ISUID) && status.st_uid != geteuid())
		return true;
	if ((status.st_mode & S_ISGID) && status.st_gid != getegid())
		return true;
	return geteuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0;
}

/* GCC's AddressSanitizer ends a program if its runtime is not the first library. */
static bool needs_first_place(const char *path)
{
	static const char first[] = "libasa";
	static const char second[] = "n.so"; /* split, or this program would match */
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat status;
	size_t length;
	void *bytes;
	bool found = false;

	if (fd < 0)
		return false;
	if (fstat(fd, &status) != 0 || status.st_size <= 0) {
		close(fd);
		return false;
	}
	length = status.st_size < NAMES_BYTES ? (size_t)status.st_size : NAMES_BYTES;
	bytes = mmap(NULL, length, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (bytes == MAP_FAILED)
		return false;
	for (const char *at = bytes, *end = at + length; !found; at++) {
		at = memmem(at, (size_t)(end - at), first, strlen(first));
		if (!at)
			break;
		found = (size_t)(end - at) >= strlen(first) + strlen(second) &&
			memcmp(at + strlen(first), second, strlen(second)) == 0;
	}
	munmap(bytes, length);
	return found;
}

enum program_kind program_kind(const char *path, char file[PATH_MAX])
{
	struct head head;

	snprintf(file, PATH_MAX, "%s", path);
	for (int depth = 0; depth < SCRIPT_DEPTH_MAX; depth++) {
		enum program_kind kind;

		if (is_privileged(file))
			return PROGRAM_PRIVILEGED;
		if (!read_head(file, &head)) /* executable but not readable: it may work */
			return errno == EACCES ? PROGRAM_DYNAMIC : PROGRAM_UNREADABLE;
		if (is_script(&head)) {
			snprintf(file, PATH_MAX, "%s", interpreter_of(&head));
			continue;
		}
		if (head.length < SELFMAG || memcmp(head.bytes, ELFMAG, SELFMAG) != 0)
			return PROGRAM_UNKNOWN;
		kind = kind_of_elf(&head);
		return kind == PROGRAM_DYNAMIC && needs_first_place(file) ? PROGRAM_SANITIZED
									  : kind;
	}
	return PROGRAM_DYNAMIC;
}
