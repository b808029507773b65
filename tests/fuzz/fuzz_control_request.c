/* Fuzz target for requests to a process that listens. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "format/control_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_same(const struct control_request *a, const struct control_request *b)
{
	for (int i = 0; i < CONTROL_OPTION_COUNT; i++)
		if (!a->options[i] != !b->options[i] ||
		    (a->options[i] && strcmp(a->options[i], b->options[i]) != 0))
			return false;
	return a->command == b->command;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char bytes[CONTROL_REQUEST_MAX];
	struct control_request request;
	struct control_request again;
	struct proton_error err;
	size_t length;

	if (control_request_read((const char *)data, size, &request, &err) != PROTON_OK)
		return 0;
	/* The writer orders the options; the length stays. */
	length = control_request_write(&request, bytes, sizeof(bytes));
	if (length != size || control_request_read(bytes, length, &again, &err) != PROTON_OK ||
	    !is_same(&request, &again))
		abort();
	return 0;
}
