/*
 * AMD GPUs of the machine: the topology in /sys/class/kfd has a directory for each node. Like the
 * HSA runtime, nodes that a container hides are left out and not counted: one with a gpu_id that
 * cannot be read, and one with a render device that cannot be opened.
 */
#include "driver/amd_gpus.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <strings.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/slice.h"
#include "driver/amd_library.h"
#include "driver/hip_functions.h"
#include "driver/library_search.h"

#define PATH_BYTES 512

static FILE *open_file(unsigned node, const char *name)
{
	const char *named = library_search_value("PROTON_KFD_TOPOLOGY"); /* for tests */
	char path[PATH_BYTES];
	int length = snprintf(path, sizeof(path), "%s/nodes/%u/%s",
			      named ?: "/sys/class/kfd/kfd/topology", node, name);

	return length > 0 && (size_t)length < sizeof(path) ? fopen(path, "re") : NULL;
}

/* The last number after `name` in a file of the node, 0: none. False if nothing can be read. */
static bool read_value(unsigned node, const char *file_name, const char *name,
		       unsigned long long *out)
{
	FILE *file = open_file(node, file_name);
	bool is_read = false;
	char line[128];

	for (*out = 0; file && fgets(line, sizeof(line), file); is_read = true)
		if (strncmp(line, name, strlen(name)) == 0)
			*out = strtoull(line + strlen(name), NULL, 10);
	if (file)
		fclose(file);
	return is_read;
}

static bool can_render(unsigned long long minor)
{
	char path[64];

	snprintf(path, sizeof(path), "/dev/dri/renderD%llu", minor);
	return !minor || access(path, R_OK | W_OK) == 0;
}

size_t amd_gpus_read(struct amd_gpu *gpus_out, size_t capacity)
{
	unsigned long long gpu_id, simds, unique_id, render_minor;
	uint32_t node = 0; /* without GPUs that are left out */
	size_t count = 0;

	for (unsigned i = 0;; i++) {
		FILE *file = open_file(i, "name"); /* readable for all nodes */

		if (!file)
			break;
		fclose(file);
		if (!read_value(i, "gpu_id", "", &gpu_id))
			continue;
		if (gpu_id && (!read_value(i, "properties", "simd_count ", &simds) ||
			       !read_value(i, "properties", "unique_id ", &unique_id) ||
			       !read_value(i, "properties", "drm_render_minor ", &render_minor) ||
			       !can_render(render_minor)))
			continue;
		if (gpu_id && simds && count++ < capacity)
			gpus_out[count - 1] = (struct amd_gpu){node, unique_id};
		node++;
	}
	return count;
}

/* HIP is not called: its destructors may have run, because the program exits. */
const char *amd_gpus_problem(void)
{
	static _Thread_local char text[256];
	int error = access("/dev/kfd", R_OK | W_OK) == 0 ? 0 : errno;

	if (!error || !amd_library_get_loaded(AMD_HIP))
		return NULL;
	snprintf(text, sizeof(text),
		 "this process uses HIP, but has no AMD GPU (hipErrorNoDevice): cannot open "
		 "/dev/kfd: %s",
		 strerror(error));
	return text;
}

/* True if a path in /proc names the device of the kernel driver. */
static bool is_device(const char *path)
{
	const char *named = library_search_value("PROTON_KFD_DEVICE"); /* for tests */
	const char *device = named ?: "/dev/kfd";
	size_t length = strlen(path);

	return length >= strlen(device) && strcmp(path + length - strlen(device), device) == 0;
}

/* The HSA runtime opens the device when it is initialized. */
bool amd_gpus_are_open(void)
{
	DIR *directory = opendir("/proc/self/fd");
	bool is_open = false;
	char target[512];

	for (struct dirent *entry; directory && !is_open && (entry = readdir(directory));) {
		ssize_t length =
			readlinkat(dirfd(directory), entry->d_name, target, sizeof(target) - 1);

		target[length > 0 ? length : 0] = '\0';
		is_open = is_device(target);
	}
	if (directory)
		closedir(directory);
	return is_open;
}

/*
 * The runtime maps a GPU's doorbells with its first queue there, and keeps them (map_doorbell() in
 * libhsakmt, src/queues.c). The upper two bits of the offset are the type of the mapping, 3 for
 * doorbells (KFD_MMAP_TYPE_DOORBELL of the kernel's kfd_priv.h); registers and events have others.
 * /sys/class/kfd/kfd/proc has the queues too, but by numbers that processes in a container do not
 * know of themselves.
 */
bool amd_gpus_have_queue(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char *line = NULL;
	size_t capacity = 0;
	bool is_found = false;

	/* START-END PERMISSIONS OFFSET DEVICE INODE PATH */
	while (maps && !is_found && getline(&line, &capacity, maps) > 0) {
		const char *offset = line + strcspn(line, " ") + 1;

		line[strcspn(line, "\n")] = '\0';
		offset += strcspn(offset, " ");
		is_found = is_device(line) && strtoull(offset, NULL, 16) >> 62 == 3;
	}
	free(line);
	if (maps)
		fclose(maps);
	return is_found;
}

/* ------------------------------------------------------------------ visible devices */

/*
 * Two libraries filter the GPUs, each in its own way:
 *
 * - The HSA runtime reads ROCR_VISIBLE_DEVICES. Set and empty: no GPU. White space and case do not
 *   matter, numbers may be octal or hexadecimal, and a unique id may be abbreviated. The list ends
 *   before the first entry that is not a number or an abbreviation of one GPU only, and before a
 *   GPU that was in the list already.
 * - HIP numbers the remaining ones, and reads HIP_VISIBLE_DEVICES; if it is empty,
 *   CUDA_VISIBLE_DEVICES. A number must be written exactly as HIP would print it, and a unique id
 *   in lower case. An abbreviation that fits several GPUs is the first of them, and a GPU that was
 *   in the list already is skipped.
 *
 * AMD documents GPU_DEVICE_ORDINAL for HIP, but HIP on Linux ignores it. It counts as the third
 * variable of HIP unless HIP's own number of devices contradicts it.
 */
struct list {
	size_t count;
	size_t gpus[VISIBLE_DEVICES_MAX]; /* numbers in the list that this one was chosen from */
};

typedef int compare_fn(const char *a, const char *b, size_t length);

static bool has_device(const struct list *list, size_t gpu)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->gpus[i] == gpu)
			return true;
	return false;
}

/* The first GPU of the list, from `at` on, with an id that begins with `entry`; -1: none. */
static long find_id(struct slice entry, const uint64_t *unique_ids, const struct list *from,
		    size_t at, compare_fn *compare)
{
	char text[24]; /* as the HSA runtime writes it */

	for (; at < from->count; at++) {
		unsigned long long id = unique_ids[from->gpus[at]];

		if (id)
			snprintf(text, sizeof(text), "GPU-%016llx", id);
		else
			snprintf(text, sizeof(text), "GPU-XX");
		if (entry.length <= strlen(text) && compare(entry.at, text, entry.length) == 0)
			return (long)at;
	}
	return -1;
}

/* -1: none or several begin with `entry`. */
static long find_only(struct slice entry, const uint64_t *unique_ids, const struct list *all)
{
	long found = find_id(entry, unique_ids, all, 0, strncasecmp);

	return entry.length > strlen("GPU-") && found >= 0 && unique_ids[found] &&
			       find_id(entry, unique_ids, all, (size_t)found + 1, strncasecmp) < 0
		       ? found
		       : -1;
}

/* -1: not a number. */
static long read_number(struct slice entry)
{
	char *end = NULL;
	long value = strtol(entry.at, &end, 0);

	return entry.length && end == slice_end(entry) ? value : -1;
}

static struct slice trim(struct slice entry)
{
	while (entry.length && isspace((unsigned char)*entry.at))
		slice_skip(&entry, 1);
	while (entry.length && isspace((unsigned char)entry.at[entry.length - 1]))
		entry.length--;
	return entry;
}

/* Reduces the list, which has all GPUs. */
static void filter_hsa(const uint64_t *unique_ids, struct list *list)
{
	const char *value = environment_get("ROCR_VISIBLE_DEVICES");
	const struct list all = *list;

	if (!value)
		return;
	list->count = 0;
	for (struct slice rest = slice_of(value); rest.length && list->count < all.count;) {
		struct slice entry = trim(slice_take_until(&rest, ','));
		long gpu = entry.length && toupper((unsigned char)*entry.at) == 'G'
				   ? find_only(entry, unique_ids, &all)
				   : read_number(entry);

		if (gpu < 0 || (size_t)gpu >= all.count || has_device(list, (size_t)gpu))
			return;
		list->gpus[list->count++] = (size_t)gpu;
	}
}

/* -1: not a number as HIP prints it. */
static long read_ordinal(struct slice entry)
{
	bool has_zeros = entry.length > 1 && *entry.at == '0';
	uint32_t value;

	return !has_zeros && slice_take_number(&entry, 9999, &value) && !entry.length ? (long)value
										      : -1;
}

static void filter_hip(const char *value, const uint64_t *unique_ids, const struct list *from,
		       struct list *out)
{
	struct slice rest = slice_of(value);

	out->count = 0;
	while (rest.length) {
		struct slice entry = slice_take_until(&rest, ',');
		bool is_id = entry.length >= 4 && strncmp(entry.at, "GPU-", 4) == 0;
		long chosen = is_id ? find_id(entry, unique_ids, from, 0, strncmp)
				    : read_ordinal(entry);

		if (chosen < 0 || (size_t)chosen >= from->count)
			return;
		if (!has_device(out, from->gpus[chosen]))
			out->gpus[out->count++] = from->gpus[chosen];
	}
}

void amd_gpus_map_visible(const uint64_t *unique_ids, size_t count, int hip_count,
			  int *ordinals_out)
{
	const char *value = library_search_value("HIP_VISIBLE_DEVICES");
	bool is_certain = true;
	struct list of_hsa = {0};
	struct list of_hip;

	for (size_t i = 0; i < count; i++)
		ordinals_out[i] = -1;
	for (; of_hsa.count < count && of_hsa.count < VISIBLE_DEVICES_MAX; of_hsa.count++)
		of_hsa.gpus[of_hsa.count] = of_hsa.count;
	filter_hsa(unique_ids, &of_hsa);
	if (!value)
		value = library_search_value("CUDA_VISIBLE_DEVICES");
	if (!value) {
		value = library_search_value("GPU_DEVICE_ORDINAL");
		is_certain = false;
	}
	if (value)
		filter_hip(value, unique_ids, &of_hsa, &of_hip);
	if (!value || (!is_certain && hip_count >= 0 && (size_t)hip_count != of_hip.count))
		of_hip = of_hsa;
	for (size_t i = 0; i < of_hip.count; i++)
		ordinals_out[of_hip.gpus[i]] = (int)i;
}

/* ------------------------------------------------------------------ ordinals */

int amd_gpus_hip_count(void)
{
	int count = 0;

	if (!hip_functions_find() || !hip.hipGetDeviceCount)
		return -1;
	return hip.hipGetDeviceCount(&count) == 0 ? count : -1;
}

static struct {
	pthread_once_t once;
	size_t count;
	struct amd_gpu gpus[VISIBLE_DEVICES_MAX];
	int ordinals[VISIBLE_DEVICES_MAX];
} machine = {.once = PTHREAD_ONCE_INIT};

static void read_machine(void)
{
	uint64_t unique_ids[VISIBLE_DEVICES_MAX];
	size_t count = amd_gpus_read(machine.gpus, VISIBLE_DEVICES_MAX);

	machine.count = count < VISIBLE_DEVICES_MAX ? count : VISIBLE_DEVICES_MAX;
	for (size_t i = 0; i < machine.count; i++)
		unique_ids[i] = machine.gpus[i].unique_id;
	amd_gpus_map_visible(unique_ids, machine.count, amd_gpus_hip_count(), machine.ordinals);
}

int amd_gpus_ordinal_of_node(uint32_t node)
{
	pthread_once(&machine.once, read_machine);
	for (size_t i = 0; i < machine.count; i++)
		if (machine.gpus[i].node == node)
			return machine.ordinals[i];
	return -1;
}
