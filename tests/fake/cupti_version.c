/* Differences between versions of CUPTI: the version's encoding, and the sizes of records. */
#include <stdlib.h>

#include "fake/cupti_state.h"
#include "fake/entries.h"

uint32_t version_code(void)
{
	const char *named = getenv("FAKE_CUPTI_VERSION");

	return named ? (uint32_t)atoi(named) : 130000;
}

/* The driver's, as libcuda gives it. */
void fake_driver_version(int *version)
{
	const char *named = getenv("FAKE_CUDA_VERSION");

	*version = named ? atoi(named) : 13050;
}

/* CUpti_ActivityKernel9 (12.4 to 12.9): 208 bytes, Kernel10 (13.0): 216; later versions more. */
size_t version_record_bytes(uint32_t kind)
{
	uint32_t version = version_code();

	switch (kind) {
	case CUPTI_KIND_CONCURRENT_KERNEL:
		return version < 130000   ? 208
		       : version < 130100 ? 216
		       : version < 130300 ? 224
					  : 240;
	case CUPTI_KIND_MEMCPY: /* CUpti_ActivityMemcpy5, then Memcpy6 */
		return version < 130000 ? 88 : 96;
	case CUPTI_KIND_MEMCPY_PEER:
		return 96; /* CUpti_ActivityMemcpyPtoP4 */
	default:
		return 88; /* CUpti_ActivityMemset4 */
	}
}

int fake_cuptiGetVersion(uint32_t *version)
{
	*version = version_code();
	return CUPTI_OK;
}
