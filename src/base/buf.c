/* Output buffers and reading of whole files. */
#include "base/buf.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/guest.h"
#include "base/printable.h"

#define OUT_FILE_BUFFER_BYTES (64 * 1024)

void out_init(struct out *out, int fd)
{
	*out = (struct out){.fd = fd};
}

static bool write_all(int fd, const char *bytes, size_t length, int *errnum)
{
	while (length) {
		ssize_t n = size_signal_write(fd, bytes, length);

		if (n < 0) {
			if (errno == EINTR)
				continue;
			*errnum = errno;
			return false;
		}
		bytes += n;
		length -= (size_t)n;
	}
	return true;
}

static void flush_file(struct out *out)
{
	if (out->fd >= 0 && out_is_over(out) && !out->errnum)
		out->errnum = EFBIG;
	if (out->fd >= 0 && !out->errnum)
		write_all(out->fd, out->bytes, out->length, &out->errnum);
	out->length = 0;
}

char *out_reserve_slow(struct out *out, size_t length)
{
	size_t wanted;

	if (out->errnum)
		return NULL;
	if (out->fd >= 0) {
		if (out->length)
			flush_file(out);
		wanted = length > OUT_FILE_BUFFER_BYTES ? length : OUT_FILE_BUFFER_BYTES;
	} else if (__builtin_add_overflow(out->length, length, &wanted)) {
		out->errnum = ENOMEM;
		return NULL;
	} else if (out->limit && wanted > out->limit) {
		out->errnum = EFBIG;
		return NULL;
	}
	if (!out->errnum && !array_reserve(&out->bytes, &out->capacity, wanted, 1))
		out->errnum = ENOMEM;
	return out->errnum ? NULL : out->bytes + out->length;
}

void out_bytes_slow(struct out *out, const void *bytes, size_t length)
{
	if (!length || out->errnum)
		return;
	if (out->fd >= 0 && length >= OUT_FILE_BUFFER_BYTES) {
		flush_file(out);
		if (!out->errnum)
			write_all(out->fd, bytes, length, &out->errnum);
		out->total += length;
		return;
	}
	char *space = out_reserve(out, length);
	if (space) {
		memcpy(space, bytes, length);
		out->length += length;
		out->total += length;
	}
}

void out_printf(struct out *out, const char *format, ...)
{
	char text[1024];
	va_list args;

	va_start(args, format);
	int length = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (length < 0)
		return;
	if ((size_t)length < sizeof(text)) {
		out_bytes(out, text, (size_t)length);
	} else {
		char *large = malloc((size_t)length + 1);

		if (!large) {
			out->errnum = ENOMEM;
			return;
		}
		va_start(args, format);
		vsnprintf(large, (size_t)length + 1, format, args);
		va_end(args);
		out_bytes(out, large, (size_t)length);
		free(large);
	}
}

void out_u64(struct out *out, uint64_t value)
{
	char digits[20];
	size_t at = sizeof(digits);

	do {
		digits[--at] = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	out_bytes(out, digits + at, sizeof(digits) - at);
}

void out_i64(struct out *out, int64_t value)
{
	if (value < 0) {
		out_byte(out, '-');
		out_u64(out, 0 - (uint64_t)value);
	} else {
		out_u64(out, (uint64_t)value);
	}
}

int out_finish(struct out *out, struct proton_error *err)
{
	if (out->fd >= 0)
		flush_file(out);
	if (out->errnum)
		return err_errno(err, out->errnum, "cannot write the output");
	return PROTON_OK;
}

char *out_take(struct out *out, size_t *length)
{
	char *space = out_reserve(out, 1);
	char *bytes = out->bytes;

	if (!space || out->errnum)
		return NULL;
	*space = '\0';
	*length = out->length;
	out->bytes = NULL;
	out_fini(out);
	return bytes;
}

int out_finish_text(struct out *out, char **text_out, size_t *length_out, struct proton_error *err)
{
	int status = out_finish(out, err);
	char *text = status == PROTON_OK ? out_take(out, length_out) : NULL;

	if (text)
		*text_out = text;
	else if (status == PROTON_OK)
		status = err_nomem(err);
	out_fini(out);
	return status;
}

void out_fini(struct out *out)
{
	free(out->bytes);
	out->bytes = NULL;
	out->length = 0;
	out->capacity = 0;
}

/* Reserves the size that the file reports, once its head has been checked. */
static bool reserve_rest(int fd, char **bytes, size_t *capacity)
{
	struct stat st;

	return fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size <= 0 ||
	       array_reserve(bytes, capacity, (size_t)st.st_size + 1, 1);
}

/* Reads available bytes. 0: end of file; -1: errno, ENOMEM if out of memory. */
static ssize_t read_some(int fd, char **bytes, size_t *capacity, size_t length)
{
	ssize_t n;

	if (!array_reserve(bytes, capacity, length + 2, 1)) {
		errno = ENOMEM;
		return -1;
	}
	do
		n = read(fd, *bytes + length, *capacity - length - 1);
	while (n < 0 && errno == EINTR);
	return n;
}

ssize_t file_read_full(int fd, void *bytes, size_t length, off_t at)
{
	size_t done = 0;
	ssize_t n = 1;

	while (done < length && n) {
		n = at < 0 ? read(fd, (char *)bytes + done, length - done)
			   : pread(fd, (char *)bytes + done, length - done, at + (off_t)done);
		if (n < 0 && errno != EINTR)
			return -1;
		done += n > 0 ? (size_t)n : 0;
	}
	return (ssize_t)done;
}

/* Files of killed recordings are mostly holes; skipping the holes saves time and memory. */
static bool is_sparse(int fd, size_t *size_out)
{
	struct stat st;

	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size <= FILE_HEAD_BYTES)
		return false;
	if (st.st_blocks >= st.st_size / 512 / 2)
		return false;
	*size_out = (size_t)st.st_size;
	return true;
}

/* Replaces *bytes by the whole file. If the file shrinks during the read, the rest is zeros. */
static int read_data(int fd, const char *path, size_t size, char **bytes, struct proton_error *err)
{
	off_t at = 0;

	free(*bytes);
	*bytes = calloc(size + 1, 1); /* untouched pages take no memory */
	if (!*bytes)
		return err_errno(err, ENOMEM, "cannot read %s", path);
	while ((at = lseek(fd, at, SEEK_DATA)) >= 0 && (size_t)at < size) {
		off_t end = lseek(fd, at, SEEK_HOLE);
		size_t length = (end < at || (size_t)end > size ? size : (size_t)end) - (size_t)at;
		ssize_t n = pread(fd, *bytes + at, length, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(err, errno, "cannot read %s", path);
		if (n == 0)
			break;
		at += n;
	}
	return PROTON_OK;
}

static int read_all(int fd, const char *path, const struct file_limits *limits, char **bytes,
		    size_t *length, struct proton_error *err)
{
	size_t capacity = 0;
	ssize_t n;

	if (limits->check_head) {
		if (!array_reserve(bytes, &capacity, FILE_HEAD_BYTES + 1, 1))
			return err_errno(err, ENOMEM, "cannot read %s", path);
		n = file_read_full(fd, *bytes, FILE_HEAD_BYTES, -1);
		if (n < 0)
			return err_errno(err, errno, "cannot read %s", path);
		*length = (size_t)n;
		TRY(limits->check_head(path, *bytes, *length, err));
		if (is_sparse(fd, length))
			return read_data(fd, path, *length, bytes, err);
	}
	if (!reserve_rest(fd, bytes, &capacity))
		return err_errno(err, ENOMEM, "cannot read %s", path);
	do {
		n = read_some(fd, bytes, &capacity, *length);
		if (n < 0)
			return err_errno(err, errno, "cannot read %s", path);
		*length += (size_t)n;
		if (limits->max_bytes && *length > limits->max_bytes)
			return err_set(err, PROTON_E_FORMAT,
				       "cannot read %s: larger than %llu bytes", path,
				       (unsigned long long)limits->max_bytes);
	} while (n > 0);
	(*bytes)[*length] = '\0';
	return PROTON_OK;
}

int file_read_all(const char *path, const struct file_limits *limits, char **bytes_out,
		  size_t *length_out, struct proton_error *err)
{
	bool is_stdin = strcmp(path, "-") == 0;
	int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
	static const struct file_limits none;
	struct stat st;
	char *bytes = NULL;
	size_t length = 0;
	int status;

	if (fd < 0)
		return err_errno(err, errno, "cannot open %s", path);
	if (is_stdin)
		path = "standard input";
	if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
		status = err_set(err, PROTON_E_INVALID, "cannot read %s: it is a directory", path);
	else
		status = read_all(fd, path, limits ? limits : &none, &bytes, &length, err);
	if (status == PROTON_OK) {
		*bytes_out = bytes;
		*length_out = length;
	} else {
		free(bytes);
	}
	if (!is_stdin)
		close(fd);
	return status;
}

void text_write_escaped(struct out *out, const char *text, size_t length,
			bool (*is_plain)(uint32_t code))
{
	size_t start = 0; /* of the bytes that need no change */
	size_t at = 0;

	if (length == 0)
		return;
	while (at < length) {
		uint32_t code;
		size_t end = at + utf8_decode(text + at, length - at, &code);

		if (is_plain(code)) {
			at = end;
			continue;
		}
		out_bytes(out, text + start, at - start);
		for (; at < end; at++) {
			char escape[PRINTABLE_ESCAPE_BYTES];

			printable_escape((unsigned char)text[at], escape);
			out_bytes(out, escape, sizeof(escape));
		}
		start = end;
	}
	out_bytes(out, text + start, length - start);
}

void text_write_utf8(struct out *out, const char *text, size_t length)
{
	while (length) {
		size_t valid = utf8_valid_length(text, length);

		out_bytes(out, text, valid);
		if (valid == length)
			break;
		out_bytes(out, UTF8_REPLACEMENT, 3);
		text += valid + 1;
		length -= valid + 1;
	}
}

size_t text_utf8_length(const char *text, size_t length)
{
	size_t result = 0;

	for (size_t at = 0; at < length;) {
		size_t step = utf8_sequence(text + at, length - at);

		result += step ? step : 3;
		at += step ? step : 1;
	}
	return result;
}
