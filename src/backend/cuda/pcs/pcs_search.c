/*
 * Search for the cubins of sampled functions in Triton's cache. CUPTI gives the cubin of a module
 * that was loaded before the session at a launch, but kernels may then run only in graphs.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "backend/cuda/pcs/pcs_parts.h"
#include "base/buf.h"
#include "record/session/triton_cache.h"
#include "record/store/code_objects.h"
#include "record/store/gpu_functions.h"

#define CUBIN_MAX_BYTES (64u << 20)

struct search {
	struct pcs_wanted wanted[PCS_WANTED_MAX];
	size_t count;
	bool has_found;
};

/* Adds the file if it is the cubin with this CRC. */
static bool take_cubin(const char *path, uint64_t crc)
{
	const struct file_limits limits = {.max_bytes = CUBIN_MAX_BYTES};
	struct cubin_crc_params params = {.size = sizeof(params)};
	struct stat st;
	char *bytes;
	bool is_equal;

	if (stat(path, &st) != 0 || !S_ISREG(st.st_mode) || !st.st_size ||
	    file_read_all(path, &limits, &bytes, &params.cubin_bytes, NULL) != PROTON_OK)
		return false;
	params.cubin = bytes;
	is_equal = libcupti.cuptiGetCubinCrc(&params) == CUPTI_OK && params.crc == crc;
	if (is_equal)
		code_objects_add(crc, bytes, params.cubin_bytes);
	free(bytes);
	return is_equal;
}

/* Each directory has the cubin of one kernel. */
static bool visit_file(void *user, const char *directory)
{
	struct search *search = user;

	for (size_t i = 0; i < search->count; i++) {
		const char *name = gpu_functions_get(search->wanted[i].function)->name;
		char path[PATH_MAX];
		int length = snprintf(path, sizeof(path), "%s/%s.cubin", directory, name);

		if (length < 0 || (size_t)length >= sizeof(path) ||
		    !take_cubin(path, search->wanted[i].crc))
			continue;
		search->wanted[i] = search->wanted[--search->count];
		search->has_found = true;
		break;
	}
	return search->count != 0;
}

/* Triton's names are identifiers; mangled C++ names are of other compilers. */
static bool is_triton_name(const char *name)
{
	return strncmp(name, "_Z", 2) != 0 && !strchr(name, '/');
}

void pcs_search(void)
{
	const struct sample_totals none = {0};
	struct pcs_wanted taken[PCS_WANTED_MAX];
	struct search search = {.count = 0};
	size_t count;

	count = pcs_modules_take_wanted(taken);
	for (size_t i = 0; i < count; i++)
		if (is_triton_name(gpu_functions_get(taken[i].function)->name))
			search.wanted[search.count++] = taken[i];
	if (!search.count)
		return;
	triton_cache_walk(visit_file, &search);
	if (search.has_found) /* the sessions look for cubins that they lack */
		record_samples(pcs_modules_last_sessions(), &cuda_backend, NULL, 0, &none);
}
