/* Terminal capabilities of standard output: is it a terminal, its width, colors, box drawing. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum color_choice {
	COLOR_AUTO,
	COLOR_ALWAYS,
	COLOR_NEVER
};

struct term {
	bool is_tty;
	bool has_color;
	bool has_utf8;  /* from the locale: call setlocale() first */
	size_t columns; /* 0: no limit, standard output is not a terminal */
};

struct term term_probe(enum color_choice choice);
