/*
 * hatchet's lists in MessagePack: the content of hatchet JSON (export/hatchet.c), with a node's
 * members in upstream's order: frame, metrics, (proton,) children. The length of a container
 * precedes its elements; nothing follows them.
 */
#include "export/export.h"

#include "export/tree_write.h"
#include "format/msgpack_write.h"

static void map(void *context, uint64_t pairs)
{
	msgpack_map(context, pairs);
}

static void array(void *context, uint64_t elements)
{
	msgpack_array(context, elements);
}

static void text(void *context, const char *text)
{
	msgpack_text(context, text);
}

static void encoded(void *context, const char *bytes, size_t length)
{
	out_bytes(context, bytes, length);
}

static void string(void *context, const char *text, size_t length)
{
	msgpack_string(context, text, length);
}

static void int64(void *context, int64_t value)
{
	msgpack_int64(context, value);
}

static void uint64(void *context, uint64_t value)
{
	msgpack_uint64(context, value);
}

static void float64(void *context, double value)
{
	msgpack_double(context, value);
}

static void boolean(void *context, bool value)
{
	msgpack_bool(context, value);
}

static bool has_failed(void *context)
{
	return ((struct out *)context)->errnum != 0;
}

static void nothing(void *context)
{
	(void)context;
}

static void no_frame(void *context, bool begin)
{
	(void)context;
	(void)begin;
}

static const struct tree_format format = {
	.wants_lengths = true,
	.encode = msgpack_string,
	.begin_map = map,
	.end_map = nothing,
	.begin_array = array,
	.end_array = nothing,
	.key = text,
	.encoded_key = encoded,
	.encoded = encoded,
	.string = string,
	.int64 = int64,
	.uint64 = uint64,
	.float64 = float64,
	.boolean = boolean,
	.has_failed = has_failed,
	.whole = no_frame,
	.before_part = nothing,
	.extras = no_frame,
};

int export_msgpack(const struct profile *profile, struct out *out, struct proton_error *err)
{
	return tree_write(profile, &format, out, err);
}
