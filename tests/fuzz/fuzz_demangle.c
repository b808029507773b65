/* symbol/demangle: any bytes, in both styles; the output stays within its limit. */
#include <stdint.h>
#include <stdlib.h>

#include "symbol/demangle.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	for (int style = DEMANGLE_FULL; style <= DEMANGLE_SHORT; style++) {
		struct out out;

		out_init(&out, -1);
		if (demangle(&out, (const char *)bytes, length, (enum demangle_style)style) &&
		    (out.length == 0 || out.length > DEMANGLE_BYTES_MAX))
			abort();
		out_fini(&out);
	}
	return 0;
}
