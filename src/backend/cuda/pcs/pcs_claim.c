/*
 * One process at a time samples the PCs of a GPU. CUPTI should refuse the second one, but two
 * processes that begin and end sampling of one GPU lost their CUDA contexts (errors 700 and 719, or
 * a crash, in 8 of 10 processes; none in 16 where one of them did not sample; H200, CUPTI 13.0).
 *
 * The claim is a socket with the GPU's UUID as its abstract address, which unix(7) gives to one
 * process of a network namespace, and takes back when that ends, however it ends.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "backend/cuda/pcs/pcs_parts.h"
#include "driver/driver.h"
#include "format/working_file.h"
#include "record/store/devices.h"

bool pcs_claim_take(struct pcs_context *context)
{
	const struct device *device = devices_get(gpu_device_of_cuda(context->device));
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	context->claim = 0;
	if (!device || !*device->uuid)
		return true;
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return true;
	fd = working_file_move_high(fd);
	int length = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1,
			      "proton-pc-sampling-%s", device->uuid);
	if (bind(fd, (const struct sockaddr *)&address,
		 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)) != 0) {
		bool is_taken = errno == EADDRINUSE; /* a sandbox may refuse all such addresses */

		close(fd);
		return !is_taken;
	}
	context->claim = fd;
	return true;
}

void pcs_claim_release(struct pcs_context *context)
{
	if (context->claim)
		close(context->claim);
	context->claim = 0;
}
