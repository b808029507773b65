/* format/msgpack_read: any bytes, token for token, and what they skip. */
#include <stdlib.h>

#include "format/msgpack_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

static volatile unsigned char touched; /* every byte of a text can be read */

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	struct msgpack_reader reader;
	struct token token;
	enum token_kind kind;
	uint64_t opened = 0;
	uint64_t closed = 0;
	bool is_skipped;

	msgpack_reader_init(&reader, (const char *)bytes, length);
	while ((kind = token_next(&reader.source, &token)) != TOKEN_END && kind != TOKEN_ERROR) {
		opened += kind == TOKEN_OBJECT || kind == TOKEN_ARRAY;
		closed += kind == TOKEN_OBJECT_END || kind == TOKEN_ARRAY_END;
		for (size_t i = 0; (kind == TOKEN_KEY || kind == TOKEN_STRING) && i < token.length;
		     i++)
			touched = (unsigned char)token.text[i];
	}
	if (kind == TOKEN_END && opened != closed)
		abort();
	msgpack_reader_fini(&reader);

	msgpack_reader_init(&reader, (const char *)bytes, length);
	is_skipped = token_skip(&reader.source, token_next(&reader.source, &token));
	if (kind == TOKEN_END && !is_skipped)
		abort();
	msgpack_reader_fini(&reader);
	return 0;
}
