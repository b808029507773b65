/*
 * instrument/ttgir: any bytes. What is translated has no operation of ours left, and what scopes
 * were put into still holds every line it had.
 */
#include <stdlib.h>
#include <string.h>

#include "instrument/ttgir.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

static void check_translation(const char *text, size_t length)
{
	struct proton_error err;
	struct ttgir_result result;
	struct ttgir_result again;

	if (ttgir_translate(text, length, length & 1, &result, &err) != PROTON_OK) {
		if (result.text || !err.text[0])
			abort();
		return;
	}
	if (result.text) {
		/* Nothing is left to translate. */
		if (ttgir_translate(result.text, result.length, false, &again, &err) != PROTON_OK ||
		    again.text)
			abort();
	}
	ttgir_result_fini(&result);
}

/* Every line of `text` stands in `made`, in its order. */
static void check_lines(const char *text, size_t length, const char *made, size_t made_length)
{
	const char *end = text + length;

	while (text < end) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		size_t size = (size_t)((newline ? newline : end) - text);

		for (;;) {
			const char *other = memchr(made, '\n', made_length);
			size_t other_size = other ? (size_t)(other - made) : made_length;
			bool is_same = other_size == size && memcmp(made, text, size) == 0;

			if (!other && !is_same)
				abort();
			made += other_size + (other != NULL);
			made_length -= other_size + (other != NULL);
			if (is_same)
				break;
		}
		text += size + (newline != NULL);
	}
}

static void check_insertion(const char *text, size_t length, const char *mode_text,
			    enum ttgir_spelling spelling)
{
	struct instrument_mode mode;
	struct proton_error err;
	struct ttgir_result result;

	if (instrument_mode_read(mode_text, &mode, &err) != PROTON_OK)
		abort();
	if (ttgir_insert(text, length, &mode, false, spelling, &result, &err) != PROTON_OK)
		return;
	if (result.text)
		check_lines(text, length, result.text, result.length);
	ttgir_result_fini(&result);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	/* A copy without a terminator: reading one byte too far is seen. */
	char *text = malloc(length ? length : 1);

	if (!text)
		return 0;
	memcpy(text, bytes, length);
	check_translation(text, length);
	check_insertion(text, length, "default:auto=all", TTGIR_MARKERS);
	check_insertion(text, length, "default:auto=all:buffer_size=256", TTGIR_RECORDS);
	free(text);
	return 0;
}
