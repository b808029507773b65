/*
 * Packed tables: rows of integers as columns of small numbers, for finished profile files.
 *
 * A column is coded in groups of PACK_GROUP rows. Most columns are zeros or small after one of a
 * few transforms (the difference to the row before, the distance to the row's own number). A tree's
 * row takes a few bytes. Each column of a group is its transform and then runs: a byte with
 * the length of the run, and for values that are not zero one varint each. docs/format.md is
 * normative.
 */
#pragma once

#include "base/buf.h"

#define PACK_GROUP 1024u
#define PACK_COLUMNS_MAX 16u
#define PACK_RUN_MAX 128u

/* How the stored number is made from the value x in row i. Signed ones are in zigzag code. */
enum pack_transform {
	PACK_PLAIN = 0,    /* x */
	PACK_DELTA = 1,    /* x minus the value in the row before, signed */
	PACK_NEXT = 2,     /* the same minus 1, signed */
	PACK_DISTANCE = 3, /* i minus x, signed */
	PACK_ACROSS = 4,   /* x minus the value of the column before, which is as wide, signed */
	PACK_SWAPPED = 5,  /* x with its bytes in reverse order: doubles with short fractions */
	PACK_TRANSFORMS
};

/*
 * The columns of a row, 4 bits each from the lowest: 1 is a u32, 2 a u64, 0 the end. Rows may be
 * several times as long: they are then that many rows of these columns.
 */
#define PACK_COLUMN_U32 1u
#define PACK_COLUMN_U64 2u
/* Bytes of these columns; 0: invalid. */
uint32_t pack_columns_bytes(uint64_t columns);

/* Appends `rows` rows. */
void pack_rows(struct out *out, const void *rows, uint64_t count, uint64_t columns);

/*
 * Fills `rows`, which are zeros, from the bytes. Returns how many are complete: fewer than `count`
 * if the bytes end early or are invalid.
 */
uint64_t unpack_rows(void *rows, uint64_t count, uint64_t columns, const void *bytes,
		     size_t length);
/* False if no such number of rows can be in that many bytes. */
bool unpack_is_possible(uint64_t count, uint64_t columns, size_t length);

/*
 * Strings, in the layout of base/strings.h: for each entry a byte with the length of the start that
 * it shares with the entry before, the length of the rest as a varint, and the rest. False if
 * `bytes` are not such entries.
 */
#define PACK_COMMON_MAX 255u
bool pack_strings(struct out *out, const char *bytes, uint64_t length);
/* Fills `bytes`, which are zeros; returns the bytes of complete entries. */
uint64_t unpack_strings(char *bytes, uint64_t capacity, const void *packed, size_t length);

/* False if entries of that many bytes cannot be in `length` packed ones. */
bool unpack_strings_is_possible(uint64_t bytes, size_t length);
