/* The version of the library that is loaded. */
#include <libproton/proton.h>

const char *proton_version(void)
{
	return PROTON_VERSION;
}
