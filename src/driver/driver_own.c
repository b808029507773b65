/* Calls of the driver that Proton makes for itself on a thread of the program. */
#include "driver/driver.h"
#include "record/thread/record_launch.h"

int driver_own_begin(void)
{
	int mode = DRIVER_CAPTURE_RELAXED;

	record_own_work_begin();
	return driver.cuThreadExchangeStreamCaptureMode(&mode) == 0 ? mode : -1;
}

void driver_own_end(int mode)
{
	record_own_work_end();
	if (mode >= 0)
		driver.cuThreadExchangeStreamCaptureMode(&mode);
}
