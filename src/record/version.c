/* Version of the loaded library. */
#include <libproton/proton.h>

const char *proton_version(void)
{
	return PROTON_VERSION;
}
