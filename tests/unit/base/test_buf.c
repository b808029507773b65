/* base/buf: output collects, flushes, reports its first error once; files are read whole. */
#include "unit/tap.h"

#include "base/buf.h"

TEST(out_collects_in_memory)
{
	struct out out;
	size_t length = 0;

	out_init(&out, -1);
	out_text(&out, "a=");
	out_u64(&out, UINT64_MAX);
	out_byte(&out, ',');
	out_i64(&out, INT64_MIN);
	out_byte(&out, ',');
	out_i64(&out, 0);
	out_printf(&out, ",%s,%d", "x", 7);
	CHECK_DONE(out_finish(&out, &err));
	CHECK_U64(out.total, out.length);
	char *text = out_take(&out, &length);
	CHECK_STR(text, "a=18446744073709551615,-9223372036854775808,0,x,7");
	CHECK_EQ(length, strlen(text));
	free(text);
	out_fini(&out);
	out_fini(&out);
}

TEST(out_takes_an_empty_text)
{
	struct out out;
	size_t length = 99;

	out_init(&out, -1);
	char *text = out_take(&out, &length);
	CHECK_STR(text, "");
	CHECK_EQ(length, 0);
	free(text);
}

TEST(out_printf_of_any_length_is_whole)
{
	static const int lengths[] = {0, 1, 1022, 1023, 1024, 1025, 100000};
	struct out out;

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		out_init(&out, -1);
		out_printf(&out, "%*s", lengths[i], "");
		CHECK_EQ(out.length, lengths[i]);
		for (size_t j = 0; j < out.length; j++)
			CHECK_EQ(out.bytes[j], ' ');
		out_fini(&out);
	}
}

/* Pieces of every size around the buffer's, through a file, compared with the same in memory. */
TEST(out_to_a_file_is_the_same_bytes_as_in_memory)
{
	static const size_t sizes[] = {1, 7, 4095, 4096, 65535, 65536, 65537, 200000, 3, 0, 65536};
	char path[] = "/tmp/proton-test-XXXXXX";
	int fd = mkstemp(path);
	struct out memory, file;
	char *bytes;
	size_t length;
	uint32_t seed = 1;

	CHECK_LE(0, fd);
	out_init(&memory, -1);
	out_init(&file, fd);
	for (size_t round = 0; round < 3; round++) {
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			char *piece = malloc(sizes[i] + 1);

			for (size_t j = 0; j < sizes[i]; j++)
				piece[j] = (char)((seed = seed * 1664525 + 1013904223) >> 24);
			out_bytes(&memory, piece, sizes[i]);
			out_bytes(&file, piece, sizes[i]);
			out_u64(&memory, seed);
			out_u64(&file, seed);
			free(piece);
		}
	}
	CHECK_DONE(out_finish(&file, &err));
	CHECK_U64(file.total, memory.total);
	CHECK_DONE(file_read_all(path, 0, &bytes, &length, &err));
	CHECK_EQ(length, memory.length);
	CHECK_MEM(bytes, memory.bytes, length);
	free(bytes);
	out_fini(&memory);
	out_fini(&file);
	close(fd);
	unlink(path);
}

TEST(out_reserve_gives_writable_memory)
{
	int fd = open("/dev/null", O_WRONLY);
	struct out out;

	out_init(&out, fd);
	for (int i = 0; i < 1000; i++) {
		char *space = out_reserve(&out, OUT_RESERVE_MAX);

		CHECK(space != NULL);
		memset(space, 'x', OUT_RESERVE_MAX);
		out.length += (size_t)(i * 37 % OUT_RESERVE_MAX);
	}
	CHECK_EQ(out_finish(&out, NULL), PROTON_OK);
	out_fini(&out);
	close(fd);
}

TEST(out_reports_a_full_device_once_and_stays_failed)
{
	int fd = open("/dev/full", O_WRONLY);
	struct proton_error err;
	struct out out;

	CHECK_LE(0, fd);
	out_init(&out, fd);
	for (int i = 0; i < 100000; i++)
		out_text(&out, "some text that will not be written");
	CHECK_EQ(out.errnum, ENOSPC);
	CHECK_PTR(out_reserve(&out, OUT_RESERVE_MAX), NULL);
	CHECK_EQ(out_finish(&out, &err), PROTON_E_NOSPACE);
	CHECK_STR(err.text, "cannot write the output: No space left on device");
	CHECK_LE(out.capacity, 1 << 20); /* and has dropped what it could not write */
	out_fini(&out);
	close(fd);
}

TEST(out_notices_a_failure_of_the_last_flush)
{
	int fd = open("/dev/full", O_WRONLY);
	struct out out;

	out_init(&out, fd);
	out_text(&out, "short");
	CHECK_EQ(out.errnum, 0);
	CHECK_EQ(out_finish(&out, NULL), PROTON_E_NOSPACE);
	out_fini(&out);
	close(fd);
}

TEST(out_that_failed_cannot_be_taken)
{
	struct out out;
	size_t length = 5;

	out_init(&out, -1);
	out_text(&out, "abc");
	out.errnum = ENOMEM;
	CHECK_PTR(out_take(&out, &length), NULL);
	CHECK_EQ(out_finish(&out, NULL), PROTON_E_NOMEM);
	out_fini(&out);
}

TEST(file_read_all_reports_why_it_fails)
{
	const struct file_limits limits = {.max_bytes = 100000};
	struct proton_error err;
	size_t length = 42;
	char *bytes = NULL;

	CHECK_EQ(file_read_all("/nonexistent", 0, &bytes, &length, &err), PROTON_E_IO);
	CHECK_STR(err.text, "cannot open /nonexistent: No such file or directory");
	CHECK_EQ(file_read_all("/tmp", 0, &bytes, &length, &err), PROTON_E_INVALID);
	CHECK_STR(err.text, "cannot read /tmp: it is a directory");
	/* An endless file ends at the limit. */
	CHECK_EQ(file_read_all("/dev/zero", &limits, &bytes, &length, &err), PROTON_E_FORMAT);
	CHECK_HAS(err.text, "larger than 100000 bytes");
	CHECK_PTR(bytes, NULL);
	CHECK_EQ(length, 42);
}

static size_t checked_bytes;

static int refuse_zeros(const char *name, const char *bytes, size_t length,
			struct proton_error *err)
{
	checked_bytes = length;
	return bytes[0] ? PROTON_OK : err_set(err, PROTON_E_FORMAT, "%s is full of zeros", name);
}

/* An endless stream is not read to its end. */
TEST(file_read_all_refuses_by_the_first_bytes)
{
	const struct file_limits limits = {.check_head = refuse_zeros};
	struct proton_error err;
	size_t length;
	char *bytes;

	CHECK_EQ(file_read_all("/dev/zero", &limits, &bytes, &length, &err), PROTON_E_FORMAT);
	CHECK_STR(err.text, "/dev/zero is full of zeros");
	CHECK_EQ(checked_bytes, FILE_HEAD_BYTES);
	CHECK_OK(file_read_all("/proc/self/status", &limits, &bytes, &length, &err), err);
	CHECK(checked_bytes > 0 && checked_bytes <= length);
	CHECK_EQ(strlen(bytes), length);
	free(bytes);
}

TEST(file_read_all_reads_files_of_unknown_size)
{
	size_t length;
	char *bytes;

	/* stat() says 0 bytes. */
	CHECK_DONE(file_read_all("/proc/self/status", 0, &bytes, &length, &err));
	CHECK_LT(100, length);
	CHECK_EQ(bytes[length], '\0');
	CHECK_EQ(strncmp(bytes, "Name:", 5), 0);
	free(bytes);
	CHECK_DONE(file_read_all("/dev/null", 0, &bytes, &length, &err));
	CHECK_EQ(length, 0);
	CHECK_STR(bytes, "");
	free(bytes);
}

TEST(file_read_all_reads_standard_input)
{
	size_t length;
	char *bytes;
	int ends[2];

	CHECK_EQ(pipe(ends), 0);
	CHECK_EQ(write(ends[1], "through a pipe", 14), 14);
	close(ends[1]);
	CHECK_EQ(dup2(ends[0], STDIN_FILENO), STDIN_FILENO);
	close(ends[0]);
	CHECK_DONE(file_read_all("-", 0, &bytes, &length, &err));
	CHECK_STR(bytes, "through a pipe");
	free(bytes);
}

TEST(file_read_full_ends_with_the_file)
{
	char bytes[16] = "";
	int ends[2];
	int fd = open("/proc/self/exe", O_RDONLY);

	CHECK_EQ(pipe(ends), 0);
	CHECK_EQ(write(ends[1], "through", 7), 7);
	CHECK_EQ(file_read_full(ends[0], bytes, 3, -1), 3);
	close(ends[1]);
	CHECK_EQ(file_read_full(ends[0], bytes + 3, sizeof(bytes) - 3, -1), 4);
	CHECK_STR(bytes, "through");
	CHECK_EQ(file_read_full(ends[0], bytes, 1, 0), -1); /* a pipe has no places */
	CHECK_EQ(file_read_full(fd, bytes, 3, 1), 3);
	CHECK(memcmp(bytes, "ELF", 3) == 0);
	close(ends[0]);
	close(fd);
}

TEST(out_commit_appends_what_was_reserved)
{
	struct out out;

	out_init(&out, -1);
	out_text(&out, "ab");
	char *at = out_reserve(&out, 10);
	at[0] = 'c';
	out_commit(&out, at + 1);
	CHECK_U64(out.total, 3);
	CHECK_EQ(out.length, 3);
	CHECK(memcmp(out.bytes, "abc", 3) == 0);
	out_fini(&out);
}
