/*
 * model/load_hatchet, load_msgpack and load_tree: any bytes, in both formats.
 */
#include "fuzz/check_profile.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	struct profile *profile = NULL;
	struct proton_error err;
	int status;

	if (length && (bytes[0] >= 0x80))
		status = profile_load_msgpack((const char *)bytes, length, &profile, &err);
	else
		status = profile_load_hatchet((const char *)bytes, length, &profile, &err);
	if (status == PROTON_OK) {
		check_profile(profile);
		check_exports(profile);
		check_fold(profile);
		profile_free(profile);
	}
	return 0;
}
