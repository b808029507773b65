/* base/message: one whole line on standard error, whatever its length. */
#include "unit/tap.h"

#include "base/message.h"

/* The output of a message on standard error. */
static const char *caught(const char *text)
{
	static char line[4096];
	int ends[2];
	int saved = dup(STDERR_FILENO);

	CHECK_EQ(pipe(ends), 0);
	dup2(ends[1], STDERR_FILENO);
	message("%s", text);
	dup2(saved, STDERR_FILENO);
	close(saved);
	close(ends[1]);
	ssize_t length = read(ends[0], line, sizeof(line) - 1);
	CHECK_LE(0, length);
	line[length] = '\0';
	close(ends[0]);
	return line;
}

TEST(a_message_is_one_prefixed_line)
{
	CHECK_STR(caught("no GPU found"), "proton: no GPU found\n");
	CHECK_STR(caught(""), "proton: \n");
}

TEST(a_long_message_is_truncated_but_still_a_line)
{
	static char text[3000];

	for (size_t length = 2020; length < 2100; length++) {
		const char *line;

		memset(text, 'n', length);
		text[length] = '\0';
		line = caught(text);
		CHECK_EQ(strlen(line), (length < 2038 ? length : 2038) + strlen("proton: \n"));
		CHECK_EQ(line[strlen(line) - 1], '\n');
		CHECK_PTR(strchr(line, '\n'), line + strlen(line) - 1);
	}
}

TEST(control_characters_are_escaped)
{
	static char text[3000];
	const char *line;

	CHECK_STR(caught("\033[31m\n\xc2\x9b\xe2\x80\xae\xff\xc3\xa9"),
		  "proton: \\x1b[31m\\x0a\\xc2\\x9b\\xe2\\x80\\xae\\xff\xc3\xa9\n");
	for (size_t length = 200; length < 2200; length += 100) {
		memset(text, '\033', length);
		text[length] = '\0';
		line = caught(text);
		CHECK_LE(strlen(line), 2047);
		CHECK_PTR(strchr(line, '\n'), line + strlen(line) - 1);
		CHECK(!strchr(line, '\033'));
	}
}

TEST(errno_is_kept_if_standard_error_is_closed)
{
	errno = EXDEV;
	caught("x");
	errno = EXDEV;
	close(STDERR_FILENO);
	message("cannot be read");
	CHECK_EQ(errno, EXDEV);
}

TEST(a_message_once_is_printed_once)
{
	static char line[64];
	int ends[2];

	CHECK_EQ(pipe(ends), 0);
	message_set_fd(ends[1]);
	message_set_name("proton-viewer");
	for (int i = 1; i <= 3; i++)
		message_once("number %d", i);
	close(ends[1]);
	CHECK_EQ(read(ends[0], line, sizeof(line)), strlen("proton-viewer: number 1\n"));
	close(ends[0]);
	CHECK_STR(line, "proton-viewer: number 1\n");
}
