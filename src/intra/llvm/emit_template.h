/*
 * Templates for generated LLVM IR: text with named placeholders such as `<ring>`. A placeholder
 * consists of lower-case letters, so vector types (`<2 x i32>`) are not placeholders.
 */
#ifndef INTRA_LLVM_EMIT_TEMPLATE_H
#define INTRA_LLVM_EMIT_TEMPLATE_H

#include "base/array.h"
#include "base/buf.h"
#include "base/slice.h"

struct emit_value {
	const char *name; /* of the placeholder */
	struct slice text;
	int64_t number; /* if there is no text */
};

#define EMIT_TEXT(name, value)                                                                     \
	{                                                                                          \
		(name), {(value), strlen(value)}, 0                                                \
	}
#define EMIT_SLICE(name, value)                                                                    \
	{                                                                                          \
		(name), (value), 0                                                                 \
	}
#define EMIT_NUMBER(name, value)                                                                   \
	{                                                                                          \
		(name), {NULL, 0}, (int64_t)(value)                                                \
	}

/* Writes `text` with the values in place of the placeholders. Others are written unchanged. */
void emit_template(struct out *out, const char *text, const struct emit_value *values,
		   size_t count);

/* EMIT(out, "text", EMIT_TEXT("name", value), ...) */
#define EMIT(out, text, ...)                                                                       \
	emit_template(out, text, (const struct emit_value[]){__VA_ARGS__},                         \
		      sizeof((const struct emit_value[]){__VA_ARGS__}) /                           \
			      sizeof(struct emit_value))

#endif
