/*
 * How a frame is written. Frames of Python source ("file:line@function") can be shortened in four
 * ways; every other frame is always written whole, so that a kernel called "a::b<c/d>" stays
 * itself.
 */
#ifndef VIEWER_QUERY_FRAME_NAMES_H
#define VIEWER_QUERY_FRAME_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "model/profile.h"

enum name_format {
	NAME_FULL,               /* /a/b/file.py:12@function */
	NAME_FILE_FUNCTION_LINE, /* file.py:12@function */
	NAME_FUNCTION_LINE,      /* 12@function */
	NAME_FILE_FUNCTION,      /* file.py@function */
};

/* How names of C++ are written: as they are stored, as in the source, or without what is long. */
enum name_style {
	NAMES_RAW,   /* _ZN2at6native4fillIfEEvPT_ */
	NAMES_FULL,  /* void at::native::fill<float>(float*) */
	NAMES_SHORT, /* fill<float> */
};

/* Finds a format by its name on the command line. */
bool name_format_find(const char *text, enum name_format *format_out);

/* Appends a frame's name as it is stored: not cleaned (text_clean()). */
void name_write(struct out *out, const struct profile *profile, uint32_t frame,
		enum name_format format);
/* The same with C++ names in a style; what cannot be demangled stays. */
void name_write_styled(struct out *out, const struct profile *profile, uint32_t frame,
		       enum name_format format, enum name_style style);

#endif
