/*
 * Report tables: rows of typed values as text, CSV or JSON. A view describes the fields once and
 * gives the values of one row after the other; a writer per format decides how they look. Rows are
 * written at once, so a table may have millions.
 */
#pragma once

#include "format/json_write.h"

struct options;

enum report_format {
	REPORT_TEXT,
	REPORT_CSV,
	REPORT_JSON,
	REPORT_MARKDOWN, /* of trees and flat tables alone */
};

/* How text shows a number. CSV and JSON have all digits, and the unit is part of the name. */
enum report_unit {
	REPORT_PLAIN, /* an integer */
	REPORT_VALUE, /* three decimals; four digits from a million on */
	REPORT_NS,    /* nanoseconds, shown as ms like a value */
	REPORT_SHARE, /* 0.5 is 50.0% */
};

struct report_field {
	const char *name;  /* CSV column and JSON member; NULL: in text only */
	const char *title; /* text column; NULL: not in text */
	int columns;       /* right-aligned; < 0: left-aligned; 0: text of any length */
	enum report_unit unit;
	bool has_sign;      /* in text: +1.5 */
	bool is_quoted;     /* in CSV always */
	bool is_json_only;  /* CSV does not have it */
	unsigned int place; /* text columns with a larger number are further to the right */
	const char *object; /* JSON: the last fields are members of this object in the row */
};

enum report_type {
	REPORT_NONE, /* no value: blank in text and CSV, no member in JSON */
	REPORT_STRING,
	REPORT_COUNT,
	REPORT_INTEGER,
	REPORT_NUMBER, /* not finite: not known: "-" in text, blank in CSV, null in JSON */
};

struct report_value {
	enum report_type type;
	union {
		struct {
			const char *bytes;
			size_t length;
		} string;
		uint64_t count;
		int64_t integer;
		double number;
	} as;
};

#define VALUE_NONE ((struct report_value){.type = REPORT_NONE})
#define VALUE_TEXT(text) report_string(text, strlen(text))
#define VALUE_COUNT(value) ((struct report_value){REPORT_COUNT, {.count = value}})
#define VALUE_INTEGER(value) ((struct report_value){REPORT_INTEGER, {.integer = value}})
#define VALUE_NUMBER(value) ((struct report_value){REPORT_NUMBER, {.number = value}})

/* `bytes` may be NULL if there are none. */
static inline struct report_value report_string(const char *bytes, size_t length)
{
	return (struct report_value){REPORT_STRING, {.string = {bytes ? bytes : "", length}}};
}

struct report;

/* Takes the names (`values` NULL) or a row of a table instead of its CSV. */
typedef void report_take_fn(void *context, const struct report *report,
			    const struct report_value *values);

/* Output for a program that has the viewer as a library. */
struct report_target {
	struct out *out;      /* in memory */
	report_take_fn *take; /* NULL: CSV is text too */
	void *context;
};

/* The target of a view. In JSON an object is open, and the view writes its members. */
struct report {
	enum report_format format;
	struct out *out;
	struct json_writer json; /* for JSON */
	const struct options *options;
	const struct report_target *target; /* NULL: only `out` */
	bool is_page;    /* in text: for a page of any width, not for this terminal */
	bool is_partial; /* each line of CSV ends with a field "partial", which is 1 */
	const struct report_field *fields; /* the current table */
	size_t field_count;
	unsigned int last_place;
	struct out keys; /* JSON: the names in quotes, one after the other */
	size_t *key_ends;
};

/* A view: writes its text, its table as CSV, or the members of its JSON object. */
typedef void report_write_fn(const void *context, struct report *report);

/* The number of rows to write: -n, or `standard` in text, or all. */
size_t report_rows(const struct report *report, size_t standard);
/* Begins a table: its titles, or in JSON an array as member `key`. */
void report_begin(struct report *report, const char *key, const struct report_field *fields,
		  size_t count);
/* Writes a row with a value for each field. */
void report_row(struct report *report, const struct report_value *values);
/* JSON: the members of the row alone, for rows with further ones. */
void report_members(struct report *report, const struct report_value *values);
void report_end(struct report *report);
