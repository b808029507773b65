/* Loader of hatchet MessagePack files: load_tree.c with a MessagePack reader. */
#include "format/msgpack_read.h"
#include "model/load.h"
#include "model/load_tree.h"

int profile_load_msgpack(const char *bytes, size_t length, struct profile **out,
			 struct proton_error *err)
{
	struct msgpack_reader reader;
	struct token_source source;
	int status;

	msgpack_reader_init(&reader, bytes, length);
	source = msgpack_source(&reader);
	status = load_tree(&source, out, err);
	msgpack_reader_fini(&reader);
	return status;
}
