/* format/pack and profile_view: coding of tables, and files that are cut, corrupt or older. */
#include "unit/recorded.h"

#include "format/pack.h"

static uint64_t random_word(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Packs and unpacks; returns the packed size. */
static size_t check_rows(const void *rows, uint64_t count, uint64_t columns)
{
	size_t bytes = count * pack_columns_bytes(columns);
	char *back = calloc(1, bytes + 1);
	struct out out;
	size_t length;
	char *exact; /* ASan sees a read past it */

	out_init(&out, -1);
	pack_rows(&out, rows, count, columns);
	char *packed = out_take(&out, &length);
	exact = malloc(length ? length : 1);
	CHECK(packed && back && exact);
	memcpy(exact, packed, length);
	free(packed);
	packed = exact;
	CHECK(!length || unpack_rows(back, count, columns, packed, length - 1) < count);
	memset(back, 0, bytes);
	CHECK(unpack_is_possible(count, columns, length));
	CHECK_U64(unpack_rows(back, count, columns, packed, length), count);
	CHECK_EQ(memcmp(back, rows, bytes), 0);
	free(packed);
	free(back);
	return length;
}

TEST(unpacked_rows_equal_those_that_were_packed)
{
	const uint64_t columns = 0x2211; /* u32, u32, u64, u64 */
	static const uint64_t counts[] = {0, 1, 2, 127, 128, 129, 1023, 1024, 1025, 20000};
	uint64_t state = 88172645463325252ull;

	for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
		for (int kind = 0; kind < 6; kind++) {
			uint32_t *rows = calloc(counts[c] + 1, 24);

			for (uint64_t i = 0; i < counts[c] * 6; i++) {
				uint64_t word = random_word(&state);

				rows[i] = kind == 0   ? 0
					  : kind == 1 ? (uint32_t)word
					  : kind == 2 ? (uint32_t)i
					  : kind == 3 ? UINT32_MAX
					  : kind == 4 ? (uint32_t)(word % 16 ? 0 : word >> 32)
						      : (uint32_t)(counts[c] - i);
			}
			check_rows(rows, counts[c], columns);
			free(rows);
		}
	}
}

/* Numbers of 1 to 10 bytes in all positions before the end of the input. */
TEST(numbers_of_all_lengths_are_unpacked_until_the_last_byte)
{
	enum {
		COUNT = 64
	};

	for (uint32_t bits = 1; bits <= 64; bits++) {
		uint64_t rows[COUNT];

		for (uint32_t i = 0; i < COUNT; i++)
			rows[i] = (i % 3 ? UINT64_MAX : 0xa5a5a5a5a5a5a5a5u) >> (64 - bits) >>
				  (i % 7 == 6 ? bits / 2 : 0);
		for (uint64_t count = 1; count <= COUNT; count++)
			check_rows(rows, count, 0x2);
	}
}

TEST(columns_of_trees_take_a_few_bytes)
{
	enum {
		COUNT = 10000
	};
	static uint32_t rows[COUNT][4];
	static double numbers[COUNT];

	for (uint32_t i = 0; i < COUNT; i++) {
		rows[i][0] = i / 7;         /* a parent */
		rows[i][1] = i + 5;         /* the next row of another table */
		rows[i][2] = 12345;         /* always the same */
		rows[i][3] = 12345 + i % 3; /* near the column before */
		numbers[i] = 1 + i % 50 * 0.5;
	}
	CHECK_LE(check_rows(rows, COUNT, 0x1111), COUNT * 5 / 2);
	CHECK_LE(check_rows(numbers, COUNT, 0x2), COUNT * 3 + 200);
}

TEST(columns_that_are_not_valid_are_refused)
{
	char row[256] = {0};

	CHECK_EQ(pack_columns_bytes(0), 0);
	CHECK_EQ(pack_columns_bytes(3), 0);
	CHECK_EQ(pack_columns_bytes(0x21), 12);
	CHECK_EQ(pack_columns_bytes(UINT64_MAX), 0);
	CHECK_EQ(unpack_rows(row, 1, 0, "\0\0", 2), 0);
	CHECK_EQ(unpack_rows(row, 1, 0x1, "\x06\0", 2), 0);         /* unknown transform */
	CHECK_EQ(unpack_rows(row, 1, 0x1, "\x04\0", 2), 0);         /* nothing before it */
	CHECK_EQ(unpack_rows(row, 1, 0x1, "\0\x01", 2), 0);         /* too long a run */
	CHECK_EQ(unpack_rows(row, 1, 0x1, "\0\x80", 2), 0);         /* no number */
	CHECK_EQ(unpack_rows(row, 1, 0x1, "\0\x80\xff\xff", 4), 0); /* half a number */
	CHECK_EQ(unpack_rows(row, 1, 0x1, "\0\x80\x07", 3), 1);
	CHECK_EQ(row[0], 7);
	CHECK(!unpack_is_possible(UINT64_MAX, 0x1, 1000));
	CHECK(!unpack_is_possible(1000000, 0x1, 1000));
}

TEST(unpacked_strings_equal_those_that_were_packed)
{
	static const char *const texts[] = {"", "operator_1", "operator_12", "",
					    "", "x",          "operator_12"};
	char bytes[512] = {0};
	char back[512] = {0};
	struct out out;
	size_t length = 0;
	size_t packed_length;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		size_t text = strlen(texts[i]);

		string_write(bytes + length, string_entry_bytes(text), texts[i], text);
		length += string_entry_bytes(text);
	}
	out_init(&out, -1);
	CHECK(pack_strings(&out, bytes, length));
	char *packed = out_take(&out, &packed_length);
	CHECK_EQ(packed_length, 2 * 7 + 10 + 1 + 1 + 11);
	CHECK_U64(unpack_strings(back, length, packed, packed_length), length);
	CHECK_EQ(memcmp(back, bytes, length), 0);
	/* less room, or fewer bytes: the complete entries */
	for (size_t cut = 0; cut < packed_length; cut++) {
		memset(back, 0, sizeof(back));
		CHECK_LE(unpack_strings(back, length, packed, cut), length);
	}
	CHECK_U64(unpack_strings(back, 8 + 16, packed, packed_length), 24);
	free(packed);
	bytes[8 + 15] = 1; /* not the zeros after a text */
	out_init(&out, -1);
	CHECK(!pack_strings(&out, bytes, length));
	out_fini(&out);
}

/* A session like that of a training step: scopes and kernels that ran several times. */
static char *record(size_t kernels, size_t *length)
{
	char *bytes;

	REC_START(.name = rec_path("x"));
	for (int run = 0; run < 3; run++) {
		for (size_t i = 0; i < kernels; i++) {
			char name[64];
			uint64_t token;

			snprintf(name, sizeof(name), "operator_%zu", i);
			token = proton_scope_enter(name);
			proton_kernel_begin(proton_frame("kernel", 6));
			proton_kernel_end();
			proton_scope_exit(token, NULL);
		}
	}
	CHECK_DONE(proton_finalize(PROTON_ALL_SESSIONS, "proton", &err));
	CHECK_DONE(file_read_all(rec_path("x.proton"), NULL, &bytes, length, &err));
	return bytes;
}

TEST(finished_file_takes_at_most_20_kilobytes_and_30_bytes_a_node)
{
	size_t length;

	free(record(10, &length));
	CHECK_LE(length, 20480 + 20 * 30);
	free(record(5000, &length));
	CHECK_LE(length, 20480 + 10000 * 30);
}

TEST(every_cut_of_a_finished_file_is_read_as_far_as_it_goes_or_refused)
{
	struct profile_view view;
	struct proton_error err;
	size_t length;
	char *bytes = record(5000, &length);
	uint64_t last = 0;

	for (size_t cut = 0; cut < length; cut += cut < 2000 ? 7 : 997) {
		char *piece = malloc(cut + 1); /* exact: ASan sees a read past it */
		int status;

		memcpy(piece, bytes, cut);
		status = profile_view_open(&view, piece, cut, &err);
		CHECK(status == PROTON_OK || status == PROTON_E_FORMAT);
		if (status == PROTON_OK) {
			CHECK(view.is_damaged);
			CHECK_LE(last, view.rows[TABLE_NODES]);
			last = view.rows[TABLE_NODES];
			profile_view_fini(&view);
		}
		free(piece);
	}
	CHECK_U64(last, 10001);
	free(bytes);
}

TEST(corrupt_bytes_are_read_without_harm)
{
	struct profile_view view;
	struct proton_error err;
	uint64_t state = 2463534242;
	size_t length;
	char *bytes = record(40, &length);

	for (int i = 0; i < 2000; i++) {
		size_t at = random_word(&state) % length;
		char before = bytes[at];

		bytes[at] = (char)random_word(&state);
		if (profile_view_open(&view, bytes, length, &err) == PROTON_OK)
			profile_view_fini(&view);
		bytes[at] = before;
	}
	free(bytes);
}

TEST(rows_of_a_later_version_are_shortened)
{
	struct packed_header header = {.magic = PROFILE_FILE_MAGIC,
				       .major = PACKED_FILE_MAJOR,
				       .minor = 9,
				       .state = PROFILE_FILE_FINISHED,
				       .table_count = 2};
	static const uint32_t metrics[2][3] = {{1, 2, 3}, {4, 5, 6}};
	struct packed_table tables[2] = {
		{.id = TABLE_METRICS, .row_bytes = 12, .rows = 2, .columns = 0x111},
		{.id = 1000, .row_bytes = 4, .rows = 1, .columns = 0x77},
	};
	struct profile_view view;
	struct out data, out;

	out_init(&data, -1);
	pack_rows(&data, metrics, 2, 0x111);
	tables[0].offset = sizeof(header) + sizeof(tables);
	tables[0].bytes = data.length;
	out_init(&out, -1);
	out_bytes(&out, &header, sizeof(header));
	out_bytes(&out, tables, sizeof(tables));
	out_bytes(&out, data.bytes, data.length);
	CHECK_DONE(profile_view_open(&view, out.bytes, out.length, &err));
	CHECK(!view.is_damaged);
	CHECK_U64(view.rows[TABLE_METRICS], 2);
	const uint32_t *rows = view.table[TABLE_METRICS];
	CHECK(rows[0] == 1 && rows[1] == 2 && rows[2] == 4 && rows[3] == 5);
	profile_view_fini(&view);
	out_fini(&data);
	out_fini(&out);
}
