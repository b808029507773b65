/* base/option_table: rows set members, messages name the option as typed, help is aligned. */
#include "unit/tap.h"

#include <getopt.h>

#include "base/array.h"
#include "base/option_table.h"

enum fruit {
	APPLE,
	PEAR,
	PLUM
};

struct settings {
	const char *name;
	size_t count;
	bool is_quiet, has_fruit;
	enum fruit fruit;
	int parsed;
};

static enum options_result note_fruit(void *into, const char *value, struct proton_error *err)
{
	(void)value, (void)err;
	((struct settings *)into)->parsed++;
	return OPTIONS_RUN;
}

static enum options_result finish(void *into, const char *value, struct proton_error *err)
{
	(void)err;
	((struct settings *)into)->name = value;
	return OPTIONS_LAST;
}

static const char *const styles[] = {"plain", "fancy", NULL};
static const char *const fruits[] = {"apple", "pear", "plum", NULL};

#define MEMBER(name) .member = offsetof(struct settings, name)

static const struct option_row rows[] = {
	{.help = "Things"},
	{'n', "name", "TEXT", "a name", MEMBER(name)},
	{0, "count", "N", "how many,\nat least 1", MEMBER(count), .is_count = true},
	{'q', "quiet", NULL, "print less", MEMBER(is_quiet)},
	{0, "silent", NULL, NULL, MEMBER(is_quiet)},
	{'f', "fruit", "KIND", "apple, pear or plum", MEMBER(fruit), fruits, note_fruit,
	 .given = offsetof(struct settings, has_fruit)},
	{0, "style", "HOW", NULL, MEMBER(name), styles, .is_text = true},
	{0, "module", "NAME", "the rest is not ours", .parse = finish},
};
static const struct option_row more[] = {{'h', "help", .help = "print this help"}};

/* Parses the words, which are copied; `separated` as in options_read(). */
static enum options_result read_words(struct settings *settings, bool *separated,
				      const char *const *words, struct proton_error *err)
{
	const struct option_table tables[] = {{rows, ARRAY_LENGTH(rows), settings},
					      {more, ARRAY_LENGTH(more), NULL}};
	static char texts[10][24];
	static char *argv[11];
	int count = 0;

	*settings = (struct settings){.fruit = PEAR};
	for (; words[count]; count++) {
		snprintf(texts[count], sizeof(texts[count]), "%s", words[count]);
		argv[count] = texts[count];
	}
	argv[count] = NULL;
	optind = 0;
	return options_read(tables, 2, separated, count, argv, "tool", err);
}

#define READ(separated, ...)                                                                       \
	read_words(&settings, separated, (const char *[]){"tool", __VA_ARGS__, NULL}, &err)

TEST(rows_set_flags_texts_words_and_call_functions)
{
	struct proton_error err;
	struct settings settings;

	CHECK_EQ(READ(NULL, "file", "-qn", "x y", "--fruit=plum", "--count", "12"), OPTIONS_RUN);
	CHECK_STR(settings.name, "x y");
	CHECK(settings.is_quiet);
	CHECK_EQ(settings.fruit, PLUM);
	CHECK(settings.has_fruit);
	CHECK_EQ(settings.parsed, 1);
	CHECK_EQ(settings.count, 12);
	CHECK_EQ(optind, 6); /* the file was moved to the end */
	CHECK_EQ(READ(NULL, "--silent"), OPTIONS_RUN);
	CHECK(settings.is_quiet);
	CHECK_EQ(settings.fruit, PEAR);
	CHECK(!settings.has_fruit);
	CHECK_EQ(READ(NULL, "-q", "-h"), OPTIONS_HELP);
	CHECK_EQ(READ(NULL, "--style", "FANCY"), OPTIONS_RUN);
	CHECK_STR(settings.name, "fancy"); /* as in the row */
}

TEST(messages_name_the_option_like_the_user)
{
	static const struct {
		const char *words[2], *message;
	} cases[] = {
		{{"--nope"}, "unknown option --nope; see tool --help"},
		{{"-qz"}, "unknown option -z; see tool --help"},
		{{"-n"}, "option -n needs a value; see tool --help"},
		{{"--cuont=3"}, "unknown option --cuont=3; did you mean --count? See tool --help"},
		{{"--silnt"}, "unknown option --silnt; see tool --help"}, /* it is not listed */
		{{"--style", "Wide"}, "--style must be plain or fancy, not \"Wide\""},
		{{"--count"}, "option --count needs a value; see tool --help"},
		{{"--quiet=1"}, "option --quiet takes no value"},
		{{"--fruit", "fig"}, "--fruit must be apple, pear or plum, not \"fig\""},
		{{"--count", "-3"}, "--count needs a whole number of at least 1, not \"-3\""},
		{{"--count", "1x"}, "--count needs a whole number of at least 1, not \"1x\""},
	};

	for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
		struct settings settings;
		struct proton_error err;

		CHECK_EQ(READ(NULL, cases[i].words[0], cases[i].words[1]), OPTIONS_BAD);
		CHECK_STR(err.text, cases[i].message);
		CHECK_EQ(settings.parsed, 0);
	}
}

TEST(options_of_another_program_are_left_alone)
{
	struct settings settings;
	struct proton_error err;
	bool is_separated = true;

	CHECK_EQ(READ(&is_separated, "-q", "run", "-n", "x"), OPTIONS_RUN);
	CHECK_EQ(optind, 2);
	CHECK_PTR(settings.name, NULL);
	CHECK(!is_separated);
	CHECK_EQ(READ(&is_separated, "-q", "--", "run"), OPTIONS_RUN);
	CHECK_EQ(optind, 3);
	CHECK(is_separated);
	/* "--" as a value separates nothing. */
	CHECK_EQ(READ(&is_separated, "-n", "--", "run"), OPTIONS_RUN);
	CHECK_STR(settings.name, "--");
	CHECK(!is_separated);
	CHECK_EQ(READ(&is_separated, "--module", "m", "-q"), OPTIONS_LAST);
	CHECK_EQ(optind, 3);
	CHECK(!settings.is_quiet);
}

TEST(help_is_one_aligned_column_below_headings)
{
	const struct option_table tables[] = {{rows, ARRAY_LENGTH(rows), NULL},
					      {more, ARRAY_LENGTH(more), NULL}};
	char text[600];
	int saved = dup(STDOUT_FILENO);
	int ends[2];

	CHECK_EQ(pipe(ends), 0);
	fflush(stdout);
	dup2(ends[1], STDOUT_FILENO);
	options_print(tables, 2);
	fflush(stdout);
	dup2(saved, STDOUT_FILENO);
	close(saved);
	close(ends[1]);
	ssize_t length = read(ends[0], text, sizeof(text) - 1);
	text[length > 0 ? length : 0] = '\0';
	close(ends[0]);
	CHECK_STR(text, "\nThings:\n"
			"  -n, --name TEXT    a name\n"
			"      --count N      how many,\n"
			"                     at least 1\n"
			"  -q, --quiet        print less\n"
			"  -f, --fruit KIND   apple, pear or plum\n"
			"      --module NAME  the rest is not ours\n"
			"  -h, --help         print this help\n");
}
