/*
 * model/load_samples: PC samples of unknown launches are divided by the time of their function, and
 * damaged rows. The tables are arrays of this file, filled by hand.
 */
#include "unit/recorded.h"

#include "base/strings.h"
#include "model/samples.h"

#define ROWS 8

/* Two kernels below the root, "mm" of two code objects, and samples of the first. */
static struct {
	struct strings strings;
	struct row_frame frames[ROWS];
	struct row_node nodes[ROWS];
	struct row_kernel kernels[ROWS];
	struct row_device devices[1];
	struct row_epoch epochs[1];
	struct row_function functions[ROWS];
	struct row_run runs[ROWS];
	struct row_pc pcs[ROWS];
	struct profile_view view;
} t;

static uint32_t string(const char *text)
{
	return strings_add(&t.strings, text, strlen(text));
}

#define SET_TABLE(id, array, count)                                                                \
	do {                                                                                       \
		t.view.table[id] = (array);                                                        \
		t.view.rows[id] = (count);                                                         \
	} while (0)

/* The first function has no known code object. */
static void set_up(uint64_t second_crc)
{
	CHECK_EQ(strings_init(&t.strings, 1 << 20, NULL), PROTON_OK);
	for (uint32_t i = 1; i <= 2; i++) {
		t.frames[i] = (struct row_frame){.kind = FRAME_KERNEL,
						 .name = string(i == 1 ? "a" : "b")};
		t.nodes[i] = (struct row_node){.frame = i, .first_kernel = i};
		t.kernels[i] = (struct row_kernel){.count = 1, .total_ns = 100};
		t.functions[i] =
			(struct row_function){.crc = i == 1 ? 0 : second_crc, .name = string("mm")};
	}
	t.runs[1] = (struct row_run){.kernel = 1, .function = 1, .sampled_ns = 30};
	t.runs[2] = (struct row_run){.kernel = 2, .function = 2, .sampled_ns = 10};
	t.pcs[1] = (struct row_pc){
		.function = 1, .offset = 16, .reason = string("wait"), .samples = 100};
	SET_TABLE(TABLE_FRAMES, t.frames, 3);
	SET_TABLE(TABLE_NODES, t.nodes, 3);
	SET_TABLE(TABLE_KERNELS, t.kernels, 3);
	SET_TABLE(TABLE_DEVICES, t.devices, 1);
	SET_TABLE(TABLE_EPOCHS, t.epochs, 1);
	SET_TABLE(TABLE_FUNCTIONS, t.functions, 3);
	SET_TABLE(TABLE_RUNS, t.runs, 3);
	SET_TABLE(TABLE_PCS, t.pcs, 2);
	t.view.state = PROFILE_FILE_FINISHED;
}

static struct profile *load(void)
{
	struct profile *profile = NULL;

	t.view.table[TABLE_STRINGS] = t.strings.pool.base;
	t.view.rows[TABLE_STRINGS] = t.strings.used / 8;
	CHECK_DONE(profile_load_view(&t.view, PHASE_ALL, &profile, &err));
	return profile;
}

static int64_t samples_of(const struct profile *profile, const char *path)
{
	const struct profile_value *value = rec_value(profile, path, SAMPLES_ALL);

	return value ? value->as.int64 : -1;
}

TEST(function_without_a_code_object_ran_wherever_its_name_did)
{
	set_up(5);
	struct profile *profile = load();
	CHECK(!profile->is_damaged);
	CHECK_EQ(samples_of(profile, "a"), 75);
	CHECK_EQ(samples_of(profile, "b"), 25);
	CHECK_U64(profile->samples->functions[0].samples, 100);
	CHECK_U64(profile->samples->functions[0].apportioned, 100);
	profile_free(profile);
}

TEST(function_of_a_code_object_ran_where_that_did_or_where_none_is_known)
{
	set_up(5);
	t.functions[1].crc = 7;
	struct profile *profile = load();
	CHECK_EQ(samples_of(profile, "a"), 100);
	CHECK_EQ(samples_of(profile, "b"), 0);
	profile_free(profile);
	t.functions[2].crc = 0;
	profile = load();
	CHECK_EQ(samples_of(profile, "a"), 75);
	CHECK_EQ(samples_of(profile, "b"), 25);
	profile_free(profile);
}

TEST(run_of_a_kernel_or_function_that_is_not_there_is_damage)
{
	for (int i = 0; i < 2; i++) {
		struct profile *profile;

		set_up(0);
		if (i == 0)
			t.runs[1].kernel = 3;
		else
			t.runs[1].function = 3;
		profile = load();
		CHECK(profile->is_damaged);
		CHECK_EQ(samples_of(profile, "a"), -1);
		CHECK_EQ(samples_of(profile, "b"), 100);
		profile_free(profile);
		strings_fini(&t.strings);
	}
}

TEST(kernels_that_ran_without_a_sample_have_the_number_0)
{
	set_up(5);
	t.view.rows[TABLE_PCS] = 1;
	struct profile *profile = load();
	CHECK(!profile->is_damaged && !profile->samples);
	CHECK_EQ(samples_of(profile, "a"), 0);
	CHECK_EQ(samples_of(profile, "b"), 0);
	profile_free(profile);
	/* The other one did not run while PCs were sampled. */
	t.view.rows[TABLE_RUNS] = 2;
	profile = load();
	CHECK_EQ(samples_of(profile, "a"), 0);
	CHECK_EQ(samples_of(profile, "b"), -1);
	profile_free(profile);
}
