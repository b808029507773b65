/* viewer/gate: any text as a gate. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "viewer/numbers/gate.h"
#include "viewer/query/derive.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	char *text = malloc(length + 1);
	struct proton_error err;
	struct gate gate;

	if (!text)
		return 0;
	memcpy(text, bytes, length);
	text[length] = '\0';
	if (gate_parse(&gate, text, &err) == PROTON_OK &&
	    (!*gate.metric || gate.amount != gate.amount || !gate.amount_text ||
	     derive_lacks_unit(gate.metric)))
		abort();
	gate_fini(&gate);
	free(text);
	return 0;
}
