/* Command-line options as tables: arguments are parsed by the rows, and --help is made of them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum options_result {
	OPTIONS_RUN,
	OPTIONS_LAST, /* the next word is not an option */
	OPTIONS_HELP, /* --help was found */
	OPTIONS_DONE, /* a text was printed, such as the version */
	OPTIONS_BAD,  /* an error message was set */
};

struct option_row {
	char letter;       /* 0: none */
	const char *name;  /* long name, without dashes; NULL: `help` is a heading */
	const char *value; /* name of the value in the help; NULL: none; "[NAME]": optional */
	const char *help;  /* NULL: not listed; may have several lines */
	/* Offset of the row's member: a bool, an enum with words, or a string of argv. */
	size_t member;
	const char *const *words; /* the possible values, by number; ends with NULL */
	/* Called instead of setting a string or bool, after setting an enum. */
	enum options_result (*parse)(void *options, const char *value, struct proton_error *err);
	bool is_text;  /* the member is a string for words too, and their case does not matter */
	bool is_count; /* the member is a size_t of at least 1; then `parse` is called, too */
	size_t given;  /* offset of a bool that becomes true, too; 0: none */
};

/* A row of every program: prints the completions of its options for a shell. */
#define OPTION_COMPLETION                                                                          \
	{                                                                                          \
		0, "completion", "NAME", "print the completions for bash, zsh or fish",            \
			.words = option_shells, .is_text = true                                    \
	}
extern const char *const option_shells[];
/* A row of every program: prints its name (message_name()) and version. */
#define OPTION_VERSION                                                                             \
	{                                                                                          \
		0, "version", NULL, "print the version", .parse = options_print_version            \
	}
enum options_result options_print_version(void *options, const char *value,
					  struct proton_error *err);

/* Rows and the struct that they set. */
struct option_table {
	const struct option_row *rows;
	size_t count;
	void *options;
};

/*
 * Parses the arguments with getopt_long(); `optind` is then the index of the first one that is not
 * an option. `is_separated`: not NULL if options after that one belong to another program; true is
 * stored if it follows "--". Error messages refer to `program` --help.
 */
enum options_result options_read(const struct option_table *tables, size_t table_count,
				 bool *is_separated, int argc, char **argv, const char *program,
				 struct proton_error *err);

/* Prints the rows to standard output: headings, names, and help in one column. */
void options_print(const struct option_table *tables, size_t table_count);

/* For the parse function of a row: sets a message. */
#define OPTIONS_REFUSE(err, ...) (err_set(err, PROTON_E_INVALID, __VA_ARGS__), OPTIONS_BAD)

/* Parses the value of --NAME, a whole number of at least 1. */
enum options_result options_parse_count(size_t *count, const char *name, const char *value,
					struct proton_error *err);
