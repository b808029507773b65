/* Loader of hatchet JSON files: load_tree.c with a JSON reader. */
#include "format/json_read.h"
#include "model/load.h"
#include "model/load_tree.h"

int profile_load_hatchet(const char *bytes, size_t length, struct profile **out,
			 struct proton_error *err)
{
	struct json_reader reader;
	int status;

	json_reader_init(&reader, bytes, length);
	status = load_tree(&reader.source, out, err);
	json_reader_fini(&reader);
	return status;
}
