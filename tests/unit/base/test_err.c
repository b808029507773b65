/* base/err: error text is truncated, never overrun, and errno is mapped to a status. */
#include "unit/tap.h"

#include "base/err.h"

TEST(err_set_fills_status_and_text)
{
	struct proton_error err = {0};

	CHECK_EQ(err_set(&err, PROTON_E_RANGE, "no session %d", 7), PROTON_E_RANGE);
	CHECK_EQ(err.status, PROTON_E_RANGE);
	CHECK_STR(err.text, "no session 7");
}

TEST(err_set_without_an_error_to_fill_still_returns_the_status)
{
	CHECK_EQ(err_set(NULL, PROTON_E_IO, "unused"), PROTON_E_IO);
	CHECK_EQ(err_errno(NULL, ENOSPC, "unused"), PROTON_E_NOSPACE);
}

TEST(err_wrap_puts_context_in_front)
{
	struct proton_error err;

	err_set(&err, PROTON_E_FORMAT, "bad magic");
	err_wrap(NULL, "open %s", "a.proton");
	err_wrap(&err, "open %s", "a.proton");
	CHECK_EQ(err.status, PROTON_E_FORMAT);
	CHECK_STR(err.text, "open a.proton: bad magic");
}

static void fill(char *text, size_t length)
{
	memset(text, 'x', length);
	text[length] = '\0';
}

TEST(long_texts_are_cut_and_terminated)
{
	struct {
		struct proton_error err;
		char guard[16];
	} box;
	char text[2000];

	for (size_t length = 490; length < 530; length++) {
		memset(&box, 0x5a, sizeof(box));
		fill(text, length);
		err_set(&box.err, PROTON_E_IO, "%s", text);
		CHECK_EQ(strlen(box.err.text), length < 507 ? length : 507);
		err_wrap(&box.err, "open %s", "file");
		CHECK_EQ(strncmp(box.err.text, "open file: xxx", 14), 0);
		CHECK_LE(strlen(box.err.text), 507);
		err_wrap(&box.err, "%s", text);
		CHECK_LE(strlen(box.err.text), 507);
		err_errno(&box.err, ENOENT, "%s", text);
		CHECK_LE(strlen(box.err.text), 507);
		CHECK_MEM(box.guard, "ZZZZZZZZZZZZZZZZ", 16);
	}
}

TEST(errno_becomes_the_status_that_fits)
{
	struct proton_error err;

	CHECK_EQ(err_errno(&err, ENOSPC, "cannot write x"), PROTON_E_NOSPACE);
	CHECK_STR(err.text, "cannot write x: No space left on device");
	CHECK_EQ(err_errno(&err, EDQUOT, "x"), PROTON_E_NOSPACE);
	CHECK_EQ(err_errno(&err, ENOMEM, "x"), PROTON_E_NOMEM);
	CHECK_EQ(err_errno(&err, EACCES, "x"), PROTON_E_PERMISSION);
	CHECK_EQ(err_errno(&err, EROFS, "x"), PROTON_E_PERMISSION);
	CHECK_EQ(err_errno(&err, EIO, "x"), PROTON_E_IO);
	CHECK_EQ(err.status, PROTON_E_IO);
}

TEST(every_status_has_a_different_text)
{
	static const int statuses[] = {
#define X(name, value, text) value,
#include <libproton/status.def>
#undef X
	};
	const size_t count = sizeof(statuses) / sizeof(statuses[0]);

	for (size_t i = 0; i < count; i++) {
		CHECK(strcmp(proton_status_text(statuses[i]), "unknown status") != 0);
		for (size_t j = 0; j < i; j++) {
			CHECK_NE(statuses[i], statuses[j]);
			CHECK(strcmp(proton_status_text(statuses[i]),
				     proton_status_text(statuses[j])) != 0);
		}
	}
	CHECK_STR(proton_status_text(-9999), "unknown status");
}
