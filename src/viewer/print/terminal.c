/* Terminal capabilities of standard output. */
#include "viewer/print/terminal.h"

#include <langinfo.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/environment.h"

#define COLUMNS_UNKNOWN 80
#define COLUMNS_MIN 40

static bool is_variable_set(const char *variable)
{
	const char *value = environment_get(variable);

	return value && *value;
}

static bool want_color(enum color_choice choice, bool is_tty)
{
	const char *kind = environment_get("TERM");

	if (choice != COLOR_AUTO)
		return choice == COLOR_ALWAYS;
	if (is_variable_set("NO_COLOR"))
		return false;
	if (is_variable_set("FORCE_COLOR") && strcmp(environment_get("FORCE_COLOR"), "0") != 0)
		return true;
	return is_tty && kind && *kind && strcmp(kind, "dumb") != 0;
}

static size_t find_columns(void)
{
	struct winsize size;
	const char *variable = environment_get("COLUMNS");
	long columns = variable ? strtol(variable, NULL, 10) : 0;

	if (columns <= 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
		columns = size.ws_col;
	if (columns <= 0)
		columns = COLUMNS_UNKNOWN;
	return columns < COLUMNS_MIN ? COLUMNS_MIN : (size_t)columns;
}

struct term term_probe(enum color_choice choice)
{
	struct term term = {.is_tty = isatty(STDOUT_FILENO) == 1};

	term.has_color = want_color(choice, term.is_tty);
	term.has_utf8 = strcasecmp(nl_langinfo(CODESET), "UTF-8") == 0;
	term.columns = term.is_tty ? find_columns() : 0;
	return term;
}
