/* format/json_read: any bytes. Accepted input is written again and must read back the same. */
#include <stdlib.h>
#include <string.h>

#include "format/json_read.h"
#include "format/json_write.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

/* Writes the tokens of `text`; false if it is not JSON. */
static bool rewrite(const char *text, size_t length, bool is_pretty, struct out *out)
{
	struct json_reader reader;
	struct json_writer json;
	struct token token;
	enum token_kind kind;

	json_reader_init(&reader, text, length);
	json_writer_init(&json, out, is_pretty);
	while ((kind = token_next(&reader.source, &token)) != TOKEN_END && kind != TOKEN_ERROR) {
		if (kind == TOKEN_OBJECT) {
			json_begin_object(&json);
		} else if (kind == TOKEN_OBJECT_END) {
			json_end_object(&json);
		} else if (kind == TOKEN_ARRAY) {
			json_begin_array(&json);
		} else if (kind == TOKEN_ARRAY_END) {
			json_end_array(&json);
		} else if (kind == TOKEN_KEY) {
			struct out quoted;

			out_init(&quoted, -1);
			json_quote(&quoted, token.text, token.length);
			json_key_quoted(&json, quoted.bytes, quoted.length);
			out_fini(&quoted);
		} else if (kind == TOKEN_STRING) {
			json_string(&json, token.text, token.length);
		} else if (kind == TOKEN_INT64) {
			json_int64(&json, token.as.int64);
		} else if (kind == TOKEN_UINT64) {
			json_uint64(&json, token.as.uint64);
		} else if (kind == TOKEN_DOUBLE) {
			json_double(&json, token.as.float64);
		} else if (kind == TOKEN_BOOL) {
			json_bool(&json, token.as.boolean);
		} else {
			json_double(&json, 0.0 / 0.0);
		}
	}
	if (kind == TOKEN_ERROR) {
		struct proton_error err;

		reader.source.error(&reader.source, &err);
	}
	json_reader_fini(&reader);
	return kind == TOKEN_END;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	struct out compact;
	struct out pretty;
	struct out again;

	out_init(&compact, -1);
	out_init(&pretty, -1);
	out_init(&again, -1);
	if (rewrite((const char *)bytes, length, false, &compact)) {
		if (!rewrite(compact.bytes, compact.length, true, &pretty) ||
		    !rewrite(pretty.bytes, pretty.length, false, &again))
			abort();
		if (again.length != compact.length ||
		    memcmp(again.bytes, compact.bytes, again.length) != 0)
			abort();
	}
	out_fini(&compact);
	out_fini(&pretty);
	out_fini(&again);
	return 0;
}
