/*
 * Whether the recorder can be loaded into a program file. LD_PRELOAD is ignored without a word by
 * static and by privileged programs, and the user would look for a profile that never comes; so
 * the ELF header and the file's mode are looked at first. The driver can bring the recorder into
 * some of them (CUDA_INJECTION64_PATH), but not with another user's rights: it would write files.
 */
#include "cli/program.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/note.h"

#define HEAD_BYTES 4096
#define NAMES_BYTES (1 << 20) /* where linkers put the names of the libraries needed */
/* Scripts whose interpreter is a script: Linux follows a few, so do we. */
#define SCRIPT_DEPTH_MAX 4

enum kind {
	KIND_DYNAMIC,
	KIND_STATIC,
	KIND_FOREIGN, /* another word size or machine */
	KIND_SCRIPT,
	KIND_UNKNOWN,
};

struct head {
	unsigned char bytes[HEAD_BYTES + 1];
	size_t length;
};

static bool read_head(const char *path, struct head *head)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got;

	if (fd < 0)
		return false;
	got = read(fd, head->bytes, HEAD_BYTES);
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
	return EM_NONE; /* not compared */
#endif
}

static enum kind kind_of_elf(const struct head *head)
{
	Elf64_Ehdr header;

	if (head->length < sizeof(header))
		return KIND_UNKNOWN;
	memcpy(&header, head->bytes, sizeof(header));
	if (header.e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) ||
	    (own_machine() != EM_NONE && header.e_machine != own_machine()))
		return KIND_FOREIGN;
	if (sizeof(void *) != 8)
		return KIND_DYNAMIC; /* 32-bit hosts: not looked into */
	for (size_t i = 0; i < header.e_phnum; i++) {
		Elf64_Phdr segment;
		uint64_t offset = header.e_phoff + i * sizeof(segment);

		if (header.e_phoff > HEAD_BYTES || offset + sizeof(segment) > head->length)
			return KIND_DYNAMIC; /* headers far off: give it the benefit of the doubt */
		memcpy(&segment, head->bytes + offset, sizeof(segment));
		if (segment.p_type == PT_INTERP)
			return KIND_DYNAMIC;
	}
	return KIND_STATIC;
}

static enum kind kind_of(const struct head *head)
{
	if (head->length >= SELFMAG && memcmp(head->bytes, ELFMAG, SELFMAG) == 0)
		return kind_of_elf(head);
	if (head->length >= 2 && memcmp(head->bytes, "#!", 2) == 0)
		return KIND_SCRIPT;
	return KIND_UNKNOWN;
}

/* The interpreter of a script: the first word behind `#!`, cut out of `head` in place. */
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

/* GCC's AddressSanitizer ends a program in which its runtime is not the first library. */
static bool needs_first_place(const char *path)
{
	static const char runtime[] = "libasan.so";
	char *bytes = malloc(NAMES_BYTES);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd >= 0 && bytes ? read(fd, bytes, NAMES_BYTES) : 0;
	bool found = got > 0 && memmem(bytes, (size_t)got, runtime, sizeof(runtime) - 1);

	if (fd >= 0)
		close(fd);
	free(bytes);
	return found;
}

static enum program_entry inject_or_refuse(const char *path, const char *why, bool can_inject)
{
	if (!can_inject) {
		note("cannot load the recorder into '%s': %s", path, why);
		return PROGRAM_REFUSED;
	}
	note("'%s': %s; it is recorded from the moment it initialises CUDA", path, why);
	return PROGRAM_INJECT;
}

/* What is not a script: the end of the chain. */
static enum program_entry check_kind(enum kind kind, const char *path, const char *file,
				     bool can_inject)
{
	switch (kind) {
	case KIND_STATIC:
		return inject_or_refuse(file, "it is statically linked", can_inject);
	case KIND_FOREIGN:
		note("cannot load the recorder into '%s': it is built for another machine or word "
		     "size",
		     file);
		return PROGRAM_REFUSED;
	case KIND_UNKNOWN:
		note("cannot run '%s': it is neither a program nor a script with a #! line", file);
		return PROGRAM_REFUSED;
	default:
		if (needs_first_place(file))
			return inject_or_refuse(path, "its AddressSanitizer bears no LD_PRELOAD",
						can_inject);
		return PROGRAM_PRELOAD;
	}
}

enum program_entry program_check(const char *path, bool can_inject)
{
	struct head head;
	char interpreter[HEAD_BYTES + 1];
	const char *file = path;

	for (int depth = 0; depth < SCRIPT_DEPTH_MAX; depth++) {
		enum kind kind;

		if (is_privileged(file)) {
			note("cannot load the recorder into '%s': it runs with the rights of "
			     "another user (setuid, setgid or capabilities)",
			     file);
			return PROGRAM_REFUSED;
		}
		if (!read_head(file, &head)) {
			if (errno == EACCES)
				return PROGRAM_PRELOAD; /* executable but not readable: may work */
			note("cannot run '%s': %s: %s", path, file, strerror(errno));
			return PROGRAM_REFUSED;
		}
		kind = kind_of(&head);
		if (kind != KIND_SCRIPT)
			return check_kind(kind, path, file, can_inject);
		snprintf(interpreter, sizeof(interpreter), "%s", interpreter_of(&head));
		file = interpreter;
	}
	return PROGRAM_PRELOAD;
}
