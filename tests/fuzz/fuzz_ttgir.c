/*
 * Fuzz target for TTGIR: any bytes. Translated text has no proton operations left, and text with
 * automatic scopes still has all its lines. A text with a zero byte is two texts: a kernel before
 * and after Triton's passes.
 */
#include <stdlib.h>
#include <string.h>

#include "intra/ttgir/ttgir.h"
#include "intra/work/work.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

static void check_translation(const char *text, size_t length)
{
	struct proton_error err;
	struct ttgir_result result;
	struct ttgir_result again;

	if (ttgir_translate_records(text, length, length & 1, &result, &err) != PROTON_OK) {
		if (result.text || !err.text[0])
			abort();
		return;
	}
	if (result.text) {
		/* Nothing is left to translate. */
		if (ttgir_translate_records(result.text, result.length, false, &again, &err) !=
			    PROTON_OK ||
		    again.text)
			abort();
	}
	ttgir_result_fini(&result);
}

/* Every line of `text` is in `made`, in order. */
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
	struct ttgir_insertion how = {.spelling = spelling, .registers_less = 60};

	if (instrument_mode_read(mode_text, &mode, &err) != PROTON_OK)
		abort();
	if (ttgir_insert_scopes(text, length, &mode, &how, &result, &err) != PROTON_OK)
		return;
	if (result.text)
		check_lines(text, length, result.text, result.length);
	ttgir_result_fini(&result);
}

static size_t count(const char *text, size_t length, const char *part)
{
	const char *end = text + length;
	size_t found = 0;

	while ((text = memmem(text, (size_t)(end - text), part, strlen(part)))) {
		text += strlen(part);
		found++;
	}
	return found;
}

static void check_taking_out(const char *text, size_t length)
{
	struct proton_error err;
	struct ttgir_result result;
	struct ttgir_result again;

	if (ttgir_strip_markers(text, length, TTGIR_ALWAYS, &result, &err) != PROTON_OK) {
		if (result.text)
			abort();
		return;
	}
	if (result.text) {
		check_lines(result.text, result.length, text, length);
		if (ttgir_strip_markers(result.text, result.length, TTGIR_ALWAYS, &again, &err) !=
			    PROTON_OK ||
		    again.text)
			abort();
	}
	ttgir_result_fini(&result);
}

static void check_relocation(const char *before, size_t before_length, const char *after,
			     size_t after_length)
{
	static const char start[] = "\"// proton.record start ", end[] = "\"// proton.record end ";
	struct proton_error err;
	struct ttgir_result result;

	if (ttgir_restore_scopes(before, before_length, after, after_length, &result, &err) !=
	    PROTON_OK) {
		if (result.text)
			abort();
		return;
	}
	if (result.text) {
		check_lines(after, after_length, result.text, result.length);
		/* Every start has an end. */
		if (count(result.text, result.length, start) - count(after, after_length, start) !=
		    count(result.text, result.length, end) - count(after, after_length, end))
			abort();
	}
	ttgir_result_fini(&result);
}

/* Counts what it does on a small grid, with all arguments 7. */
static void check_counting(const char *text, size_t length)
{
	struct work_argument arguments[4];
	struct work_launch launch = {.grid = {3, 1, 2}, .arguments = arguments};
	struct proton_error err;
	struct program *program;
	struct work work;

	if (work_read(text, length, &program, &err) != PROTON_OK)
		return;
	for (uint32_t i = 0; i < 4; i++)
		arguments[i] = (struct work_argument){true, 7};
	for (; launch.argument_count <= 4; launch.argument_count++)
		if (work_count(program, &launch, &work, &err) == PROTON_OK &&
		    (work.requested[0].low > work.requested[0].high ||
		     work.compulsory[0].low > work.compulsory[0].high))
			abort();
	work_free(program);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	const char *middle;
	/* A copy without a terminator, so out-of-bounds reads are detected. */
	char *text = malloc(length ? length : 1);

	if (!text)
		return 0;
	memcpy(text, bytes, length);
	check_translation(text, length);
	check_insertion(text, length, "default:auto=all:budget=off", TTGIR_MARKERS);
	check_insertion(text, length, "default:auto=all:budget=5", TTGIR_MARKERS);
	check_insertion(text, length, "default:auto=all:budget=off:buffer_size=256", TTGIR_RECORDS);
	check_taking_out(text, length);
	check_counting(text, length);
	middle = memchr(text, '\0', length);
	if (middle)
		check_relocation(text, (size_t)(middle - text), middle + 1,
				 (size_t)(text + length - middle - 1));
	else
		check_relocation(text, length, text, length);
	free(text);
	return 0;
}
