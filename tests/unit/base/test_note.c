/* base/note: one whole line on standard error, whatever its length. */
#include "unit/tap.h"

#include "base/note.h"

/* The output of a note on standard error. */
static const char *caught(const char *text)
{
	static char line[4096];
	ssize_t length;
	int ends[2];
	int saved = dup(STDERR_FILENO);

	CHECK_EQ(pipe(ends), 0);
	dup2(ends[1], STDERR_FILENO);
	note("%s", text);
	dup2(saved, STDERR_FILENO);
	close(ends[1]);
	length = read(ends[0], line, sizeof(line) - 1);
	CHECK_LE(0, length);
	line[length] = '\0';
	close(ends[0]);
	return line;
}

TEST(a_note_is_one_prefixed_line)
{
	CHECK_STR(caught("no GPU found"), "proton: no GPU found\n");
	CHECK_STR(caught(""), "proton: \n");
}

TEST(a_long_note_is_cut_but_still_a_line)
{
	static char text[3000];

	for (size_t length = 990; length < 1100; length++) {
		const char *line;

		memset(text, 'n', length);
		text[length] = '\0';
		line = caught(text);
		CHECK_EQ(strlen(line), (length < 1014 ? length : 1014) + strlen("proton: \n"));
		CHECK_EQ(line[strlen(line) - 1], '\n');
		CHECK_PTR(strchr(line, '\n'), line + strlen(line) - 1);
	}
}

TEST(a_note_obeys_no_name)
{
	static char text[3000];
	const char *line;

	CHECK_STR(caught("\033[31m\n\xc2\x9b\xe2\x80\xae\xff\xc3\xa9"),
		  "proton: \\x1b[31m\\x0a\\xc2\\x9b\\xe2\\x80\\xae\\xff\xc3\xa9\n");
	for (size_t length = 200; length < 1100; length += 100) {
		memset(text, '\033', length);
		text[length] = '\0';
		line = caught(text);
		CHECK_LE(strlen(line), 1023);
		CHECK_PTR(strchr(line, '\n'), line + strlen(line) - 1);
		CHECK(!strchr(line, '\033'));
	}
}

TEST(a_note_keeps_errno)
{
	errno = EXDEV;
	caught("x");
	errno = EXDEV;
	close(STDERR_FILENO);
	note("cannot be read");
	CHECK_EQ(errno, EXDEV);
}
