/* Program search on $PATH, as execvp() does it, and the kind of a program file. */
#include "cli/search.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
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

	path[length < 0 ? 0 : length] = '\0';
	char *slash = strrchr(path, '/');
	if (slash)
		*slash = '\0';
	return slash != NULL;
}

/* ------------------------------------------------------------------ kinds */

#define HEAD_BYTES 4096
#define NAMES_BYTES (1 << 20) /* in it linkers put the names of required libraries */
/* A script's interpreter may be a script; the limit is like Linux's. */
#define SCRIPT_DEPTH_MAX 4

struct head {
	char bytes[HEAD_BYTES + 1];
	size_t length;
};

bool search_read_head(const char *path, char *bytes, size_t capacity, size_t *length_out)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, bytes, capacity - 1);

	if (fd >= 0)
		close(fd);
	if (got < 0)
		return false;
	*length_out = (size_t)got;
	bytes[got] = '\0';
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
	char *text = head->bytes + 2;

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
	bool found = false;

	if (fd < 0)
		return false;
	if (fstat(fd, &status) != 0 || status.st_size <= 0) {
		close(fd);
		return false;
	}
	size_t length = status.st_size < NAMES_BYTES ? (size_t)status.st_size : NAMES_BYTES;
	void *bytes = mmap(NULL, length, PROT_READ, MAP_PRIVATE, fd, 0);
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
		if (is_privileged(file))
			return PROGRAM_PRIVILEGED;
		if (!search_read_head(file, head.bytes, sizeof(head.bytes),
				      &head.length)) /* executable but not readable: it may work */
			return errno == EACCES ? PROGRAM_DYNAMIC : PROGRAM_UNREADABLE;
		if (is_script(&head)) {
			snprintf(file, PATH_MAX, "%s", interpreter_of(&head));
			continue;
		}
		if (head.length < SELFMAG || memcmp(head.bytes, ELFMAG, SELFMAG) != 0)
			return PROGRAM_UNKNOWN;
		enum program_kind kind = kind_of_elf(&head);
		return kind == PROGRAM_DYNAMIC && needs_first_place(file) ? PROGRAM_SANITIZED
									  : kind;
	}
	return PROGRAM_DYNAMIC;
}
