/*
 * PC sampling of the rocprofiler backend over a fake library: the choice of a configuration, the
 * launch and the line of each sample, and what is lost. The code is tests/fuzz/corpus/line_table.
 */
#include "unit/cuda/cuda_session.h"

#include "model/samples.h"
#include "symbol/code_object.h"

#define BETA "ROCPROFILER_PC_SAMPLING_BETA_ENABLED"
#define ISSUED 16u
#define WAITCNT 3u
#define NOT_WON 6u

static char *code;
static size_t code_length;
static uint64_t loaded; /* the id of the loaded code */

static void prepare(void)
{
	char path[512];

	if (code)
		return;
	load_fake();
	snprintf(path, sizeof(path), "%s/fuzz/corpus/line_table/amd_dwarf_5", TESTS_DIR);
	CHECK_DONE(file_read_all(path, NULL, &code, &code_length, &err));
}

static void load_code(void)
{
	loaded = sdk.load_code("kern", code, code_length, NULL);
}

/* A session; in the mode "pcsampling" it samples PCs. */
static void begin(const char *mode)
{
	prepare();
	setenv(BETA, "1", 1);
	start_options((struct proton_session_options){.mode = mode});
}

/* The same, and the code is loaded. */
static void begin_loaded(void)
{
	begin("pcsampling");
	load_code();
}

static uint64_t address_of(const char *function, uint64_t pc)
{
	struct code_object_section section;
	struct code_object object;

	CHECK_EQ(code_object_open(&object, code, code_length, NULL), PROTON_OK);
	const struct code_object_function *found =
		&object.functions[code_object_function_find(&object, function)];
	CHECK(code_object_section_get(&object, found->section, &section));
	uint64_t address = section.address + found->offset + pc;
	code_object_close(&object);
	return address;
}

static void launch_in(const char *name)
{
	uint64_t scope = proton_scope_enter(name);

	launch_ns("kern", 100);
	proton_scope_exit(scope, NULL);
}

static void sample_of(uint64_t from, uint64_t dispatch, const char *function, uint64_t pc,
		      uint32_t reason, uint32_t count)
{
	CHECK_EQ(sdk.sample(&(struct fake_sample){
			 .dispatch_id = dispatch,
			 .code_object = from,
			 .address = address_of(function, pc),
			 .reason = reason,
			 .count = count,
		 }),
		 count);
}

/* Samples of the latest dispatch, at the first instruction of the kernel. */
static void sample(uint32_t reason, uint32_t count)
{
	sample_of(loaded, sdk.last_dispatch(), "kern", 0, reason, count);
}

/* A launch with five of them. */
static void launch_sampled(void)
{
	launch_ns("kern", 100);
	sample(WAITCNT, 5);
}

static int64_t value_of(const struct profile *profile, uint32_t node, const char *name)
{
	for (uint32_t v = profile->nodes[node].first_value; v; v = profile->values[v].next)
		if (strcmp(profile_text(profile, profile->metrics[profile->values[v].metric].name),
			   name) == 0)
			return profile->values[v].as.int64;
	return 0;
}

/* "NAME=SAMPLES{children}" or "LINE@NAME=..." of the nodes with samples below a node. */
static void append_nodes(const struct profile *profile, uint32_t node, struct out *out)
{
	for (uint32_t i = profile->nodes[node].first_child; i; i = profile->nodes[i].next_sibling) {
		const struct row_frame *frame = &profile->frames[profile->nodes[i].frame];
		int64_t samples = value_of(profile, i, SAMPLES_ALL);

		out_byte(out, ' ');
		if (frame->kind == FRAME_SOURCE)
			out_printf(out, "%" PRIu32 "@", frame->line);
		out_text(out, profile_text(profile, frame->name));
		if (samples)
			out_printf(out, "=%" PRId64, samples);
		if (profile->nodes[i].first_child) {
			out_byte(out, '{');
			append_nodes(profile, i, out);
			out_text(out, " }");
		}
	}
}

static const char *tree_of(const struct profile *profile)
{
	static struct out out;

	out_init(&out, -1);
	append_nodes(profile, 0, &out);
	out_byte(&out, '\0');
	return out.bytes;
}

/* The session's end. */
static void expect_tree(const char *tree)
{
	CHECK_STR(tree_of(finish()), tree);
}

/* The node of a line with so many samples. */
static uint32_t find_line(const struct profile *profile, uint32_t line, int64_t samples)
{
	for (uint32_t i = 1; i < profile->node_count; i++)
		if (profile->frames[profile->nodes[i].frame].line == line &&
		    value_of(profile, i, SAMPLES_ALL) == samples)
			return i;
	FAIL("no line %u", line);
}

static uint64_t counter(const struct profile *profile, const char *name)
{
	for (size_t i = 0; i < profile->counter_count; i++)
		if (strcmp(profile_text(profile, profile->counters[i].name), name) == 0)
			return profile->counters[i].value;
	return 0;
}

/* ------------------------------------------------------------------ samples */

TEST(samples_belong_to_their_launch_and_line)
{
	begin_loaded();
	launch_in("one");
	sample(WAITCNT, 5);
	sample(ISSUED, 2);
	launch_in("two");
	sample(NOT_WON, 3);
	/* A function that the kernel calls is below the kernel, too. */
	sample_of(loaded, sdk.last_dispatch(), "out", 0, WAITCNT, 4);
	struct profile *profile = finish();
	CHECK_STR(tree_of(profile), " one{ kern{ 6@kern=7 } } two{ kern{ 4@out=4 6@kern=3 } }");
	uint32_t line = find_line(profile, 6, 7);
	CHECK_EQ(value_of(profile, line, "num_stalled_samples"), 5);
	CHECK_EQ(value_of(profile, line, "stalled_waitcnt"), 5);
	CHECK_EQ(value_of(profile, line, "stalled_selected"), 2);
	CHECK_EQ(value_of(profile, line, "num_samples_apportioned"), 0);
	CHECK_U64(counter(profile, "PC samples"), 14);
	CHECK_STR(rec_info(profile, "pc_sampling"), "stochastic");
	CHECK_STR(rec_info(profile, "pc_sampling_interval"), "131072");
	CHECK_STR(rec_info(profile, "pc_sampling_unit"), "cycles");
	CHECK_U64(profile->samples->code_object_count, 1);
}

TEST(samples_wait_for_the_record_of_their_dispatch)
{
	begin_loaded();
	fake.hold(true);
	launch_in("one");
	uint64_t dispatch = sdk.last_dispatch();
	/* The next dispatch's record comes first, and neither is there when the samples come. */
	launch_ns("kern", 100);
	sample_of(loaded, dispatch, "kern", 0, WAITCNT, 5);
	sample_of(loaded, dispatch + 1, "kern", 0, WAITCNT, 7);
	fake.hold(false);
	expect_tree(" one{ kern{ 6@kern=5 } } kern{ 6@kern=7 }");
}

/* Two kernels, captured in two scopes. The executable graph. */
static uint32_t make_graph(void)
{
	uint32_t graph = fake.graph_create();

	fake.call(CUPTI_CALL_BEGIN_CAPTURE, 0);
	uint64_t scope = proton_scope_enter("first");
	fake.graph_capture_kernel(graph, "kern");
	proton_scope_exit(scope, NULL);
	scope = proton_scope_enter("second");
	fake.graph_capture_kernel(graph, "kern");
	proton_scope_exit(scope, NULL);
	fake.call(CUPTI_CALL_END_CAPTURE, 0);
	return fake.graph_instantiate(graph);
}

/* Samples of both kernels of the latest replay. */
static void sample_replay(uint32_t first, uint32_t second)
{
	sample_of(loaded, sdk.last_dispatch() - 1, "kern", 0, WAITCNT, first);
	sample(WAITCNT, second);
}

/* A replay in a scope, and its samples. */
static void replay_in(const char *name, uint32_t exec, uint32_t first, uint32_t second)
{
	uint64_t scope = proton_scope_enter(name);

	fake.graph_launch(exec, "kern", true);
	sample_replay(first, second);
	proton_scope_exit(scope, NULL);
}

TEST(samples_of_a_replay_belong_to_its_kernels_where_they_were_captured)
{
	begin_loaded();
	uint32_t exec = make_graph();
	replay_in("one", exec, 1, 2);
	replay_in("two", exec, 4, 8);
	struct profile *profile = finish();
	CHECK_STR(tree_of(profile),
		  " first second"
		  " one{ <captured_at>{ first{ kern{ 6@kern=1 } } second{ kern{ 6@kern=2 } } } }"
		  " two{ <captured_at>{ first{ kern{ 6@kern=4 } } second{ kern{ 6@kern=8 } } } }");
	CHECK_U64(counter(profile, "PC samples"), 15);
}

TEST(samples_of_a_graph_that_was_changed_by_hand_are_below_its_launch)
{
	begin_loaded();
	uint32_t graph = fake.graph_create();
	fake.graph_capture_kernel(graph, "kern");
	fake.graph_add_kernel(graph);
	replay_in("one", fake.graph_instantiate(graph), 3, 5);
	expect_tree(" one{ kern{ 6@kern=8 } }");
}

TEST(samples_of_a_paused_replay_are_not_added)
{
	begin_loaded();
	uint32_t exec = make_graph();
	uint64_t scope = proton_scope_enter("one");
	proton_deactivate(0, false, NULL);
	fake.graph_launch(exec, "kern", true);
	sample_replay(3, 5);
	proton_activate(0, NULL);
	launch_ns("kern", 100);
	sample(WAITCNT, 2);
	proton_scope_exit(scope, NULL);
	expect_tree(" first second one{ kern{ 6@kern=2 } }");
}

TEST(samples_without_a_launch_are_not_added_to_another)
{
	begin_loaded();
	launch_in("one");
	sample(WAITCNT, 5);
	sample_of(loaded, 0, "kern", 0, WAITCNT, 2); /* the library does not know the dispatch */
	expect_tree(" one{ kern{ 6@kern=5 } } kern{ 6@kern=2 }");
}

TEST(unknown_code_and_invalid_samples_are_counted)
{
	begin_loaded();
	launch_ns("kern", 100);
	sample_of(loaded, sdk.last_dispatch(), "kern", 4, WAITCNT, 1);
	sample_of(0, sdk.last_dispatch(), "kern", 0, WAITCNT, 2);
	sample_of(loaded + 50, sdk.last_dispatch(), "kern", 0, WAITCNT, 3);
	sample_of(loaded, sdk.last_dispatch(), "kern", 0x100000, WAITCNT, 4);
	CHECK_EQ(sdk.sample(&(struct fake_sample){.kind = SDK_SAMPLE_INVALID, .count = 5}), 5);
	/* Shorter than its kind, and a kind of the future. */
	CHECK_EQ(sdk.sample(&(struct fake_sample){.kind = 9, .count = 6}), 6);
	struct profile *profile = finish();
	CHECK_U64(counter(profile, "PC samples"), 1);
	CHECK_U64(counter(profile, "PC samples without a function"), 14);
	CHECK_U64(counter(profile, "lost: PC samples, times a buffer was full"), 6);
}

TEST(code_of_a_file_is_read_by_its_uri)
{
	char uri[300];
	const char *path = rec_path("with space.hsaco");
	int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);

	begin("pcsampling");
	CHECK_EQ(write(fd, "padding!", 8), 8);
	CHECK_EQ(write(fd, code, code_length), (ssize_t)code_length);
	close(fd);
	snprintf(uri, sizeof(uri), "file://%.*s/with%%20space.hsaco#offset=8&size=%zu",
		 (int)(strrchr(path, '/') - path), path, code_length);
	loaded = sdk.load_code("kern", NULL, 0, uri);
	launch_sampled();
	expect_tree(" kern{ 6@kern=5 }");
}

TEST(files_that_cannot_be_read_leave_the_samples_without_a_function)
{
	static const char *const uris[] = {"file:///proton-is-not-here#offset=0&size=10", "file://",
					   "http://x", "file:///dev/zero"};

	begin("pcsampling");
	for (size_t i = 0; i < sizeof(uris) / sizeof(uris[0]); i++) {
		char name[] = {(char)('a' + i), '\0'};

		loaded = sdk.load_code(name, NULL, 0, uris[i]);
		launch_ns(name, 100);
		sample(WAITCNT, 1);
	}
	CHECK_U64(counter(finish(), "PC samples without a function"), 4);
}

TEST(code_that_was_loaded_before_the_session_has_lines)
{
	prepare();
	setenv(BETA, "1", 1);
	proton_prepare();
	load_code();
	begin("pcsampling");
	launch_sampled();
	expect_tree(" kern{ 6@kern=5 }");
}

TEST(nothing_is_sampled_in_other_modes)
{
	begin(NULL);
	load_code();
	launch_ns("kern", 100);
	CHECK_EQ(sdk.sample(&(struct fake_sample){.code_object = loaded, .count = 3}), 0);
	struct profile *profile = finish();
	CHECK_STR(tree_of(profile), " kern");
	CHECK(!profile->samples);
}

TEST(a_second_session_samples_again)
{
	begin_loaded();
	launch_ns("kern", 100);
	finish();
	CHECK_EQ(sdk.sample(&(struct fake_sample){.code_object = loaded, .count = 3}), 0);
	begin("pcsampling");
	launch_sampled();
	expect_tree(" kern{ 6@kern=5 }");
}

TEST(host_trap_samples_have_no_reason)
{
	setenv("PROTON_ROCPROFILER_PC_SAMPLING_METHOD", "host-trap", 1);
	begin_loaded();
	CHECK_EQ(sdk.pcs_method(0), SDK_METHOD_HOST_TRAP);
	launch_ns("kern", 100);
	sample(0, 5);
	struct profile *profile = finish();
	CHECK_STR(tree_of(profile), " kern{ 6@kern=5 }");
	CHECK_EQ(value_of(profile, find_line(profile, 6, 5), "num_stalled_samples"), 0);
	CHECK_EQ(value_of(profile, find_line(profile, 6, 5), "stalled_unknown"), 0);
	CHECK_LT(0, atoll(rec_info(profile, "overhead_callbacks_ns")));
	CHECK_STR(rec_info(profile, "pc_sampling"), "host-trap");
	CHECK_STR(rec_info(profile, "pc_sampling_interval"), "1000");
	CHECK_STR(rec_info(profile, "pc_sampling_unit"), "microseconds");
}

/* ------------------------------------------------------------------ configuration */

/* Methods and intervals of the two GPUs; the session ends. */
static void expect_configs(int first, uint64_t first_interval, int second, uint64_t second_interval)
{
	CHECK_EQ(sdk.pcs_method(0), first);
	CHECK_U64(sdk.pcs_interval(0), first_interval);
	CHECK_EQ(sdk.pcs_method(1), second);
	CHECK_U64(sdk.pcs_interval(1), second_interval);
	finish();
}

TEST(each_gpu_gets_the_best_method_that_it_offers)
{
	begin("pcsampling:interval=100000");
	/* 131072: the nearest power of two */
	expect_configs(SDK_METHOD_STOCHASTIC, 131072, SDK_METHOD_HOST_TRAP, 100000);
}

TEST(a_gpu_without_the_method_that_the_user_names_is_not_sampled)
{
	setenv("PROTON_ROCPROFILER_PC_SAMPLING_METHOD", "stochastic", 1);
	begin("pcsampling");
	expect_configs(SDK_METHOD_STOCHASTIC, 131072, 0, 0);
}

TEST(a_gpu_that_hip_does_not_see_is_not_sampled)
{
	setenv("FAKE_SDK_HIP_HIDES", "2", 1);
	begin("pcsampling");
	expect_configs(SDK_METHOD_STOCHASTIC, 131072, 0, 0);
}

TEST(all_gpus_are_sampled_if_the_library_does_not_know_which_hip_sees)
{
	setenv("FAKE_SDK_HIP_HIDES", "3", 1);
	begin("pcsampling");
	expect_configs(SDK_METHOD_STOCHASTIC, 131072, SDK_METHOD_HOST_TRAP, 1000);
}

TEST(samples_in_the_buffer_at_the_programs_end_are_kept)
{
	begin_loaded();
	launch_sampled();
	sdk.finalize();
	expect_tree(" kern{ 6@kern=5 }");
}

TEST(interval_is_clamped_to_what_the_gpu_offers)
{
	begin("pcsampling:interval=3");
	CHECK_U64(sdk.pcs_interval(0), 256);
	CHECK_U64(sdk.pcs_interval(1), 3);
	struct profile *profile = finish();
	CHECK_STR(rec_info(profile, "pc_sampling_interval"), "256");
	CHECK_STR(rec_info(profile, "pc_sampling_interval_requested"), "3");
}

TEST(large_interval_is_clamped_too)
{
	setenv("PROTON_PC_SAMPLING_INTERVAL", "999999999999", 1);
	begin("pcsampling");
	expect_configs(SDK_METHOD_STOCHASTIC, 1u << 24, SDK_METHOD_HOST_TRAP, 1u << 20);
}

TEST(configuration_of_another_process_is_shared)
{
	setenv("FAKE_SDK_PCS_BUSY", "1", 1);
	begin("pcsampling");
	expect_configs(SDK_METHOD_HOST_TRAP, 5000, SDK_METHOD_HOST_TRAP, 5000);
}

static void check_refused(const char *mode, const char *text)
{
	struct proton_error err = {0};

	prepare();
	CHECK_LT(start_with((struct proton_session_options){.mode = mode}, &err), 0);
	CHECK_HAS(err.text, text);
	start(); /* other modes work */
	launch_ns("kern", 100);
	finish();
}

TEST(missing_acknowledgement_is_explained)
{
	setenv(BETA, "maybe", 1);
	check_refused("pcsampling", "set " BETA "=1 before the program starts");
}

TEST(gpus_without_sampling_are_named)
{
	setenv(BETA, "1", 1);
	setenv("FAKE_SDK_PCS_NONE", "1", 1);
	check_refused("pcsampling", "offers no PC sampling on gfx942");
}

TEST(gpus_that_another_process_keeps_are_named)
{
	setenv(BETA, "1", 1);
	prepare();
	fake.fail("configure_pc_sampling_service", 1, 100, SDK_E_NOT_AVAILABLE);
	check_refused("pcsampling", "another process takes them with another configuration");
}

TEST(driver_without_sampling_is_named)
{
	setenv(BETA, "1", 1);
	prepare();
	fake.fail("query_pc_sampling_agent_configurations", 1, 100, SDK_E_INCOMPATIBLE_KERNEL);
	check_refused("pcsampling", "the amdgpu driver does not support PC sampling");
}

TEST(unknown_method_is_refused)
{
	setenv(BETA, "1", 1);
	setenv("PROTON_ROCPROFILER_PC_SAMPLING_METHOD", "magic", 1);
	check_refused("pcsampling", "use stochastic or host-trap");
}

TEST(options_of_other_backends_are_refused)
{
	check_refused("pcsampling:serialized", "unsupported option of pcsampling: serialized");
}

TEST(interval_that_is_not_a_number_is_refused)
{
	check_refused("pcsampling:interval=-5", "the interval is not a number: -5");
}
