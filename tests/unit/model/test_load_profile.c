/* model/load_profile: phases, cleared epochs and sums; invalid rows, in tables made by hand. */
#include "unit/tap.h"

#include "base/strings.h"
#include "model/load.h"

#define ROWS 32

/* A view over arrays that a test fills; strings come from a pool, as in a live session. */
static struct {
	struct strings strings;
	struct row_frame frames[ROWS];
	struct row_node nodes[ROWS];
	struct row_metric metrics[ROWS];
	struct row_value values[ROWS];
	struct row_kernel kernels[ROWS];
	struct row_histogram histograms[ROWS];
	uint64_t words[ROWS];
	struct row_device devices[ROWS];
	struct row_info info[ROWS];
	struct row_counter counters[ROWS];
	struct row_epoch epochs[ROWS];
	struct row_config configs[ROWS];
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

enum {
	METRIC_COUNT,
	METRIC_RATE,
	METRIC_NOTE,
	METRIC_VECTOR,
	METRIC_LEVEL
};

/* Frames f1 to f9, five metrics, devices CUDA 0 and 1; a node and an epoch: the root. */
static void set_up(void)
{
	static const struct row_metric metrics[] = {{0, PROTON_METRIC_INT64, 0},
						    {0, PROTON_METRIC_DOUBLE, METRIC_EXCLUSIVE},
						    {0, PROTON_METRIC_STRING, METRIC_PROPERTY},
						    {0, PROTON_METRIC_INT64_VECTOR, 0},
						    {0, PROTON_METRIC_INT64, METRIC_PROPERTY}};
	static const char *const names[] = {"items", "rate", "note", "vector", "level"};

	CHECK_EQ(strings_init(&t.strings, 1 << 20, NULL), PROTON_OK);
	for (uint32_t i = 1; i < 10; i++) {
		char name[3] = {'f', (char)('0' + i)};

		t.frames[i] = (struct row_frame){.kind = FRAME_NAME, .name = string(name)};
	}
	for (uint32_t i = 0; i < 5; i++) {
		t.metrics[i] = metrics[i];
		t.metrics[i].name = string(names[i]);
	}
	for (uint32_t i = 0; i < 2; i++)
		t.devices[i] = (struct row_device){
			.type = string("CUDA"), .id = i, .arch = string("90"), .processors = 132};
	SET_TABLE(TABLE_FRAMES, t.frames, 10);
	SET_TABLE(TABLE_NODES, t.nodes, 1);
	SET_TABLE(TABLE_METRICS, t.metrics, 5);
	SET_TABLE(TABLE_VALUES, t.values, 1);
	SET_TABLE(TABLE_KERNELS, t.kernels, 1);
	SET_TABLE(TABLE_HISTOGRAMS, t.histograms, 1);
	SET_TABLE(TABLE_VECTORS, t.words, 1);
	SET_TABLE(TABLE_DEVICES, t.devices, 2);
	SET_TABLE(TABLE_INFO, t.info, 0);
	SET_TABLE(TABLE_COUNTERS, t.counters, 0);
	SET_TABLE(TABLE_EPOCHS, t.epochs, 1);
	SET_TABLE(TABLE_CONFIGS, t.configs, 1);
	t.view.state = PROFILE_FILE_FINISHED;
}

static uint32_t add_node(uint32_t parent, uint32_t frame, uint32_t epoch)
{
	uint32_t id = (uint32_t)t.view.rows[TABLE_NODES]++;

	t.nodes[id] = (struct row_node){
		.parent = parent, .frame = frame, .first_epoch = epoch, .last_epoch = epoch};
	return id;
}

static struct row_value *add_value(uint32_t node, uint32_t metric, uint32_t epoch)
{
	uint32_t id = (uint32_t)t.view.rows[TABLE_VALUES]++;

	t.values[id] = (struct row_value){
		.next = t.nodes[node].first_value, .metric = metric, .epoch = epoch};
	t.nodes[node].first_value = id;
	return &t.values[id];
}

static struct row_kernel *add_kernel(uint32_t node, uint32_t device, uint32_t epoch, uint64_t ns)
{
	uint32_t id = (uint32_t)t.view.rows[TABLE_KERNELS]++;

	t.kernels[id] = (struct row_kernel){.next = t.nodes[node].first_kernel,
					    .device = device,
					    .epoch = epoch,
					    .count = 1,
					    .total_ns = ns,
					    .min_ns = ns,
					    .max_ns = ns};
	t.nodes[node].first_kernel = id;
	return &t.kernels[id];
}

static void add_config(uint32_t kernel, uint32_t flags, uint32_t blocks, uint64_t count)
{
	t.configs[t.view.rows[TABLE_CONFIGS]++] = (struct row_config){
		.count = count,
		.total_ns = 10 * count,
		.kernel = kernel,
		.flags = flags,
		.config = {.grid = {blocks, 1, 1}},
	};
}

static void add_epoch(uint32_t phase, uint32_t flags)
{
	t.epochs[t.view.rows[TABLE_EPOCHS]++] = (struct row_epoch){.phase = phase, .flags = flags};
}

static struct profile *load(uint32_t phase)
{
	struct profile *profile = NULL;

	t.view.table[TABLE_STRINGS] = t.strings.pool.base;
	t.view.rows[TABLE_STRINGS] = t.strings.used / 8;
	CHECK_DONE(profile_load_view(&t.view, phase, &profile, &err));
	return profile;
}

static const char *node_name(const struct profile *profile, uint32_t node)
{
	return profile_text(profile, profile->frames[profile->nodes[node].frame].name);
}

static const struct profile_value *value_of(const struct profile *profile, uint32_t node,
					    const char *name)
{
	for (uint32_t v = profile->nodes[node].first_value; v; v = profile->values[v].next)
		if (strcmp(profile_text(profile, profile->metrics[profile->values[v].metric].name),
			   name) == 0)
			return &profile->values[v];
	FAIL("node %u has no %s", node, name);
}

TEST(a_tree_of_only_a_root_loads)
{
	set_up();
	struct profile *profile = load(PHASE_ALL);
	CHECK_EQ(profile->node_count, 1);
	CHECK(!profile->is_damaged && !profile->is_unfinished);
	profile_free(profile);
	profile = load(0);
	CHECK_EQ(profile->node_count, 1);
	profile_free(profile);
}

TEST(an_empty_view_is_an_unfinished_root)
{
	struct profile_view view = {0};
	struct profile *profile;
	struct proton_error err;

	CHECK_OK(profile_load_view(&view, PHASE_ALL, &profile, &err), err);
	CHECK_EQ(profile->node_count, 1);
	CHECK(profile->is_unfinished);
	profile_free(profile);
	CHECK_EQ(profile_load_view(&view, 3, &profile, &err), PROTON_E_RANGE);
	CHECK_STR(err.text, "Phase 3 has no data.");
}

TEST(everything_is_carried_over)
{
	uint32_t a;

	set_up();
	t.frames[2] = (struct row_frame){
		.kind = FRAME_SOURCE, .name = string("fn"), .file = string("a.py"), .line = 7};
	t.frames[3].kind = FRAME_KERNEL;
	a = add_node(add_node(0, 1, 0), 2, 0);
	add_node(a, 3, 0);
	add_value(1, METRIC_COUNT, 0)->as.int64 = -5;
	add_value(1, METRIC_RATE, 0)->as.float64 = 0.5;
	add_value(1, METRIC_NOTE, 0)->as.string = string("text");
	t.words[1] = 2;
	t.words[2] = 8;
	t.words[3] = 9;
	t.view.rows[TABLE_VECTORS] = 4;
	add_value(1, METRIC_VECTOR, 0)->as.vector = 1;
	*add_kernel(3, 1, 0, 0) = (struct row_kernel){.device = 1,
						      .histogram = 1,
						      .count = 2,
						      .total_ns = 300,
						      .min_ns = 100,
						      .max_ns = 200};
	t.histograms[1].bucket[5] = 2;
	t.view.rows[TABLE_HISTOGRAMS] = 2;
	t.info[0] = (struct row_info){string("host"), string("m1")};
	t.view.rows[TABLE_INFO] = 1;
	t.counters[0] = (struct row_counter){string("dropped"), 1, 77};
	t.view.rows[TABLE_COUNTERS] = 1;
	t.view.start_ns = 11;
	t.view.end_ns = 12;
	struct profile *profile = load(PHASE_ALL);
	CHECK_EQ(profile->node_count, 4);
	CHECK_EQ(profile->nodes[3].parent, 2);
	CHECK_STR(node_name(profile, 1), "f1");
	CHECK_EQ(profile->frames[profile->nodes[2].frame].line, 7);
	CHECK_EQ(profile->frames[profile->nodes[3].frame].kind, FRAME_KERNEL);
	CHECK_EQ(value_of(profile, 1, "items")->as.int64, -5);
	CHECK_NEAR(value_of(profile, 1, "rate")->as.float64, 0.5, 0);
	CHECK_STR(profile_text(profile, value_of(profile, 1, "note")->as.string), "text");
	CHECK_U64(profile->words[value_of(profile, 1, "vector")->as.vector + 2], 9);
	CHECK_EQ(profile->metrics[value_of(profile, 1, "rate")->metric].flags, METRIC_EXCLUSIVE);
	CHECK_EQ(profile->kernels[1].device, 1);
	CHECK_U64(profile->kernels[1].max_ns, 200);
	CHECK_EQ(profile->histograms[profile->kernels[1].histogram].bucket[5], 2);
	CHECK_U64(profile->devices[1].processors, 132);
	CHECK_STR(profile_text(profile, profile->info[0].value), "m1");
	CHECK(profile->counters[0].is_loss);
	CHECK_U64(profile->end_ns, 12);
	CHECK(!profile->is_damaged);
	profile_free(profile);
}

/* Epochs 0: phase 0, 1: phase 1 cleared, 2: phase 1 again. f1 in all, f2 in 0, f3 in 1, f4 in 2. */
static void set_up_phases(void)
{
	set_up();
	add_epoch(1, EPOCH_CLEARED);
	add_epoch(1, 0);
	uint32_t f1 = add_node(0, 1, 0);
	t.nodes[f1].last_epoch = 2;
	add_node(f1, 2, 0);
	add_node(f1, 3, 1);
	add_node(f1, 4, 2);
	for (uint32_t epoch = 0; epoch < 3; epoch++) {
		int64_t amount = epoch == 0 ? 1 : epoch == 1 ? 10 : 100;

		add_value(f1, METRIC_COUNT, epoch)->as.int64 = amount;
		add_value(f1, METRIC_LEVEL, epoch)->as.int64 = amount;
		add_kernel(f1, 0, epoch, (uint64_t)amount * 1000);
	}
}

TEST(a_phase_takes_its_epochs)
{
	set_up_phases();
	struct profile *profile = load(1);
	CHECK_EQ(profile->node_count, 3);
	CHECK_STR(node_name(profile, 1), "f1");
	CHECK_STR(node_name(profile, 2), "f4");
	CHECK_EQ(value_of(profile, 1, "items")->as.int64, 100);
	CHECK_EQ(profile->kernel_count, 2);
	CHECK_U64(profile->kernels[1].total_ns, 100000);
	CHECK(!profile->is_damaged);
	profile_free(profile);
	profile = load(0);
	CHECK_EQ(profile->node_count, 3);
	CHECK_STR(node_name(profile, 2), "f2");
	CHECK_EQ(value_of(profile, 1, "items")->as.int64, 1);
	profile_free(profile);
}

TEST(all_phases_are_summed_without_what_was_cleared)
{
	set_up_phases();
	struct profile *profile = load(PHASE_ALL);
	CHECK_EQ(profile->node_count, 4);
	CHECK_STR(node_name(profile, 2), "f2");
	CHECK_STR(node_name(profile, 3), "f4");
	CHECK_EQ(value_of(profile, 1, "items")->as.int64, 101);
	CHECK_EQ(value_of(profile, 1, "level")->as.int64, 100); /* a property: the last */
	CHECK_EQ(profile->kernel_count, 2);
	CHECK_U64(profile->kernels[1].count, 2);
	CHECK_U64(profile->kernels[1].total_ns, 101000);
	CHECK_U64(profile->kernels[1].min_ns, 1000);
	CHECK_U64(profile->kernels[1].max_ns, 100000);
	CHECK_EQ(profile->histograms[profile->kernels[1].histogram].bucket[histogram_bucket(1000)],
		 1);
	CHECK_EQ(
		profile->histograms[profile->kernels[1].histogram].bucket[histogram_bucket(100000)],
		1);
	profile_free(profile);
}

TEST(configurations_are_summed_over_the_epochs_of_their_kernel)
{
	set_up_phases();
	CHECK_EQ(t.kernels[2].epoch, 1); /* cleared */
	add_config(1, 0, 8, 3);
	add_config(2, 0, 8, 4);
	add_config(3, 0, 8, 5);
	add_config(1, CONFIG_OTHER, 0, 2);
	add_config(1, 0, 9, 1);
	add_config(0, 0, 8, 7);     /* unused */
	add_config(1, 0, 10, 0);    /* has not run */
	add_config(1000, 0, 10, 1); /* invalid */
	struct profile *profile = load(PHASE_ALL);
	CHECK(profile->is_damaged);
	const struct row_config *launch = &profile->configs[profile->kernels[1].first_config];
	CHECK_U64(launch->config.grid[0], 8);
	CHECK_U64(launch->count, 8); /* not the 4 of the cleared epoch */
	CHECK_U64(launch->total_ns, 80);
	launch = &profile->configs[launch->next];
	CHECK_U64(launch->config.grid[0], 9);
	CHECK_U64(launch->count, 1);
	launch = &profile->configs[launch->next];
	CHECK_EQ(launch->flags, CONFIG_OTHER);
	CHECK_U64(launch->count, 2);
	CHECK_U64(launch->next, 0);
	profile_free(profile);
	profile = load(1);
	launch = &profile->configs[profile->kernels[1].first_config];
	CHECK_U64(launch->count, 5);
	CHECK_U64(launch->next, 0);
	profile_free(profile);
}

TEST(a_missing_phase_has_no_data)
{
	struct profile *profile;
	struct proton_error err;

	set_up_phases();
	t.view.rows[TABLE_STRINGS] = 1;
	CHECK_EQ(profile_load_view(&t.view, 2, &profile, &err), PROTON_E_RANGE);
	CHECK_STR(err.text, "Phase 2 has no data.");
	t.epochs[2].flags = EPOCH_CLEARED;
	CHECK_EQ(profile_load_view(&t.view, 1, &profile, &err), PROTON_E_RANGE);
}

TEST(a_node_entered_in_between_belongs_to_the_phase)
{
	set_up();
	add_epoch(1, 0);
	add_epoch(2, 0);
	uint32_t node = add_node(add_node(0, 1, 0), 2, 0);
	t.nodes[node].last_epoch = 2;
	struct profile *profile = load(1);
	CHECK_EQ(profile->node_count, 1);
	profile_free(profile);
	add_value(node, METRIC_ENTERED, 1);
	profile = load(1);
	CHECK_EQ(profile->node_count, 3);
	CHECK_EQ(profile->value_count, 1);
	CHECK(!profile->is_damaged);
	profile_free(profile);
}

TEST(vectors_are_added_element_by_element)
{
	uint32_t vector;

	set_up();
	add_epoch(0, 0);
	add_node(0, 1, 0);
	for (uint32_t i = 0; i < 3; i++) {
		t.words[1 + 3 * i] = 2;
		t.words[2 + 3 * i] = i + 1;
		t.words[3 + 3 * i] = 10 * (i + 1);
		add_value(1, METRIC_VECTOR, i % 2)->as.vector = 1 + 3 * i;
	}
	t.view.rows[TABLE_VECTORS] = 10;
	struct profile *profile = load(0);
	vector = value_of(profile, 1, "vector")->as.vector;
	CHECK_U64(profile->words[vector], 2);
	CHECK_U64(profile->words[vector + 1], 6);
	CHECK_U64(profile->words[vector + 2], 60);
	CHECK_EQ(profile->value_count, 2);
	profile_free(profile);
}

TEST(a_kernel_that_was_made_but_has_not_run_is_left_out)
{
	set_up();
	add_node(0, 1, 0);
	*add_kernel(1, 0, 0, 0) = (struct row_kernel){.min_ns = UINT64_MAX};
	struct profile *profile = load(PHASE_ALL);
	CHECK_EQ(profile->kernel_count, 1);
	CHECK(!profile->is_damaged);
	profile_free(profile);
}

/* ------------------------------------------------------------------ rows that lie */

static struct profile *load_damaged(void)
{
	struct profile *profile = load(PHASE_ALL);

	CHECK(profile->is_damaged);
	return profile;
}

TEST(parents_must_come_first)
{
	set_up();
	add_node(2, 1, 0);
	add_node(1, 2, 0); /* its parent is dropped, so it is too */
	add_node(3, 3, 0); /* its own parent */
	add_node(UINT32_MAX, 4, 0);
	add_node(0, 5, 0);
	struct profile *profile = load_damaged();
	CHECK_EQ(profile->node_count, 2);
	CHECK_STR(node_name(profile, 1), "f5");
	profile_free(profile);
}

TEST(cyclic_lists_end)
{
	set_up();
	add_node(0, 1, 0);
	add_node(0, 2, 0);
	add_value(1, METRIC_COUNT, 0)->as.int64 = 1;
	add_value(1, METRIC_COUNT, 0)->as.int64 = 1;
	t.values[1].next = 2;
	t.nodes[2].first_value = 1; /* and a list that two nodes claim */
	add_kernel(1, 0, 0, 5)->next = 1;
	t.nodes[2].first_kernel = 1;
	struct profile *profile = load_damaged();
	CHECK_EQ(value_of(profile, 1, "items")->as.int64, 2);
	CHECK_U64(profile->kernels[1].count, 1);
	CHECK_EQ(profile->nodes[2].first_value, 0);
	CHECK_EQ(profile->nodes[2].first_kernel, 0);
	profile_free(profile);
}

TEST(indices_outside_their_tables_are_dropped)
{
	set_up();
	add_node(0, 99, 0);
	t.nodes[1].first_value = 77;
	t.nodes[1].first_kernel = 77;
	add_node(0, 1, 0);
	add_value(2, 99, 0);
	add_value(2, METRIC_VECTOR, 0)->as.vector = 31;
	t.words[1] = UINT64_MAX;
	t.view.rows[TABLE_VECTORS] = 2;
	add_value(2, METRIC_VECTOR, 0)->as.vector = 1;
	add_value(2, METRIC_NOTE, 0)->as.string = UINT64_MAX;
	add_kernel(2, 9, 0, 1);
	add_kernel(2, 0, 0, 1)->histogram = 9;
	add_kernel(2, 0, 9, 1); /* an unknown epoch; all are selected, so it counts */
	t.devices[1].type = 0xffffff;
	t.frames[1].name = 0xffffff;
	struct profile *profile = load_damaged();
	CHECK_EQ(profile->node_count, 3);
	CHECK_STR(node_name(profile, 1), "<unknown>");
	CHECK_STR(node_name(profile, 2), "");
	CHECK_U64(profile->words[value_of(profile, 2, "vector")->as.vector], 0);
	CHECK_STR(profile_text(profile, value_of(profile, 2, "note")->as.string), "");
	CHECK_EQ(profile->kernel_count, 2);
	CHECK_U64(profile->kernels[1].count, 2);
	profile_free(profile);
}

TEST(metrics_of_unknown_type_are_dropped)
{
	set_up();
	t.metrics[METRIC_COUNT].type = 77;
	add_node(0, 1, 0);
	add_value(1, METRIC_COUNT, 0)->as.int64 = 5;
	add_value(1, METRIC_RATE, 0)->as.float64 = 5;
	struct profile *profile = load_damaged();
	CHECK_EQ(profile->value_count, 2);
	CHECK_NEAR(value_of(profile, 1, "rate")->as.float64, 5, 0);
	profile_free(profile);
}

TEST(a_vector_that_many_claim_is_copied_once)
{
	set_up();
	for (uint32_t i = 0; i < 20; i++)
		add_value(add_node(0, 1, 0), METRIC_VECTOR, 0)->as.vector = 1;
	t.words[1] = 30;
	t.view.rows[TABLE_VECTORS] = 32;
	struct profile *profile = load_damaged();
	CHECK_LE(profile->word_count, 64);
	profile_free(profile);
}

TEST(sums_stay_at_their_limits)
{
	set_up();
	add_epoch(0, 0);
	add_node(0, 1, 0);
	for (uint32_t epoch = 0; epoch < 2; epoch++) {
		add_value(1, METRIC_COUNT, epoch)->as.int64 = INT64_MAX;
		*add_kernel(1, 0, epoch, 1) = (struct row_kernel){.next = epoch,
								  .epoch = epoch,
								  .histogram = 1 + epoch,
								  .count = UINT64_MAX,
								  .total_ns = UINT64_MAX};
		t.histograms[1 + epoch].bucket[3] = UINT32_MAX;
	}
	t.view.rows[TABLE_HISTOGRAMS] = 3;
	struct profile *profile = load(0);
	CHECK_EQ(value_of(profile, 1, "items")->as.int64, INT64_MAX);
	CHECK_U64(profile->kernels[1].total_ns, UINT64_MAX);
	CHECK_EQ(profile->histograms[profile->kernels[1].histogram].bucket[3], UINT32_MAX);
	CHECK(!profile->is_damaged);
	profile_free(profile);
}
