/*
 * Visible devices. Two libraries filter the GPUs, each in its own way:
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
#include "driver/amd_gpus.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/environment.h"

#define ID_BYTES 24

struct list {
	size_t count;
	size_t gpus[VISIBLE_DEVICES_MAX]; /* numbers in the list that this one was chosen from */
};

struct entry {
	const char *text;
	size_t length;
};

/* An entry of a list with commas between; false after the last one. */
static bool next_entry(const char **rest, struct entry *entry_out)
{
	if (!**rest)
		return false;
	*entry_out = (struct entry){*rest, strcspn(*rest, ",")};
	*rest += entry_out->length;
	if (**rest)
		(*rest)++;
	return true;
}

static bool has_device(const struct list *list, size_t gpu)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->gpus[i] == gpu)
			return true;
	return false;
}

/* The text that the HSA runtime has for it. */
static void print_id(uint64_t unique_id, char text[static ID_BYTES])
{
	if (unique_id)
		snprintf(text, ID_BYTES, "GPU-%016llx", (unsigned long long)unique_id);
	else
		snprintf(text, ID_BYTES, "GPU-XX");
}

/* ------------------------------------------------------------------ the HSA runtime */

static void trim_entry(struct entry *entry)
{
	while (entry->length && isspace((unsigned char)*entry->text)) {
		entry->text++;
		entry->length--;
	}
	while (entry->length && isspace((unsigned char)entry->text[entry->length - 1]))
		entry->length--;
}

/* -1: none or several begin with `entry`. */
static long find_only(struct entry entry, const uint64_t *unique_ids, size_t count)
{
	long found = -1;
	char text[ID_BYTES];

	if (entry.length <= strlen("GPU-"))
		return -1;
	for (size_t i = 0; i < count; i++) {
		print_id(unique_ids[i], text);
		if (!unique_ids[i] || entry.length > strlen(text) ||
		    strncasecmp(entry.text, text, entry.length) != 0)
			continue;
		if (found >= 0)
			return -1;
		found = (long)i;
	}
	return found;
}

/* -1: not a number. */
static long read_number(struct entry entry)
{
	char *end = NULL;
	long value = strtol(entry.text, &end, 0);

	return entry.length && end == entry.text + entry.length ? value : -1;
}

static void filter_hsa(const uint64_t *unique_ids, size_t count, struct list *out)
{
	const char *rest = environment_get("ROCR_VISIBLE_DEVICES");
	struct entry entry;

	*out = (struct list){0};
	if (!rest) {
		for (; out->count < count; out->count++)
			out->gpus[out->count] = out->count;
		return;
	}
	while (out->count < count && next_entry(&rest, &entry)) {
		long gpu;

		trim_entry(&entry);
		gpu = entry.length && toupper((unsigned char)*entry.text) == 'G'
			      ? find_only(entry, unique_ids, count)
			      : read_number(entry);
		if (gpu < 0 || (size_t)gpu >= count || has_device(out, (size_t)gpu))
			return;
		out->gpus[out->count++] = (size_t)gpu;
	}
}

/* ------------------------------------------------------------------ HIP */

/* The first that begins with `entry`; -1: none. */
static long find_first(struct entry entry, const uint64_t *unique_ids, const struct list *from)
{
	char text[ID_BYTES];

	for (size_t i = 0; i < from->count; i++) {
		print_id(unique_ids[from->gpus[i]], text);
		if (entry.length <= strlen(text) && strncmp(entry.text, text, entry.length) == 0)
			return (long)i;
	}
	return -1;
}

/* -1: not a number as HIP prints it. */
static long read_ordinal(struct entry entry)
{
	long value = 0;

	if (!entry.length || entry.length > 4 || (*entry.text == '0' && entry.length > 1))
		return -1;
	for (size_t i = 0; i < entry.length; i++) {
		if (!isdigit((unsigned char)entry.text[i]))
			return -1;
		value = value * 10 + (entry.text[i] - '0');
	}
	return value;
}

static void filter_hip(const char *value, const uint64_t *unique_ids, const struct list *from,
		       struct list *out)
{
	struct entry entry;

	*out = (struct list){0};
	while (next_entry(&value, &entry)) {
		bool is_id = entry.length >= 4 && strncmp(entry.text, "GPU-", 4) == 0;
		long chosen = is_id ? find_first(entry, unique_ids, from) : read_ordinal(entry);

		if (chosen < 0 || (size_t)chosen >= from->count)
			return;
		if (!has_device(out, from->gpus[chosen]))
			out->gpus[out->count++] = from->gpus[chosen];
	}
}

static const char *get_value(const char *variable)
{
	const char *value = environment_get(variable);

	return value && *value ? value : NULL;
}

void visible_devices_map(const uint64_t *unique_ids, size_t count, int hip_count, int *ordinals_out)
{
	const char *value = get_value("HIP_VISIBLE_DEVICES");
	bool is_certain = true;
	struct list of_hsa, of_hip;

	for (size_t i = 0; i < count; i++)
		ordinals_out[i] = -1;
	filter_hsa(unique_ids, count < VISIBLE_DEVICES_MAX ? count : VISIBLE_DEVICES_MAX, &of_hsa);
	if (!value)
		value = get_value("CUDA_VISIBLE_DEVICES");
	if (!value) {
		value = get_value("GPU_DEVICE_ORDINAL");
		is_certain = false;
	}
	if (value)
		filter_hip(value, unique_ids, &of_hsa, &of_hip);
	if (!value || (!is_certain && hip_count >= 0 && (size_t)hip_count != of_hip.count))
		of_hip = of_hsa;
	for (size_t i = 0; i < of_hip.count; i++)
		ordinals_out[of_hip.gpus[i]] = (int)i;
}
