/*
 * MessagePack reader (pull parser).
 *
 * The announced length of a container is untrusted: nothing is allocated for it. Elements are
 * counted down, and missing ones are an error at the end of the input.
 */
#include "format/msgpack_read.h"

#include "base/array.h"
#include "base/utf8.h"

struct msgpack_level {
	uint64_t left; /* remaining tokens: elements of an array, keys and values of a map */
	bool is_map;
};

static const char out_of_memory[] = "out of memory";
static const char too_short[] = "unexpected end of input";

void msgpack_reader_fini(struct msgpack_reader *reader)
{
	free(reader->levels);
	free(reader->scratch);
	reader->levels = NULL;
	reader->scratch = NULL;
}

static enum token_kind fail_read(struct msgpack_reader *reader, const char *failure,
				 struct token *token)
{
	reader->source.failure = failure;
	reader->source.is_truncated = failure == too_short;
	return token->kind = TOKEN_ERROR;
}

static enum token_kind int_token(struct token *token, uint64_t value)
{
	if (value > INT64_MAX) {
		token->as.uint64 = value;
		return token->kind = TOKEN_UINT64;
	}
	token->as.int64 = (int64_t)value;
	return token->kind = TOKEN_INT64;
}

static enum token_kind float_token(struct token *token, unsigned bytes, uint64_t bits)
{
	if (bytes == 4) {
		uint32_t narrow = (uint32_t)bits;
		float value;

		memcpy(&value, &narrow, sizeof(value));
		token->as.float64 = (double)value;
	} else {
		token->as.uint64 = bits;
	}
	return token->kind = TOKEN_DOUBLE;
}

static enum token_kind read_string(struct msgpack_reader *reader, uint64_t length,
				   struct token *token)
{
	const char *text = (const char *)reader->at;

	if (length > (size_t)(reader->end - reader->at))
		return fail_read(reader, too_short, token);
	reader->at += length;
	token->text = text;
	token->length = (size_t)length;
	if (utf8_valid_length(text, token->length) < token->length) {
		if (length > SIZE_MAX / 4 ||
		    !array_reserve(&reader->scratch, &reader->scratch_capacity, 3 * token->length,
				   1))
			return fail_read(reader, out_of_memory, token);
		token->length = utf8_repair(text, token->length, reader->scratch);
		token->text = reader->scratch;
	}
	return token->kind = TOKEN_STRING;
}

/* Skips an extension: a type byte and data that profiles do not use. */
static enum token_kind skip_extension(struct msgpack_reader *reader, uint64_t length,
				      struct token *token)
{
	if (length + 1 > (size_t)(reader->end - reader->at))
		return fail_read(reader, too_short, token);
	reader->at += length + 1;
	return token->kind = TOKEN_NULL;
}

static enum token_kind begin_container(struct msgpack_reader *reader, uint64_t count, bool is_map,
				       struct token *token)
{
	if (reader->depth >= TOKEN_DEPTH_MAX)
		return fail_read(reader, "nested too deeply", token);
	if (!ARRAY_ADD(reader->levels, reader->depth,
		       (struct msgpack_level){.left = is_map ? 2 * count : count,
					      .is_map = is_map}))
		return fail_read(reader, out_of_memory, token);
	return token->kind = is_map ? TOKEN_OBJECT : TOKEN_ARRAY;
}

/* Bytes of the number that follows the types 0xc0 to 0xdf: a value or a length. */
static const uint8_t number_bytes[32] = {
	0, 0, 0, 0, 1, 2, 4, 1, 2, 4, 4, 8, 1, 2, 4, 8, /* 0xc0 */
	1, 2, 4, 8, 0, 0, 0, 0, 0, 1, 2, 4, 2, 4, 2, 4, /* 0xd0 */
};

static enum token_kind read_wide(struct msgpack_reader *reader, uint8_t type, struct token *token)
{
	unsigned bytes = number_bytes[type - 0xc0];
	uint64_t number = 0;

	if ((size_t)(reader->end - reader->at) < bytes)
		return fail_read(reader, too_short, token);
	for (unsigned i = 0; i < bytes; i++)
		number = number << 8 | *reader->at++;
	switch (type) {
	case 0xc0:
		return token->kind = TOKEN_NULL;
	case 0xc2:
	case 0xc3:
		token->as.boolean = type == 0xc3;
		return token->kind = TOKEN_BOOL;
	case 0xc4 ... 0xc6: /* binary */
	case 0xd9 ... 0xdb:
		return read_string(reader, number, token);
	case 0xc7 ... 0xc9:
		return skip_extension(reader, number, token);
	case 0xca:
	case 0xcb:
		return float_token(token, bytes, number);
	case 0xcc ... 0xcf:
		return int_token(token, number);
	case 0xd0 ... 0xd3:
		/* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): never 64 */
		token->as.int64 = (int64_t)(number << (64 - 8 * bytes)) >> (64 - 8 * bytes);
		return token->kind = TOKEN_INT64;
	case 0xd4 ... 0xd8:
		return skip_extension(reader, 1u << (type - 0xd4), token);
	case 0xdc ... 0xdf:
		return begin_container(reader, number, type >= 0xde, token);
	default:
		return fail_read(reader, "invalid MessagePack byte", token);
	}
}

static enum token_kind read_value(struct msgpack_reader *reader, struct token *token)
{
	if (reader->at == reader->end)
		return fail_read(reader, too_short, token);
	uint8_t type = *reader->at++;
	if (type < 0x80)
		return int_token(token, type);
	if (type < 0x90)
		return begin_container(reader, type & 0x0f, true, token);
	if (type < 0xa0)
		return begin_container(reader, type & 0x0f, false, token);
	if (type < 0xc0)
		return read_string(reader, type & 0x1f, token);
	if (type < 0xe0)
		return read_wide(reader, type, token);
	token->as.int64 = (int8_t)type;
	return token->kind = TOKEN_INT64;
}

static enum token_kind next_token(struct token_source *source, struct token *token)
{
	struct msgpack_reader *reader = (struct msgpack_reader *)source;
	struct msgpack_level *level = NULL;
	bool is_key = false;

	if (reader->source.failure)
		return token->kind = TOKEN_ERROR;
	if (reader->depth) {
		level = &reader->levels[reader->depth - 1];
		if (level->left == 0) {
			reader->depth--;
			reader->is_done = reader->depth == 0;
			return token->kind = level->is_map ? TOKEN_OBJECT_END : TOKEN_ARRAY_END;
		}
		is_key = level->is_map && level->left % 2 == 0;
		level->left--;
	} else if (reader->is_done) {
		if (reader->at < reader->end)
			return fail_read(reader, "unexpected data after the end", token);
		return token->kind = TOKEN_END;
	}
	if (read_value(reader, token) == TOKEN_ERROR)
		return TOKEN_ERROR;
	if (is_key) {
		if (token->kind != TOKEN_STRING)
			return fail_read(reader, "a map key is not a string", token);
		token->kind = TOKEN_KEY;
	}
	if (!reader->depth)
		reader->is_done = true;
	return token->kind;
}

static int report_error(const struct token_source *source, struct proton_error *err)
{
	const struct msgpack_reader *reader = (const struct msgpack_reader *)source;
	if (!reader->source.failure)
		return err_set(err, PROTON_E_STATE, "no error");
	if (reader->source.failure == out_of_memory)
		return err_nomem(err);
	return err_set(err, PROTON_E_FORMAT, "byte %zu: %s", (size_t)(reader->at - reader->bytes),
		       reader->source.failure);
}

void msgpack_reader_init(struct msgpack_reader *reader, const char *bytes, size_t length)
{
	const uint8_t *at = (const uint8_t *)bytes;

	*reader = (struct msgpack_reader){.source = {.next = next_token, .error = report_error},
					  .bytes = at,
					  .at = at,
					  .end = at + length};
}
