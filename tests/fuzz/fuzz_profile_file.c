/*
 * A profile file of any bytes: format/profile_view and model/load_profile, all phases and the
 * first. Its header is 64 KiB, which a fuzzer would spend its life in, so inputs are a short form
 * that is unfolded here: per table a row count and a row size, then the rows, one after the other.
 * Inputs that begin like a real file are used unchanged.
 */
#include "fuzz/check_profile.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

static void try_file(const void *bytes, size_t length)
{
	static const uint32_t phases[] = {PHASE_ALL, 0};
	struct profile_view view;
	struct proton_error err;

	if (profile_view_open(&view, bytes, length, &err) != PROTON_OK)
		return;
	for (size_t i = 0; i < 2; i++) {
		struct profile *profile;

		if (profile_load_view(&view, phases[i], &profile, &err) != PROTON_OK)
			continue;
		check_profile(profile);
		check_exports(profile);
		check_trace(profile);
		check_fold(profile);
		profile_free(profile);
	}
	profile_view_fini(&view);
}

/* Row counts in an input: more than tables exist, for old inputs to stay valid with new tables. */
#define FOLDED_TABLES 32u
_Static_assert(TABLE_COUNT <= FOLDED_TABLES, "the inputs of the corpus have to be made longer");

/*
 * Byte 0: flags. Then a row count for each of FOLDED_TABLES, then rows. Row sizes are right unless
 * flag 1 says +8.
 */
static void try_folded(const uint8_t *bytes, size_t length)
{
	struct file_header *header;
	size_t at = 1 + FOLDED_TABLES;
	uint64_t offset = PROFILE_FILE_HEADER_BYTES;
	char *file;

	if (length < at)
		return;
	file = calloc(1, PROFILE_FILE_HEADER_BYTES + length);
	if (!file)
		return;
	memcpy(file + PROFILE_FILE_HEADER_BYTES, bytes + at, length - at);
	header = (struct file_header *)(void *)file;
	memcpy(header->magic, PROFILE_FILE_MAGIC, 8);
	header->major = PROFILE_FILE_MAJOR;
	header->header_bytes = PROFILE_FILE_HEADER_BYTES;
	header->state = bytes[0] & 2 ? PROFILE_FILE_FINISHED : PROFILE_FILE_RECORDING;
	header->start_ns = bytes[0];
	for (uint32_t id = 0; id < TABLE_COUNT; id++) {
		uint32_t row = profile_row_bytes[id] + (bytes[0] & 1 ? 8u : 0u);
		uint32_t rows = bytes[1 + id];

		header->tables[header->table_count++] =
			(struct file_table){.id = id, .row_bytes = row, .rows = rows};
		header->extents[header->extent_count++] = (struct file_extent){
			.table = id, .offset = offset, .bytes = (uint64_t)rows * row};
		offset += (uint64_t)rows * row;
		if (bytes[0] & 4) /* tables lie over each other */
			offset = PROFILE_FILE_HEADER_BYTES;
	}
	try_file(file, PROFILE_FILE_HEADER_BYTES + length - at);
	free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	if (profile_view_recognize(bytes, length))
		try_file(bytes, length);
	else
		try_folded(bytes, length);
	return 0;
}
