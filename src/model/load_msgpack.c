/* Loader of hatchet MessagePack files: load_tree.c with a MessagePack reader. */
#include "format/msgpack_read.h"
#include "model/load.h"
#include "model/load_tree.h"

int profile_load_msgpack(const char *bytes, size_t length, struct profile **out,
			 struct proton_error *err)
{
	struct msgpack_reader reader;
	int status;

	msgpack_reader_init(&reader, bytes, length);
	status = load_tree(&reader.source, out, err);
	msgpack_reader_fini(&reader);
	return status;
}
