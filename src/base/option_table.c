/* Command-line options described by tables: parsing, the text of --help, completions for shells. */
#include "base/option_table.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <libproton/proton.h>
#include <stdio.h>
#include <strings.h>

#include "base/array.h"
#include "base/message.h"
#include "base/strings.h"

#define ROWS_MAX 64
/* What getopt_long() returns for the first row; lower values are letters. */
#define FIRST_ROW 256

/* The rows in the form of getopt_long(). */
struct known {
	const struct option_row *rows[ROWS_MAX];
	void *targets[ROWS_MAX]; /* the options that a row sets */
	size_t count;
	struct option longs[ROWS_MAX + 1];
	char letters[2 * ROWS_MAX + 3];
};

static void find_known(struct known *known, const struct option_table *tables, size_t table_count,
		       bool stops_at_argument)
{
	char *letter = known->letters;

	*known = (struct known){0};
	if (stops_at_argument)
		*letter++ = '+';
	*letter++ = ':'; /* report missing values separately */
	for (size_t t = 0; t < table_count; t++) {
		for (size_t i = 0; i < tables[t].count && known->count < ROWS_MAX; i++) {
			const struct option_row *row = &tables[t].rows[i];

			if (!row->name)
				continue;
			known->longs[known->count] = (struct option){
				.name = row->name,
				.has_arg = !row->value          ? no_argument
					   : *row->value == '[' ? optional_argument
								: required_argument,
				.val = FIRST_ROW + (int)known->count,
			};
			if (row->letter)
				*letter++ = row->letter;
			if (row->letter && row->value)
				*letter++ = ':';
			known->targets[known->count] = tables[t].options;
			known->rows[known->count++] = row;
		}
	}
}

/* The index of the row that getopt_long() found; the number of rows if it found none. */
static size_t find_row(const struct known *known, int found)
{
	size_t i = 0;

	if (found >= FIRST_ROW)
		return (size_t)(found - FIRST_ROW);
	while (i < known->count && known->rows[i]->letter != found)
		i++;
	return i;
}

/* The name of an option that is similar; NULL: none. */
static const char *nearest_option(const struct known *known, const char *word)
{
	const char *nearest = NULL;
	char name[64];
	size_t best = 2 + strcspn(word, "=") / 6; /* edits that are too many */

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(word, "="), word);
	for (size_t i = 0; i < known->count; i++) {
		size_t edits = edit_distance(name, known->rows[i]->name, best);

		if (edits >= best || !known->rows[i]->help)
			continue;
		best = edits;
		nearest = known->rows[i]->name;
	}
	return nearest;
}

/* Names the option as the user typed it: "-x" from a cluster, or the whole long word. */
static enum options_result refuse_unknown(const struct known *known, int found, char **argv,
					  const char *program, struct proton_error *err)
{
	const char *word = argv[optind - 1];
	bool is_long = strncmp(word, "--", 2) == 0;

	if (found == ':' && is_long)
		return OPTIONS_REFUSE(err, "option %s needs a value; see %s --help", word, program);
	if (found == ':')
		return OPTIONS_REFUSE(err, "option -%c needs a value; see %s --help", optopt,
				      program);
	if (is_long && optopt)
		return OPTIONS_REFUSE(err, "option %.*s takes no value", (int)strcspn(word, "="),
				      word);
	const char *near = is_long ? nearest_option(known, word + 2) : NULL;
	if (near)
		return OPTIONS_REFUSE(err, "unknown option %s; did you mean --%s? See %s --help",
				      word, near, program);
	if (is_long)
		return OPTIONS_REFUSE(err, "unknown option %s; see %s --help", word, program);
	return OPTIONS_REFUSE(err, "unknown option -%c; see %s --help", optopt, program);
}

/* *value becomes the word in the row, which may differ in case. */
static enum options_result set_word(const struct option_row *row, void *member, char **value,
				    struct proton_error *err)
{
	char known[256] = "";
	size_t used = 0;

	for (unsigned i = 0; row->words[i]; i++) {
		if ((row->is_text ? strcasecmp : strcmp)(row->words[i], *value) != 0)
			continue;
		if (!row->is_text)
			memcpy(member, &i, sizeof(i));
		*value = (char *)(uintptr_t)row->words[i]; /* argv is not const */
		return OPTIONS_RUN;
	}
	for (size_t i = 0; row->words[i] && used < sizeof(known); i++)
		used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s",
					 i == 0 ? "" : (row->words[i + 1] ? ", " : " or "),
					 row->words[i]);
	return OPTIONS_REFUSE(err, "--%s must be %s, not \"%s\"", row->name, known, *value);
}

static enum options_result set_value(const struct option_row *row, void *options, char *value,
				     struct proton_error *err)
{
	void *member = (char *)options + row->member;
	enum options_result result = OPTIONS_RUN;

	if (row->words)
		result = set_word(row, member, &value, err);
	else if (row->is_count)
		result = options_parse_count(member, row->name, value, err);
	if (result != OPTIONS_RUN)
		return result;
	if (row->given)
		*(bool *)((char *)options + row->given) = true;
	if (row->parse)
		return row->parse(options, value, err);
	if (!row->value)
		*(bool *)member = true;
	else if (!row->is_count && (!row->words || row->is_text) && row->words != option_shells)
		*(char **)member = value;
	return OPTIONS_RUN;
}

/* ------------------------------------------------------------------ completions for shells */

const char *const option_shells[] = {"bash", "zsh", "fish", NULL};

/* The first line of a text, between single quotes; a backslash before characters in `special`. */
static void put_text(const char *text, const char *special)
{
	for (; *text && *text != '\n'; text++) {
		if (*text == '\'')
			fputs("'\\'", stdout);
		else if (strchr(special, *text))
			putchar('\\');
		putchar(*text);
	}
}

static void put_words(const struct option_row *row)
{
	for (size_t i = 0; row->words[i]; i++)
		printf("%s%s", i ? " " : "", row->words[i]);
}

static void put_bash(const struct option_table *table)
{
	ARRAY_EACH(row, table->rows, table->count) {
		if (!row->name || !row->words)
			continue;
		printf("\t");
		if (row->letter)
			printf("-%c|", row->letter);
		printf("--%s) COMPREPLY=($(compgen -W '", row->name);
		put_words(row);
		printf("' -- \"$cur\")); return;;\n");
	}
}

static void put_zsh(const struct option_row *row)
{
	bool is_optional = row->value && *row->value == '[';

	printf(" \\\n\t");
	if (row->letter)
		printf("'(-%c --%s)'{-%c,--%s}", row->letter, row->name, row->letter, row->name);
	else
		printf("--%s%s", row->name, is_optional ? "=-" : "");
	printf("'[");
	put_text(row->help, "[]:\\");
	putchar(']');
	if (row->value)
		printf("%svalue:", is_optional ? "::" : ":");
	if (row->words)
		putchar('(');
	if (row->words)
		put_words(row);
	printf("%s'", row->words ? ")" : row->value ? "_files" : "");
}

static void put_fish(const struct option_row *row, const char *program)
{
	printf("complete -c %s -l %s", program, row->name);
	if (row->letter)
		printf(" -s %c", row->letter);
	if (row->words) {
		printf(" -x -a '");
		put_words(row);
		putchar('\'');
	} else if (row->value && *row->value != '[') {
		printf(" -r");
	}
	printf(" -d '");
	put_text(row->help, "\\");
	printf("'\n");
}

static void print_completions(const struct option_table *tables, size_t table_count,
			      const char *program, const char *shell)
{
	bool is_bash = strcmp(shell, "bash") == 0;
	bool is_zsh = strcmp(shell, "zsh") == 0;
	char function[64];

	snprintf(function, sizeof(function), "_%s", program);
	for (char *at = function; *at; at++)
		*at = isalnum((unsigned char)*at) ? *at : '_';
	if (is_bash) {
		printf("%s() {\n\tlocal cur=${COMP_WORDS[COMP_CWORD]} "
		       "prev=${COMP_WORDS[COMP_CWORD-1]}\n"
		       "\t[[ $prev == = ]] && prev=${COMP_WORDS[COMP_CWORD-2]}\n"
		       "\t[[ $cur == = ]] && cur=\n\tcase $prev in\n",
		       function);
		for (size_t t = 0; t < table_count; t++)
			put_bash(&tables[t]);
		printf("\tesac\n\t[[ $cur == -* ]] && COMPREPLY=($(compgen -W '");
	} else if (is_zsh) {
		printf("#compdef %s\n%s() {\n\t_arguments -S", program, function);
	}
	for (size_t t = 0; t < table_count; t++) {
		for (size_t i = 0; i < tables[t].count; i++) {
			const struct option_row *row = &tables[t].rows[i];

			if (!row->name || !row->help)
				continue;
			if (is_bash)
				printf("--%s ", row->name);
			else if (is_zsh)
				put_zsh(row);
			else
				put_fish(row, program);
		}
	}
	if (is_bash)
		printf("' -- \"$cur\"))\n}\ncomplete -o default -F %s %s\n", function, program);
	else if (is_zsh)
		printf(" \\\n\t'*:file:_files'\n}\ncompdef %s %s\n", function, program);
}

/* ------------------------------------------------------------------ arguments and help */

enum options_result options_read(const struct option_table *tables, size_t table_count,
				 bool *is_separated, int argc, char **argv, const char *program,
				 struct proton_error *err)
{
	enum options_result result = OPTIONS_RUN;
	struct known known;

	find_known(&known, tables, table_count, is_separated != NULL);
	opterr = 0;
	while (result == OPTIONS_RUN) {
		int before = optind;
		int found = getopt_long(argc, argv, known.letters, known.longs, NULL);
		size_t i = find_row(&known, found);

		/* "--" as the separator advances by one, as the value of an option by two. */
		if (found == -1 && is_separated)
			*is_separated = optind == before + 1;
		if (found == -1)
			break;
		if (i == known.count)
			result = refuse_unknown(&known, found, argv, program, err);
		else if (known.rows[i]->letter == 'h')
			result = OPTIONS_HELP;
		else
			result = set_value(known.rows[i], known.targets[i], optarg, err);
		if (result == OPTIONS_RUN && i < known.count &&
		    known.rows[i]->words == option_shells) {
			print_completions(tables, table_count, program, optarg);
			result = OPTIONS_DONE;
		}
	}
	return result;
}

/* "  -x, --name VALUE" or "--name[=VALUE]"; returns its length. */
static int write_names(char *text, size_t room, const struct option_row *row)
{
	char letter[5] = "    ";

	if (row->letter)
		snprintf(letter, sizeof(letter), "-%c, ", row->letter);
	return snprintf(text, room, "  %s--%s%s%s", letter, row->name,
			row->value && strncmp(row->value, "[=", 2) != 0 ? " " : "",
			row->value ? row->value : "");
}

static void print_row(const struct option_row *row, int width)
{
	const char *line = row->help;
	char names[80];

	write_names(names, sizeof(names), row);
	while (line) {
		const char *end = strchr(line, '\n');
		int length = end ? (int)(end - line) : (int)strlen(line);

		printf("%-*s  %.*s\n", width, line == row->help ? names : "", length, line);
		line = end ? end + 1 : NULL;
	}
}

void options_print(const struct option_table *tables, size_t table_count)
{
	char names[80];
	int width = 0;

	for (size_t t = 0; t < table_count; t++) {
		for (size_t i = 0; i < tables[t].count; i++) {
			const struct option_row *row = &tables[t].rows[i];
			int length = row->name && row->help ? write_names(names, sizeof(names), row)
							    : 0;

			width = length > width ? length : width;
		}
	}
	for (size_t t = 0; t < table_count; t++) {
		for (size_t i = 0; i < tables[t].count; i++) {
			if (!tables[t].rows[i].name)
				printf("\n%s:\n", tables[t].rows[i].help);
			else
				print_row(&tables[t].rows[i], width);
		}
	}
}

enum options_result options_parse_count(size_t *count, const char *name, const char *value,
					struct proton_error *err)
{
	char *end;

	errno = 0;
	unsigned long number = strtoul(value, &end, 10);
	if (end == value || *end || *value == '-' || number == 0)
		return OPTIONS_REFUSE(err, "--%s needs a whole number of at least 1, not \"%s\"",
				      name, value);
	*count = number;
	return OPTIONS_RUN;
}

enum options_result options_print_version(void *options, const char *value,
					  struct proton_error *err)
{
	(void)options, (void)value, (void)err;
	printf("%s " PROTON_VERSION "\n", message_name());
	return OPTIONS_DONE;
}
