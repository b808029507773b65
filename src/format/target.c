/* Output names of a session: checks of names and of existing files. */
#include "format/target.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/environment.h"
#include "base/replace.h"
#include "format/profile_view.h"
#include "format/rows.h"

/* ------------------------------------------------------------------ recognizing profiles */

/* Member names of a node in hatchet's literal format. */
static bool is_member(const char *bytes, size_t length)
{
	static const char *const members[] = {"frame", "children", "metrics"};

	for (size_t i = 0; i < ARRAY_LENGTH(members); i++)
		if (length >= strlen(members[i]) &&
		    memcmp(bytes, members[i], strlen(members[i])) == 0)
			return true;
	return false;
}

static size_t skip_space(const char *bytes, size_t length, size_t at)
{
	while (at < length && memchr(" \t\r\n", bytes[at], 4))
		at++;
	return at;
}

/* [{"frame": ... */
static bool is_hatchet(const char *bytes, size_t length)
{
	static const char opening[] = "[{\"";
	size_t at = 0;

	for (size_t i = 0; i < sizeof(opening) - 1; i++) {
		at = skip_space(bytes, length, at);
		if (at == length || bytes[at++] != opening[i])
			return false;
	}
	return is_member(bytes + at, length - at);
}

/* True for an array that begins with a map with a short key. */
static bool is_msgpack(const char *bytes, size_t length)
{
	const unsigned char *b = (const unsigned char *)bytes;

	if (length < 8 || (b[0] & 0xf0) != 0x90)
		return false;
	size_t at = (b[1] & 0xf0) == 0x80 ? 2 : b[1] == 0xde ? 4 : 0;
	return at && (b[at] & 0xe0) == 0xa0 && is_member(bytes + at + 1, length - at - 1);
}

static bool is_chrome_trace(const char *bytes, size_t length)
{
	size_t at = skip_space(bytes, length, 0);

	return at < length && bytes[at] == '{' &&
	       (memmem(bytes, length, "\"traceEvents\"", 13) ||
		memmem(bytes, length, "\"displayTimeUnit\"", 17));
}

static bool read_varint(const unsigned char *b, size_t length, size_t *at, uint64_t *value)
{
	*value = 0;
	for (unsigned shift = 0; shift < 64 && *at < length; shift += 7) {
		*value |= (uint64_t)(b[*at] & 0x7f) << shift;
		if (!(b[(*at)++] & 0x80))
			return true;
	}
	return false;
}

/* True if these bytes are the fields of one protocol buffer message. */
static bool is_message(const unsigned char *b, size_t length)
{
	size_t at = 0;

	while (at < length) {
		uint64_t tag, size;

		if (!read_varint(b, length, &at, &tag) || tag >> 3 == 0)
			return false;
		switch (tag & 7) {
		case 0:
			if (!read_varint(b, length, &at, &size))
				return false;
			size = 0;
			break;
		case 1:
			size = 8;
			break;
		case 2:
			if (!read_varint(b, length, &at, &size))
				return false;
			break;
		case 5:
			size = 4;
			break;
		default:
			return false;
		}
		if (size > length - at)
			return false;
		at += size;
	}
	return true;
}

/* True for a field of compressed packets: a zlib stream, which may be longer than the head. */
static bool is_compressed(const unsigned char *b, size_t length)
{
	static const unsigned char tag[] = {0x92, 0x03}; /* field 50, a length follows */
	size_t at = sizeof(tag);
	uint64_t size;

	return length > at && memcmp(b, tag, at) == 0 && read_varint(b, length, &at, &size) &&
	       at < length && b[at] == 0x78;
}

/* True for trace packets, of which the first is small or compressed. */
static bool is_perfetto(const char *bytes, size_t length)
{
	const unsigned char *b = (const unsigned char *)bytes;
	uint64_t size;
	size_t at = 1;

	if (!length || b[0] != 0x0a || !read_varint(b, length, &at, &size) || !size)
		return false;
	return is_compressed(b + at, length - at) ||
	       (size <= length - at && is_message(b + at, size) &&
		(at + size == length || b[at + size] == 0x0a));
}

bool target_recognize(const char *bytes, size_t length)
{
	return profile_view_recognize(bytes, length) || is_hatchet(bytes, length) ||
	       is_msgpack(bytes, length) || is_chrome_trace(bytes, length) ||
	       is_perfetto(bytes, length);
}

/* ------------------------------------------------------------------ targets */

/* Suffixes of outputs; a test compares them with the formats. */
static const char *const suffixes[] = {"hatchet", "hatchet_msgpack", "proton", "chrome_trace",
				       "pftrace"};

/* Maximum length of additions to a name: ".PID", ".part_N" and a suffix. */
#define NAME_TAIL_MAX 40

bool target_is_standard_output(const char *name)
{
	return !*name || strcmp(name, "-") == 0;
}

bool target_env_no_clobber(void)
{
	const char *value = environment_get("PROTON_NO_CLOBBER");

	return value && *value && strcmp(value, "0") != 0;
}

/* ------------------------------------------------------------------ names */

static bool is_directory_name(const char *base, size_t length)
{
	return length == 0 || (length == 1 && base[0] == '.') ||
	       (length == 2 && base[0] == '.' && base[1] == '.');
}

/* The length of `base` without the suffix of an output. */
static size_t length_without_suffix(const char *base)
{
	const char *dot = strrchr(base, '.');

	for (size_t i = 0; dot && i < ARRAY_LENGTH(suffixes); i++)
		if (strcmp(dot + 1, suffixes[i]) == 0 &&
		    !is_directory_name(base, (size_t)(dot - base)))
			return (size_t)(dot - base);
	return strlen(base);
}

/* The directory of a path must exist and be writable; the recorder would find out later. */
static int check_directory(const char *path, char directory[PATH_MAX], struct proton_error *err)
{
	const char *slash = strrchr(path, '/');
	struct stat st;

	snprintf(directory, PATH_MAX, "%.*s", slash > path ? (int)(slash - path) : 1,
		 slash ? path : ".");
	if (stat(directory, &st) < 0)
		return err_errno(err, errno, "cannot write to directory '%s'", directory);
	if (!S_ISDIR(st.st_mode))
		return err_set(err, PROTON_E_INVALID, "cannot write to '%s': it is not a directory",
			       directory);
	if (faccessat(AT_FDCWD, directory, W_OK | X_OK, AT_EACCESS) < 0)
		return err_errno(err, errno, "cannot write to directory '%s'", directory);
	return PROTON_OK;
}

static int check_name(const char *name, const char *base, struct proton_error *err)
{
	struct stat st;

	if (is_directory_name(base, strlen(base)))
		return err_set(err, PROTON_E_INVALID,
			       "the output name '%s' is a directory: add a file name, such as "
			       "%s%sproton",
			       name, name, *base ? "/" : "");
	if ((strncmp(name, "/dev/", 5) == 0 && strncmp(name, "/dev/shm/", 9) != 0) ||
	    (stat(name, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)))
		return err_set(err, PROTON_E_INVALID,
			       "the output name '%s' is a device or a pipe; use a file name, - for "
			       "standard output, or the output format none",
			       name);
	return PROTON_OK;
}

static int check_length(const char *directory, const char *base, size_t length,
			struct proton_error *err)
{
	long name_max = pathconf(directory, _PC_NAME_MAX);
	size_t maximum = (size_t)(name_max > 0 ? name_max : NAME_MAX) - NAME_TAIL_MAX;

	if (length <= maximum)
		return PROTON_OK;
	return err_set(err, PROTON_E_INVALID,
		       "the output name '%.20s...' is too long: %zu bytes; the maximum is %zu",
		       base, length, maximum);
}

int target_stem(const char *name, char **stem_out, struct proton_error *err)
{
	const char *slash = strrchr(name, '/');
	const char *base = slash ? slash + 1 : name;
	size_t prefix = (size_t)(base - name);
	size_t length = length_without_suffix(base);
	char directory[PATH_MAX];
	char current[PATH_MAX] = "";

	TRY(check_name(name, base, err));
	if (*name != '/' && !getcwd(current, sizeof(current)))
		return err_errno(err, errno, "cannot determine the current directory");
	if (strlen(current) + 1 + strlen(name) + NAME_TAIL_MAX >= PATH_MAX)
		return err_set(err, PROTON_E_INVALID, "the output name '%.20s...' is too long",
			       name);
	int status = check_directory(name, directory, err);
	if (status == PROTON_OK)
		status = check_length(directory, base, length, err);
	if (status != PROTON_OK)
		return status;
	if (asprintf(stem_out, "%s%s%.*s", current, *current ? "/" : "", (int)(prefix + length),
		     name) < 0)
		return err_nomem(err);
	return PROTON_OK;
}

/* ------------------------------------------------------------------ files that exist */

/* The first bytes of a file; -1: errno. */
static ssize_t read_head(const char *path, char *bytes, size_t capacity)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	ssize_t length = fd < 0 ? -1 : file_read_full(fd, bytes, capacity, -1);

	if (fd >= 0)
		close(fd);
	return length;
}

static int refuse_existing(const char *path, struct proton_error *err)
{
	return err_set(err, PROTON_E_INVALID,
		       "%s exists, and --no-clobber (PROTON_NO_CLOBBER) keeps it; choose another "
		       "name",
		       path);
}

static int refuse_foreign(const char *path, struct proton_error *err)
{
	return err_set(err, PROTON_E_INVALID,
		       "cannot write %s: it exists and is not a profile; choose another name or "
		       "remove it",
		       path);
}

int target_check(const char *path, bool no_clobber, bool *has_profile_out, struct proton_error *err)
{
	char head[FILE_HEAD_BYTES];
	char directory[PATH_MAX]; /* renaming over the file requires it; a link may change it */
	bool exists;
	struct stat st;
	AUTO_FREE char *target = NULL;
	ssize_t length = 0;
	int status = file_replace_target(path, &target, &exists, &st, err);

	if (status != PROTON_OK)
		return status;
	if (exists) {
		length = read_head(target, head, sizeof(head));
		status = no_clobber ? refuse_existing(path, err)
			 : length < 0 && errno != ENOENT
				 ? err_errno(err, errno, "cannot write %s: cannot read it", path)
				 : check_directory(target, directory, err);
	}
	if (status == PROTON_OK && length > 0 && !target_recognize(head, (size_t)length))
		status = refuse_foreign(path, err);
	if (status == PROTON_OK && has_profile_out)
		*has_profile_out = length > 0;
	return status;
}

/* Checks parts of an earlier run: all have the same suffix. */
static int check_parts(const char *stem, const char *suffix, struct proton_error *err)
{
	const char *base = strrchr(stem, '/') + 1;
	AUTO_FREE char *directory = strndup(stem, (size_t)(base - stem));
	DIR *entries = directory ? opendir(directory) : NULL;
	const struct dirent *entry;
	size_t length = strlen(base);
	int status = PROTON_OK;

	while (entries && status == PROTON_OK && (entry = readdir(entries))) {
		const char *rest = entry->d_name + length;

		if (strncmp(entry->d_name, base, length) != 0 || strncmp(rest, ".part_", 6) != 0)
			continue;
		rest += 6;
		rest += strspn(rest, "0123456789");
		if (*rest == '.' && strcmp(rest + 1, suffix) == 0)
			status = refuse_existing(entry->d_name, err);
	}
	if (entries)
		closedir(entries);
	return status;
}

/* Checks the working file: a complete earlier one is replaced, any other profile is renamed. */
static int check_working_file(const char *path, bool no_clobber, struct proton_error *err)
{
	static const char zeros[8];
	char head[FILE_HEAD_BYTES];
	uint32_t state;
	struct stat st;

	if (lstat(path, &st) < 0)
		return errno == ENOENT ? PROTON_OK : err_errno(err, errno, "cannot write %s", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, PROTON_E_INVALID,
			       "cannot write the working file %s: it exists and is not a regular "
			       "file; choose another name or remove it",
			       path);
	ssize_t length = read_head(path, head, sizeof(head));
	if (length < 0 && errno == ENOENT)
		return PROTON_OK; /* its process has just renamed or removed it */
	if (length < 0)
		return err_errno(err, errno, "cannot read the earlier working file %s", path);
	/*
	 * Zeros in place of the magic number: another process is starting, or was killed during
	 * startup. Other files that begin with zeros are rejected when the file is locked.
	 */
	if (length == 0 || (length == sizeof(head) && memcmp(head, zeros, sizeof(zeros)) == 0))
		return PROTON_OK;
	if (!profile_view_recognize(head, (size_t)length))
		return refuse_foreign(path, err);
	if (!no_clobber || (size_t)length < offsetof(struct file_header, state) + sizeof(state))
		return PROTON_OK;
	memcpy(&state, head + offsetof(struct file_header, state), sizeof(state));
	return state == PROFILE_FILE_FINISHED ? refuse_existing(path, err) : PROTON_OK;
}

int target_check_all(const char *stem, const char *suffix, bool no_clobber,
		     struct proton_error *err)
{
	char path[PATH_MAX];
	int status = PROTON_OK;

	if (suffix && strcmp(suffix, "proton") != 0) {
		snprintf(path, sizeof(path), "%s.%s", stem, suffix);
		status = target_check(path, no_clobber, NULL, err);
		if (status == PROTON_OK && no_clobber)
			status = check_parts(stem, suffix, err);
	}
	if (status != PROTON_OK)
		return status;
	snprintf(path, sizeof(path), "%s.proton", stem);
	return check_working_file(path, no_clobber, err);
}
