/*
 * JSON reader (pull parser).
 *
 * The reader remembers one bit per open container (object or array) and the state of the grammar.
 * It is fast for three reasons: runs of spaces are skipped 8 bytes at a time (pretty-printed
 * profiles are mostly indentation), plain strings are borrowed from the input after a scan of 8
 * bytes at a time, and short decimals are converted without strtod().
 */
#include "format/json_read.h"

#include "base/array.h"
#include "base/utf8.h"
#include "format/number.h"

enum state {
	STATE_VALUE,         /* before a value */
	STATE_FIRST_ELEMENT, /* after '[': a value or ']' */
	STATE_FIRST_KEY,     /* after '{': a key or '}' */
	STATE_KEY,           /* after ',' in an object */
	STATE_AFTER,         /* after a value: ',' or the end of its container */
	STATE_END,           /* after the outermost value: only white space */
	STATE_FAILED,
};

#define ONES 0x0101010101010101ull
#define HIGHS 0x8080808080808080ull
#define SPACES 0x2020202020202020ull

static const char out_of_memory[] = "out of memory";

void json_reader_fini(struct json_reader *reader)
{
	free(reader->nesting);
	free(reader->scratch);
	reader->nesting = NULL;
	reader->scratch = NULL;
}

static enum token_kind fail_read(struct json_reader *reader, const char *failure, const char *at,
				 struct token *token)
{
	reader->source.failure = failure;
	reader->failed_at = at;
	reader->source.is_truncated = at >= reader->end;
	reader->state = STATE_FAILED;
	return token->kind = TOKEN_ERROR;
}

static inline uint64_t load8(const char *at)
{
	uint64_t word;

	memcpy(&word, at, sizeof(word));
	return word;
}

static inline const char *skip_space(const char *at, const char *end)
{
	while (at < end) {
		if (*at == ' ') {
			at++;
			while (end - at >= 8 && load8(at) == SPACES)
				at += 8;
		} else if (*at == '\n' || *at == '\r' || *at == '\t') {
			at++;
		} else {
			break;
		}
	}
	return at;
}

/* The first byte that is '"', '\\', a control character or not ASCII. */
static inline const char *skip_plain(const char *at, const char *end)
{
	while (end - at >= 8) {
		uint64_t word = load8(at);
		uint64_t quote = word ^ (ONES * '"');
		uint64_t slash = word ^ (ONES * '\\');
		uint64_t found = ((quote - ONES) & ~quote) | ((slash - ONES) & ~slash) |
				 ((word - ONES * 0x20) & ~word) | word;

		found &= HIGHS;
		if (found)
			return at + (__builtin_ctzll(found) >> 3);
		at += 8;
	}
	while (at < end && *at != '"' && *at != '\\' && (unsigned char)*at >= 0x20 &&
	       (unsigned char)*at < 0x80)
		at++;
	return at;
}

static inline bool is_in_object(const struct json_reader *reader)
{
	uint32_t depth = reader->depth - 1;

	return reader->nesting[depth / 8] >> (depth % 8) & 1;
}

static inline void after_value(struct json_reader *reader)
{
	reader->state = reader->depth ? STATE_AFTER : STATE_END;
}

/* ------------------------------------------------------------------ strings */

static int hex4(const char *at, const char *end)
{
	int value = 0;

	if (end - at < 4)
		return -1;
	for (int i = 0; i < 4; i++) {
		int c = at[i];
		int digit;

		if (c >= '0' && c <= '9')
			digit = c - '0';
		else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
			digit = (c | 0x20) - 'a' + 10;
		else
			return -1;
		value = value << 4 | digit;
	}
	return value;
}

/* Unescapes the text after a '\'. Returns the end of the escape, NULL if it is invalid. */
static const char *unescape(const char *at, const char *end, char *to, size_t *used)
{
	static const char names[] = "\"\\/bfnrt";
	static const char values[] = "\"\\/\b\f\n\r\t";

	if (at == end)
		return NULL;
	if (*at != 'u') {
		const char *name = *at ? strchr(names, *at) : NULL;
		if (!name)
			return NULL;
		to[(*used)++] = values[name - names];
		return at + 1;
	}
	int high = hex4(at + 1, end);
	if (high < 0)
		return NULL;
	at += 5;
	uint32_t code = (uint32_t)high;
	if (code >= 0xd800 && code < 0xe000) {
		int low = end - at >= 6 && at[0] == '\\' && at[1] == 'u' ? hex4(at + 2, end) : -1;

		if (code < 0xdc00 && low >= 0xdc00 && low < 0xe000) {
			code = 0x10000 + ((code - 0xd800) << 10) + ((uint32_t)low - 0xdc00);
			at += 6;
		}
	}
	*used += utf8_encode(code, to + *used);
	return at;
}

/* Reads the rest of a string with escapes or non-ASCII bytes; `begin` is after the quote. */
static enum token_kind read_hard_string(struct json_reader *reader, const char *begin,
					struct token *token)
{
	const char *end = reader->end;
	const char *stop = begin;
	const char *at = begin;
	bool is_plain = true; /* no escapes */
	size_t used = 0;

	for (;;) {
		stop = skip_plain(stop, end);
		if (stop == end)
			return fail_read(reader, "unterminated string", end, token);
		if (*stop == '"')
			break;
		if ((unsigned char)*stop < 0x20)
			return fail_read(reader, "control character in a string", stop, token);
		if (*stop == '\\') {
			is_plain = false;
			if (++stop == end)
				return fail_read(reader, "unterminated string", end, token);
		}
		stop++;
	}
	reader->at = stop + 1;
	if (is_plain &&
	    utf8_valid_length(begin, (size_t)(stop - begin)) == (size_t)(stop - begin)) {
		token->text = begin;
		token->length = (size_t)(stop - begin);
		return token->kind;
	}
	/* A byte becomes at most 3, and so do the 6 of an escape. */
	if ((size_t)(stop - begin) > SIZE_MAX / 4 ||
	    !array_reserve(&reader->scratch, &reader->scratch_capacity,
			   3 * (size_t)(stop - begin) + 4, 1))
		return fail_read(reader, out_of_memory, at, token);
	while (at < stop) {
		const char *plain = at;

		while (at < stop && *at != '\\')
			at++;
		used += utf8_repair(plain, (size_t)(at - plain), reader->scratch + used);
		if (at < stop) {
			const char *after = unescape(at + 1, stop, reader->scratch, &used);

			if (!after)
				return fail_read(reader, "unknown escape in a string", at, token);
			at = after;
		}
	}
	token->text = reader->scratch;
	token->length = used;
	return token->kind;
}

/* `reader->at` is at the opening quote; token->kind is set. */
static inline enum token_kind read_string(struct json_reader *reader, struct token *token)
{
	const char *begin = reader->at + 1;
	const char *stop = skip_plain(begin, reader->end);

	if (stop < reader->end && *stop == '"') {
		token->text = begin;
		token->length = (size_t)(stop - begin);
		reader->at = stop + 1;
		return token->kind;
	}
	return read_hard_string(reader, begin, token);
}

/* ------------------------------------------------------------------ numbers */

/* A scanned number. */
struct decimal {
	uint64_t mantissa; /* digits without the point, as long as they fit */
	int64_t exponent;  /* power of ten: the value is mantissa * 10^exponent */
	bool is_negative;
	bool is_integer;
	bool is_exact; /* all digits are in the mantissa */
};

static const char *scan_digits(const char *at, const char *end, struct decimal *d, int64_t scale)
{
	while (at < end && *at >= '0' && *at <= '9') {
		uint64_t digit = (uint64_t)(*at - '0');
		uint64_t next;

		if (__builtin_mul_overflow(d->mantissa, 10u, &next) ||
		    __builtin_add_overflow(next, digit, &next))
			d->is_exact = false;
		else
			d->mantissa = next;
		d->exponent += scale;
		at++;
	}
	return at;
}

/* Returns the end of a number at `at`, or NULL with *wrong at the invalid byte. */
static const char *scan_number(const char *at, const char *end, struct decimal *d,
			       const char **wrong)
{
	*d = (struct decimal){.is_integer = true, .is_exact = true};
	if (*at == '-') {
		d->is_negative = true;
		at++;
	}
	const char *digits = at;
	*wrong = at;
	at = scan_digits(at, end, d, 0);
	if (at == digits || (*digits == '0' && at > digits + 1))
		return NULL;
	if (at < end && *at == '.') {
		d->is_integer = false;
		digits = at + 1;
		at = scan_digits(digits, end, d, -1);
		*wrong = at;
		if (at == digits)
			return NULL;
	}
	if (at < end && (*at | 0x20) == 'e') {
		int64_t exponent = 0;
		bool is_negative = false;

		d->is_integer = false;
		at++;
		if (at < end && (*at == '-' || *at == '+'))
			is_negative = *at++ == '-';
		digits = at;
		for (; at < end && *at >= '0' && *at <= '9'; at++)
			if (exponent < 100000)
				exponent = exponent * 10 + (*at - '0');
		*wrong = at;
		if (at == digits)
			return NULL;
		d->exponent += is_negative ? -exponent : exponent;
	}
	return at;
}

/* The number as a double, if one multiplication or division gives it exactly. */
static bool decimal_to_double(const struct decimal *d, double *value)
{
	static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
					1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
					1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

	if (!d->is_exact || d->mantissa > 1ull << 53 || d->exponent > 22 || d->exponent < -22)
		return false;
	*value = (double)d->mantissa;
	if (d->exponent < 0)
		*value /= powers[-d->exponent];
	else
		*value *= powers[d->exponent];
	if (d->is_negative)
		*value = -*value;
	return true;
}

static bool slow_double(struct json_reader *reader, const char *text, size_t length, double *value)
{
	char small[64];
	char *copy = small;

	if (length >= sizeof(small)) {
		if (!array_reserve(&reader->scratch, &reader->scratch_capacity, length + 1, 1))
			return false;
		copy = reader->scratch;
	}
	memcpy(copy, text, length);
	copy[length] = '\0';
	*value = number_to_double(copy);
	return true;
}

static enum token_kind read_number(struct json_reader *reader, struct token *token)
{
	const char *begin = reader->at;
	const char *wrong;
	struct decimal d;
	const char *after = scan_number(begin, reader->end, &d, &wrong);

	if (!after)
		return fail_read(reader, "not a number", wrong, token);
	reader->at = after;
	/* If the input ends after a number in a container, digits may be missing. */
	if (after == reader->end && reader->depth)
		return fail_read(reader, "unexpected end of input in a number", after, token);
	after_value(reader);
	if (d.is_integer && d.is_exact) {
		if (!d.is_negative && d.mantissa > INT64_MAX) {
			token->as.uint64 = d.mantissa;
			return token->kind = TOKEN_UINT64;
		}
		if (d.mantissa <= (uint64_t)INT64_MAX + d.is_negative) {
			token->as.int64 = (int64_t)(d.is_negative ? 0 - d.mantissa : d.mantissa);
			return token->kind = TOKEN_INT64;
		}
	}
	if (!decimal_to_double(&d, &token->as.float64) &&
	    !slow_double(reader, begin, (size_t)(after - begin), &token->as.float64))
		return fail_read(reader, out_of_memory, begin, token);
	return token->kind = TOKEN_DOUBLE;
}

/* ------------------------------------------------------------------ structure */

static enum token_kind read_word(struct json_reader *reader, const char *word, struct token *token)
{
	size_t length = strlen(word);
	size_t left = (size_t)(reader->end - reader->at);

	if (left < length && memcmp(reader->at, word, left) == 0)
		return fail_read(reader, "unexpected end of input in a literal", reader->end,
				 token);
	if (left < length || memcmp(reader->at, word, length) != 0)
		return fail_read(reader, "unknown literal", reader->at, token);
	reader->at += length;
	after_value(reader);
	return token->kind;
}

static enum token_kind begin_container(struct json_reader *reader, struct token *token)
{
	bool is_object = *reader->at == '{';
	uint32_t depth = reader->depth;

	if (depth >= TOKEN_DEPTH_MAX)
		return fail_read(reader, "nested too deeply", reader->at, token);
	if (!array_reserve(&reader->nesting, &reader->nesting_capacity, depth / 8 + 1, 1))
		return fail_read(reader, out_of_memory, reader->at, token);
	reader->nesting[depth / 8] &= (uint8_t) ~(1u << depth % 8);
	reader->nesting[depth / 8] |= (uint8_t)(is_object << depth % 8);
	reader->depth++;
	reader->at++;
	reader->state = is_object ? STATE_FIRST_KEY : STATE_FIRST_ELEMENT;
	return token->kind = is_object ? TOKEN_OBJECT : TOKEN_ARRAY;
}

static enum token_kind end_container(struct json_reader *reader, struct token *token)
{
	token->kind = is_in_object(reader) ? TOKEN_OBJECT_END : TOKEN_ARRAY_END;
	reader->at++;
	reader->depth--;
	after_value(reader);
	return token->kind;
}

static enum token_kind read_value(struct json_reader *reader, struct token *token)
{
	if (reader->at == reader->end)
		return fail_read(reader, "unexpected end of input", reader->at, token);
	switch (*reader->at) {
	case '{':
	case '[':
		return begin_container(reader, token);
	case '"':
		token->kind = TOKEN_STRING;
		after_value(reader);
		return read_string(reader, token);
	case 't':
		token->kind = TOKEN_BOOL;
		token->as.boolean = true;
		return read_word(reader, "true", token);
	case 'f':
		token->kind = TOKEN_BOOL;
		token->as.boolean = false;
		return read_word(reader, "false", token);
	case 'n':
		token->kind = TOKEN_NULL;
		return read_word(reader, "null", token);
	case '-':
	case '0' ... '9':
		return read_number(reader, token);
	default:
		return fail_read(reader, "expected a value", reader->at, token);
	}
}

static enum token_kind read_key(struct json_reader *reader, struct token *token)
{
	if (reader->at == reader->end)
		return fail_read(reader, "unexpected end of input", reader->at, token);
	if (*reader->at != '"')
		return fail_read(reader, "expected a quoted name", reader->at, token);
	token->kind = TOKEN_KEY;
	reader->state = STATE_VALUE;
	if (read_string(reader, token) == TOKEN_ERROR)
		return TOKEN_ERROR;
	reader->at = skip_space(reader->at, reader->end);
	if (reader->at == reader->end || *reader->at != ':')
		return fail_read(reader, "expected ':'", reader->at, token);
	reader->at++;
	return TOKEN_KEY;
}

/* After a value in a container: the container's end, or a comma and the next value or key. */
static enum token_kind read_after(struct json_reader *reader, struct token *token)
{
	bool is_object = is_in_object(reader);

	if (reader->at == reader->end)
		return fail_read(reader, "unexpected end of input", reader->at, token);
	if (*reader->at == (is_object ? '}' : ']'))
		return end_container(reader, token);
	if (*reader->at != ',')
		return fail_read(reader, "expected ','", reader->at, token);
	reader->at = skip_space(reader->at + 1, reader->end);
	return is_object ? read_key(reader, token) : read_value(reader, token);
}

static enum token_kind next_token(struct token_source *source, struct token *token)
{
	struct json_reader *reader = (struct json_reader *)source;
	const char *at = reader->at = skip_space(reader->at, reader->end);

	switch (reader->state) {
	case STATE_AFTER:
		return read_after(reader, token);
	case STATE_FIRST_KEY:
		if (at < reader->end && *at == '}')
			return end_container(reader, token);
		return read_key(reader, token);
	case STATE_FIRST_ELEMENT:
		if (at < reader->end && *at == ']')
			return end_container(reader, token);
		return read_value(reader, token);
	case STATE_VALUE:
		return read_value(reader, token);
	case STATE_END:
		if (at < reader->end)
			return fail_read(reader, "unexpected data after the end", at, token);
		return token->kind = TOKEN_END;
	default:
		return token->kind = TOKEN_ERROR;
	}
}

static int report_error(const struct token_source *source, struct proton_error *err)
{
	const struct json_reader *reader = (const struct json_reader *)source;
	size_t line = 1;

	if (!reader->source.failure)
		return err_set(err, PROTON_E_STATE, "no error");
	if (reader->source.failure == out_of_memory)
		return err_nomem(err);
	for (const char *at = reader->bytes; at < reader->failed_at; at++)
		line += *at == '\n';
	return err_set(err, PROTON_E_FORMAT, "line %zu, byte %zu: %s", line,
		       (size_t)(reader->failed_at - reader->bytes), reader->source.failure);
}

void json_reader_init(struct json_reader *reader, const char *bytes, size_t length)
{
	*reader = (struct json_reader){.source = {.next = next_token, .error = report_error},
				       .bytes = bytes,
				       .at = bytes,
				       .end = bytes + length};
	if (length >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0)
		reader->at += 3; /* BOM, which some editors write */
}
