/* format/profile_file and profile_view: writing and reading back, over existing files too. */
#include "unit/recorded.h"

#include <sys/resource.h>

#include "format/profile_file.h"

static void add_nodes(struct profile_file *file, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct row_node *row = profile_file_append(file, TABLE_NODES, 1);

		CHECK(row);
		row->parent = i;
		row->frame = ~i;
		profile_file_commit(file, TABLE_NODES);
	}
}

static void check_nodes(const struct profile_view *view, uint32_t count)
{
	const struct row_node *rows = view->table[TABLE_NODES];

	CHECK_U64(view->rows[TABLE_NODES], count + 1);
	for (uint32_t i = 0; i < count; i++) {
		CHECK_EQ(rows[i + 1].parent, i);
		CHECK_EQ(rows[i + 1].frame, (uint32_t)~i);
	}
}

static char *read_file(const char *file, size_t *length)
{
	char *bytes;

	CHECK_DONE(file_read_all(rec_path(file), 0, &bytes, length, &err));
	return bytes;
}

TEST(a_table_of_several_extents_reads_as_one_array_while_it_is_written)
{
	struct profile_file file;
	struct profile_view view;
	size_t length;

	CHECK_DONE(profile_file_create(&file, rec_path("x.proton"), false, &err));
	profile_file_mark(&file, PROFILE_FILE_RECORDING, 0);
	add_nodes(&file, 100000);
	for (int i = 0; i < 1000; i++)
		CHECK(profile_file_append(&file, TABLE_VALUES, 100));
	profile_file_commit(&file, TABLE_VALUES);
	profile_file_view(&file, &view);
	check_nodes(&view, 100000);
	char *bytes = read_file("x.proton", &length);
	CHECK_DONE(profile_view_open(&view, bytes, length, &err));
	CHECK(!view.is_damaged);
	CHECK_EQ(view.state, PROFILE_FILE_RECORDING);
	CHECK_EQ(view.pid, getpid());
	check_nodes(&view, 100000);
	CHECK_U64(view.rows[TABLE_VALUES], 100001);
	profile_view_fini(&view);
	free(bytes);
	profile_file_close(&file, true);
	CHECK(!rec_exists("x.proton"));
}

TEST(rows_that_were_not_committed_are_not_read)
{
	struct profile_file file;
	struct profile_view view;

	CHECK_DONE(profile_file_create(&file, rec_path("x.proton"), false, &err));
	CHECK(profile_file_append(&file, TABLE_NODES, 3));
	profile_file_view(&file, &view);
	CHECK_U64(view.rows[TABLE_NODES], 1);
	profile_file_close(&file, true);
}

TEST(a_compact_copy_holds_the_same_rows)
{
	struct profile_file file;
	struct profile_view view, copy;
	struct out out;
	size_t length;

	CHECK_DONE(profile_file_create(&file, NULL, false, &err));
	add_nodes(&file, 5000);
	profile_file_view(&file, &view);
	out_init(&out, -1);
	CHECK_DONE(profile_view_write(&view, &out, &err));
	char *bytes = out_take(&out, &length);
	CHECK(bytes);
	CHECK_LE(length, 5001 * 6 + 1024);
	CHECK_DONE(profile_view_open(&copy, bytes, length, &err));
	CHECK_EQ(copy.state, PROFILE_FILE_FINISHED);
	check_nodes(&copy, 5000);
	profile_view_fini(&copy);
	free(bytes);
	profile_file_close(&file, false);
}

TEST(every_truncation_is_read_as_far_as_it_goes_or_refused)
{
	struct profile_file file;
	struct profile_view view;
	struct proton_error err;
	size_t length;

	CHECK_OK(profile_file_create(&file, rec_path("x.proton"), false, &err), err);
	profile_file_mark(&file, PROFILE_FILE_RECORDING, 0);
	add_nodes(&file, 10000);
	char *bytes = read_file("x.proton", &length);
	for (size_t cut = 0; cut < length; cut += cut < 70000 ? 499 : 20011) {
		char *piece = malloc(cut + 1); /* exact: ASan sees a read past it */
		int status;

		memcpy(piece, bytes, cut);
		status = profile_view_open(&view, piece, cut, &err);
		if (status == PROTON_OK) {
			CHECK(view.is_damaged);
			profile_view_fini(&view);
		} else {
			CHECK_EQ(status, PROTON_E_FORMAT);
		}
		free(piece);
	}
	free(bytes);
	profile_file_close(&file, true);
}

TEST(a_table_that_is_listed_twice_is_damage_and_leaks_nothing)
{
	struct profile_file file;
	struct profile_view view;
	size_t length;

	CHECK_DONE(profile_file_create(&file, rec_path("x.proton"), false, &err));
	profile_file_mark(&file, PROFILE_FILE_RECORDING, 0);
	char *bytes = read_file("x.proton", &length);
	struct file_header *header = (struct file_header *)(void *)bytes;
	header->tables[TABLE_VECTORS].id = TABLE_METRICS;
	CHECK_DONE(profile_view_open(&view, bytes, length, &err));
	CHECK(view.is_damaged);
	profile_view_fini(&view);
	free(bytes);
	profile_file_close(&file, true);
}

TEST(an_earlier_profile_is_moved_and_a_finished_one_comes_back)
{
	struct profile_file file;
	char moved[64];

	CHECK_DONE(profile_file_create(&file, rec_path("x.proton"), false, &err));
	add_nodes(&file, 3);
	profile_file_close(&file, false);
	CHECK_DONE(profile_file_create(&file, rec_path("x.proton"), false, &err));
	snprintf(moved, sizeof(moved), "x.%d.proton", (int)getpid());
	CHECK(rec_exists(moved));
	CHECK_STR(file.place.leftover, rec_path(moved));
	profile_file_mark(&file, PROFILE_FILE_FINISHED, 1);
	add_nodes(&file, 3);
	profile_file_close(&file, false);
	unlink(rec_path(moved));
	CHECK_DONE(profile_file_create(&file, rec_path("x.proton"), false, &err));
	CHECK_PTR(file.place.leftover, NULL);
	CHECK_STR(file.place.earlier, rec_path(moved));
	CHECK(rec_exists(moved));
	profile_file_close(&file, true);
	CHECK(rec_exists("x.proton"));
	CHECK(!rec_exists(moved));
	CHECK_DONE(profile_file_create(&file, rec_path("x.proton"), false, &err));
	working_file_drop_earlier(&file.place);
	CHECK(!rec_exists(moved));
	profile_file_close(&file, true);
	CHECK(!rec_exists("x.proton"));
}

TEST(a_file_that_another_process_writes_is_left_alone)
{
	struct profile_file file, other;
	struct proton_error err;

	CHECK_OK(profile_file_create(&file, rec_path("x.proton"), false, &err), err);
	add_nodes(&file, 3);
	CHECK_EQ(profile_file_create(&other, rec_path("x.proton"), false, &err), PROTON_E_BUSY);
	CHECK_HAS(err.text, "written by another process");
	CHECK(rec_exists("x.proton"));
	profile_file_close(&file, true);
}

TEST(a_file_that_is_not_a_profile_is_never_overwritten)
{
	struct profile_file file;
	struct proton_error err;
	size_t length;
	FILE *notes = fopen(rec_path("x.proton"), "w");

	CHECK(notes);
	fputs("my thesis", notes);
	fclose(notes);
	CHECK_EQ(profile_file_create(&file, rec_path("x.proton"), false, &err), PROTON_E_INVALID);
	CHECK_HAS(err.text, "is not a profile");
	char *bytes = read_file("x.proton", &length);
	CHECK_STR(bytes, "my thesis");
	free(bytes);
}

TEST(a_missing_directory_is_reported)
{
	struct profile_file file;
	struct proton_error err;

	CHECK_NE(profile_file_create(&file, rec_path("no/x.proton"), false, &err), PROTON_OK);
	CHECK_HAS(err.text, "cannot create");
	CHECK_HAS(err.text, "No such file or directory");
}

TEST(a_full_file_system_is_an_error_from_append)
{
	struct rlimit limit = {.rlim_cur = 4 << 20, .rlim_max = RLIM_INFINITY};
	struct profile_file file;
	uint64_t rows = 0;

	/* A file size limit simulates a full disk: fallocate fails. */
	CHECK_DONE(profile_file_create(&file, rec_path("x.proton"), false, &err));
	CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
	while (profile_file_append(&file, TABLE_NODES, 100))
		rows += 100;
	CHECK_EQ(file.errnum, EFBIG);
	CHECK_LE(1000, rows);
	profile_file_close(&file, true);
}
