/* Packed tables: coding and decoding of columns and strings. */
#include "format/pack.h"

#include "base/array.h"
#include "base/strings.h"

/* Rows of a group that decide about its transforms. */
#define SAMPLE_ROWS 192u

#define VARINT_MAX 10u

struct column {
	uint32_t offset; /* in a row */
	uint32_t bytes;
	bool has_twin; /* the column before is as wide */
};

struct columns {
	struct column column[PACK_COLUMNS_MAX];
	uint32_t count;
	uint32_t row_bytes;
};

static bool read_columns(uint64_t packed, struct columns *out)
{
	*out = (struct columns){0};
	for (; packed && out->count < PACK_COLUMNS_MAX; packed >>= 4) {
		struct column *column = &out->column[out->count];
		uint32_t kind = packed & 15;

		if (kind != PACK_COLUMN_U32 && kind != PACK_COLUMN_U64)
			return false;
		*column = (struct column){.offset = out->row_bytes, .bytes = kind * 4};
		column->has_twin = out->count && column[-1].bytes == column->bytes;
		out->row_bytes += column->bytes;
		out->count++;
	}
	return out->count != 0;
}

uint32_t pack_columns_bytes(uint64_t columns)
{
	struct columns read;

	return read_columns(columns, &read) ? read.row_bytes : 0;
}

static inline uint64_t load_number(const char *at, uint32_t bytes)
{
	uint64_t wide;
	uint32_t narrow;

	if (bytes == 8) {
		memcpy(&wide, at, 8);
		return wide;
	}
	memcpy(&narrow, at, 4);
	return narrow;
}

static inline void store_number(char *at, uint32_t bytes, uint64_t value)
{
	uint32_t narrow = (uint32_t)value;

	if (bytes == 8)
		memcpy(at, &value, 8);
	else
		memcpy(at, &narrow, 4);
}

/* Differences wrap at the column's width: every value has one. */
static inline uint64_t zigzag(uint64_t difference, uint32_t bytes)
{
	int64_t value = bytes == 8 ? (int64_t)difference : (int32_t)(uint32_t)difference;

	return (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
}

static inline uint64_t unzigzag(uint64_t code)
{
	return code >> 1 ^ (0 - (code & 1));
}

static inline uint64_t swapped(uint64_t value, uint32_t bytes)
{
	return bytes == 8 ? __builtin_bswap64(value) : __builtin_bswap32((uint32_t)value);
}

/* ------------------------------------------------------------------ coding */

/* A loop over the rows of a column for each transform. */
#define TRANSFORM(number)                                                                          \
	do {                                                                                       \
		for (uint64_t i = first; i < end; i++, at += stride) {                             \
			uint64_t x = load_number(at, bytes);                                       \
                                                                                                   \
			numbers[i - first] = number;                                               \
			before = x;                                                                \
		}                                                                                  \
	} while (0)

/* The numbers to store for rows `first` to `end` of a column. */
static inline __attribute__((always_inline)) void transform_width(uint32_t stride, uint32_t bytes,
								  enum pack_transform transform,
								  const char *at, uint64_t *numbers,
								  uint64_t first, uint64_t end)
{
	uint64_t before = first ? load_number(at - stride, bytes) : 0;

	switch (transform) {
	case PACK_DELTA:
		TRANSFORM(zigzag(x - before, bytes));
		break;
	case PACK_NEXT:
		TRANSFORM(zigzag(x - before - 1, bytes));
		break;
	case PACK_DISTANCE:
		TRANSFORM(zigzag(i - x, bytes));
		break;
	case PACK_ACROSS:
		TRANSFORM(zigzag(x - load_number(at - bytes, bytes), bytes));
		break;
	case PACK_SWAPPED:
		TRANSFORM(swapped(x, bytes));
		break;
	default:
		TRANSFORM(x);
	}
}

static void transform_rows(const struct columns *columns, const struct column *column,
			   enum pack_transform transform, const char *rows, uint64_t *numbers,
			   uint64_t first, uint64_t end)
{
	const char *at = rows + first * columns->row_bytes + column->offset;

	if (column->bytes == 8)
		transform_width(columns->row_bytes, 8, transform, at, numbers, first, end);
	else
		transform_width(columns->row_bytes, 4, transform, at, numbers, first, end);
}

/* The transform with the smallest result for the first rows of a group. */
static enum pack_transform choose_transform(const struct columns *columns,
					    const struct column *column, const char *rows,
					    uint64_t *numbers, uint64_t first, uint64_t end)
{
	enum pack_transform best = PACK_PLAIN;
	uint64_t best_bytes = UINT64_MAX;

	if (end - first > SAMPLE_ROWS)
		end = first + SAMPLE_ROWS;
	for (uint32_t t = 0; t < PACK_TRANSFORMS; t++) {
		uint64_t bytes = 0;

		if (t == PACK_ACROSS && !column->has_twin)
			continue;
		transform_rows(columns, column, (enum pack_transform)t, rows, numbers, first, end);
		for (uint64_t i = 0; i < end - first; i++) /* zeros share a byte */
			bytes += numbers[i] ? (63u - __builtin_clzll(numbers[i])) / 7 * 16 + 16 : 1;
		if (bytes < best_bytes) {
			best_bytes = bytes;
			best = (enum pack_transform)t;
		}
	}
	return best;
}

static char *put_varint(char *at, uint64_t value)
{
	while (value >= 128) {
		*at++ = (char)(value | 128);
		value >>= 7;
	}
	*at++ = (char)value;
	return at;
}

/* Runs of `count` numbers. */
static void pack_numbers(struct out *out, const uint64_t *numbers, size_t count)
{
	size_t i = 0;

	while (i < count) {
		char *at = out_reserve(out, 1 + PACK_RUN_MAX * VARINT_MAX);
		char *start = at;
		size_t run = 0;

		if (!at)
			return;
		while (i + run < count && run < PACK_RUN_MAX && !numbers[i + run])
			run++;
		if (run) {
			*at++ = (char)(run - 1);
		} else {
			at++;
			/* One zero among others is shorter as a number. */
			while (i + run < count && run < PACK_RUN_MAX &&
			       (numbers[i + run] ||
				(i + run + 1 < count && numbers[i + run + 1]))) {
				at = put_varint(at, numbers[i + run]);
				run++;
			}
			*start = (char)(run - 1 + PACK_RUN_MAX);
		}
		i += run;
		out_commit(out, at);
	}
}

void pack_rows(struct out *out, const void *rows, uint64_t count, uint64_t packed_columns)
{
	uint64_t numbers[PACK_GROUP];
	struct columns columns;

	if (!read_columns(packed_columns, &columns))
		return;
	for (uint64_t first = 0; first < count; first += PACK_GROUP) {
		uint64_t end = count - first < PACK_GROUP ? count : first + PACK_GROUP;

		for (uint32_t c = 0; c < columns.count; c++) {
			const struct column *column = &columns.column[c];
			enum pack_transform transform =
				choose_transform(&columns, column, rows, numbers, first, end);

			transform_rows(&columns, column, transform, rows, numbers, first, end);
			out_byte(out, (char)transform);
			pack_numbers(out, numbers, (size_t)(end - first));
		}
	}
}

/* ------------------------------------------------------------------ decoding */

struct input {
	const unsigned char *at;
	const unsigned char *end;
};

/* The 7 low bits of each of 8 bytes as one number. */
static inline uint64_t join_bytes(uint64_t bytes)
{
	bytes = (bytes & 0x007f007f007f007full) | (bytes & 0x7f007f007f007f00ull) >> 1;
	bytes = (bytes & 0x00003fff00003fffull) | (bytes & 0x3fff00003fff0000ull) >> 2;
	return (bytes & 0x000000000fffffffull) | (bytes & 0x0fffffff00000000ull) >> 4;
}

/* A varint byte by byte. */
static inline bool take_varint(struct input *in, uint64_t *out)
{
	uint64_t value = 0;

	for (uint32_t shift = 0; shift < 64 && in->at < in->end; shift += 7) {
		unsigned char byte = *in->at++;

		value |= (uint64_t)(byte & 127) << shift;
		if (byte < 128) {
			*out = value;
			return true;
		}
	}
	return false;
}

/*
 * A varint with VARINT_MAX bytes of input. The lengths in a column often alternate, which branches
 * predict: short numbers are not found with masks.
 */
static inline bool take_inner_varint(const unsigned char **in, uint64_t *out)
{
	const unsigned char *at = *in;
	uint64_t bytes;

	if (at[0] < 128) {
		*out = at[0];
		*in = at + 1;
		return true;
	}
	if (at[1] < 128) {
		*out = (at[0] & 127) | (uint64_t)at[1] << 7;
		*in = at + 2;
		return true;
	}
	if (at[2] < 128) {
		*out = (at[0] & 127) | (uint64_t)(at[1] & 127) << 7 | (uint64_t)at[2] << 14;
		*in = at + 3;
		return true;
	}
	memcpy(&bytes, at, 8);
	uint64_t ends = ~bytes & 0x8080808080808080ull;
	if (ends) {
		*out = join_bytes(bytes & (ends ^ (ends - 1)));
		*in = at + (uint32_t)__builtin_ctzll(ends) / 8 + 1;
		return true;
	}
	*out = join_bytes(bytes) | (uint64_t)(at[8] & 127) << 56;
	*in = at + 9;
	if (at[8] < 128)
		return true;
	*out |= (uint64_t)at[9] << 63;
	*in = at + 10;
	return at[9] < 128;
}

/* Takes `count` varints. */
static bool take_run(struct input *in, uint64_t *numbers, size_t count)
{
	const unsigned char *at = in->at;
	size_t i = 0;

	while (i < count && in->end - at >= VARINT_MAX)
		if (!take_inner_varint(&at, &numbers[i++]))
			return false;
	in->at = at;
	while (i < count)
		if (!take_varint(in, &numbers[i++]))
			return false;
	return true;
}

/* Takes `count` numbers. False: the input ends early or its runs do not fit. */
static bool take_numbers(struct input *in, uint64_t *numbers, size_t count, bool *has_any_out)
{
	size_t i = 0;

	*has_any_out = false;

	while (i < count) {
		if (in->at == in->end)
			return false;
		size_t run = (size_t)(*in->at & (PACK_RUN_MAX - 1)) + 1;
		if (run > count - i)
			return false;
		if (*in->at++ < PACK_RUN_MAX) {
			memset(numbers + i, 0, run * sizeof(*numbers));
		} else {
			*has_any_out = true;
			if (!take_run(in, numbers + i, run))
				return false;
		}
		i += run;
	}
	return true;
}

/* A loop over the rows of a column for each transform: this is the time that reading takes. */
#define RESTORE(next)                                                                              \
	do {                                                                                       \
		for (uint64_t i = first; i < end; i++, at += stride) {                             \
			uint64_t number = numbers[i - first];                                      \
                                                                                                   \
			x = next;                                                                  \
			store_number(at, bytes, x);                                                \
		}                                                                                  \
	} while (0)

/* Stores the values of rows `first` to `end` of a column. */
static inline __attribute__((always_inline)) void restore_width(uint32_t stride, uint32_t bytes,
								enum pack_transform transform,
								char *at, const uint64_t *numbers,
								uint64_t first, uint64_t end)
{
	uint64_t x = first ? load_number(at - stride, bytes) : 0;

	switch (transform) {
	case PACK_DELTA:
		RESTORE(x + unzigzag(number));
		break;
	case PACK_NEXT:
		RESTORE(x + unzigzag(number) + 1);
		break;
	case PACK_DISTANCE:
		RESTORE(i - unzigzag(number));
		break;
	case PACK_ACROSS:
		RESTORE(load_number(at - bytes, bytes) + unzigzag(number));
		break;
	case PACK_SWAPPED:
		RESTORE(swapped(number, bytes));
		break;
	default:
		RESTORE(number);
	}
}

static void restore(const struct columns *columns, const struct column *column,
		    enum pack_transform transform, char *rows, const uint64_t *numbers,
		    uint64_t first, uint64_t end)
{
	char *at = rows + first * columns->row_bytes + column->offset;

	if (column->bytes == 8)
		restore_width(columns->row_bytes, 8, transform, at, numbers, first, end);
	else
		restore_width(columns->row_bytes, 4, transform, at, numbers, first, end);
}

static bool take_group(struct input *in, const struct columns *columns, char *rows,
		       uint64_t *numbers, uint64_t first, uint64_t end)
{
	ARRAY_EACH(column, columns->column, columns->count) {
		bool has_any;

		if (in->at == in->end)
			return false;
		unsigned char transform = *in->at++;
		if (transform >= PACK_TRANSFORMS ||
		    (transform == PACK_ACROSS && !column->has_twin) ||
		    !take_numbers(in, numbers, (size_t)(end - first), &has_any))
			return false;
		if (transform == PACK_PLAIN && !has_any)
			continue; /* rows are zeros already */
		restore(columns, column, (enum pack_transform)transform, rows, numbers, first, end);
	}
	return true;
}

bool unpack_is_possible(uint64_t count, uint64_t packed_columns, size_t length)
{
	struct columns columns;

	return read_columns(packed_columns, &columns) &&
	       count / PACK_RUN_MAX <= length / columns.count;
}

uint64_t unpack_rows(void *rows, uint64_t count, uint64_t packed_columns, const void *bytes,
		     size_t length)
{
	struct input in = {bytes, (const unsigned char *)bytes + length};
	uint64_t numbers[PACK_GROUP];
	struct columns columns;
	uint64_t done = 0;

	if (!read_columns(packed_columns, &columns))
		return 0;
	while (done < count) {
		uint64_t end = count - done < PACK_GROUP ? count : done + PACK_GROUP;

		if (!take_group(&in, &columns, rows, numbers, done, end))
			break;
		done = end;
	}
	return done;
}

/* ------------------------------------------------------------------ strings */

/* The length of the text of an entry; false if it is not as string_write() makes it. */
static bool check_entry(const char *entry, uint64_t rest, uint32_t *length_out)
{
	uint32_t length;

	if (rest < 8)
		return false;
	memcpy(&length, entry, sizeof(length));
	uint64_t bytes = string_entry_bytes(length);
	if (bytes > rest)
		return false;
	for (uint64_t i = 4 + (uint64_t)length; i < bytes; i++)
		if (entry[i])
			return false;
	*length_out = length;
	return true;
}

bool pack_strings(struct out *out, const char *bytes, uint64_t length)
{
	const char *before = "";
	uint32_t before_length = 0;
	uint32_t text_length;

	for (uint64_t at = 0; at < length; at += string_entry_bytes(text_length)) {
		const char *text = bytes + at + 4;
		char numbers[1 + VARINT_MAX];
		uint32_t common = 0;

		if (!check_entry(bytes + at, length - at, &text_length))
			return false;
		while (common < text_length && common < before_length && common < PACK_COMMON_MAX &&
		       text[common] == before[common])
			common++;
		numbers[0] = (char)common;
		char *end = put_varint(numbers + 1, text_length - common);
		out_bytes(out, numbers, (size_t)(end - numbers));
		out_bytes(out, text + common, text_length - common);
		before = text;
		before_length = text_length;
	}
	return true;
}

#define PIECE 16u /* bytes that are copied at once, even for shorter texts */

static inline void copy_pieces(char *to, const void *from, uint64_t length)
{
	for (uint64_t i = 0; i < length; i += PIECE)
		memmove(to + i, (const char *)from + i, PIECE);
}

/*
 * Writes an entry: `common` bytes of the entry before, and `rest` of the input. With space after
 * them whole pieces are copied; the next entry overwrites the bytes after this one.
 */
static inline void put_entry(char *entry, bool has_space, const char *before, uint64_t common,
			     const void *rest, uint64_t rest_bytes)
{
	uint32_t length = (uint32_t)(common + rest_bytes);
	char *text = entry + 4;

	memcpy(entry, &length, 4);
	if (has_space) {
		copy_pieces(text, before, common);
		copy_pieces(text + common, rest, rest_bytes);
	} else {
		memcpy(text, before, common);
		memcpy(text + common, rest, rest_bytes);
	}
	memset(text + length, 0, string_entry_bytes(length) - 4 - length);
}

uint64_t unpack_strings(char *bytes, uint64_t capacity, const void *packed, size_t length)
{
	struct input in = {packed, (const unsigned char *)packed + length};
	const char *before = bytes;
	uint64_t before_length = 0, at = 0;

	while (at < capacity) {
		uint64_t rest;

		if (in.at == in.end)
			break;
		uint64_t common = *in.at++;
		if (!take_varint(&in, &rest) || common > before_length ||
		    rest > (uint64_t)(in.end - in.at))
			break;
		uint64_t text_length = common + rest;
		if (text_length > UINT32_MAX || string_entry_bytes(text_length) > capacity - at)
			break;
		bool has_space = capacity - at >= 4 + text_length + 2 * PIECE &&
				 (uint64_t)(in.end - in.at) >= rest + PIECE;
		put_entry(bytes + at, has_space, before, common, in.at, rest);
		in.at += rest;
		before = bytes + at + 4;
		before_length = text_length;
		at += string_entry_bytes(text_length);
	}
	return at;
}

bool unpack_strings_is_possible(uint64_t bytes, size_t length)
{
	/* An entry takes at least 2 bytes, which stand for at most this many. */
	return bytes / string_entry_bytes(PACK_COMMON_MAX) <= length / 2;
}
