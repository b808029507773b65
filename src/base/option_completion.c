/* Completions for shells, made from the tables of options. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/option_table.h"

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
	for (size_t i = 0; i < table->count; i++) {
		const struct option_row *row = &table->rows[i];

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

void options_complete(const struct option_table *tables, size_t table_count, const char *program,
		      const char *shell)
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
