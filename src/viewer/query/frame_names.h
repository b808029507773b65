/*
 * Frame names: formats and styles. Python source frames ("file:line@function") have four formats.
 * All other frames are written in full, so a kernel called "a::b<c/d>" stays unchanged.
 */
#pragma once

#include "base/buf.h"
#include "model/profile.h"

enum name_format {
	NAME_FULL,               /* /a/b/file.py:12@function */
	NAME_FILE_FUNCTION_LINE, /* file.py:12@function */
	NAME_FUNCTION_LINE,      /* 12@function */
	NAME_FILE_FUNCTION,      /* file.py@function */
};

/* Styles of C++ names: raw (stored), full (demangled) or short. */
enum name_style {
	NAMES_RAW,   /* _ZN2at6native4fillIfEEvPT_ */
	NAMES_FULL,  /* void at::native::fill<float>(float*) */
	NAMES_SHORT, /* fill<float> */
};

/* Appends a frame's stored name, not cleaned (text_clean()). */
void name_write(struct out *out, const struct profile *profile, uint32_t frame,
		enum name_format format);
/* The same with C++ names in a style; names that cannot be demangled are unchanged. */
void name_write_styled(struct out *out, const struct profile *profile, uint32_t frame,
		       enum name_format format, enum name_style style);
/* The same; "<unnamed>" in place of nothing. */
void name_write_shown(struct out *out, const struct profile *profile, uint32_t frame,
		      enum name_format format, enum name_style style);
/* A name in full as a text, malloc'd. */
char *name_text(const struct profile *profile, uint32_t frame, enum name_style style);
