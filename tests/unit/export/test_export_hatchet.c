/*
 * export/hatchet and export/msgpack: the exact text of a small profile, ROOT's zeros, several
 * devices, metrics named like built-in ones, extras, depth. tests/python/test_formats.py compares
 * the two formats over random profiles, and reads them with hatchet.
 */
#include "unit/tap.h"

#include "export/export.h"
#include "export/tree_plan.h"
#include "format/json_write.h"
#include "model/load.h"
#include "unit/viewer_build.h"

static uint32_t node(struct profile *profile, uint32_t parent, const char *name)
{
	struct row_frame frame = {.kind = FRAME_NAME, .name = profile_add_text(profile, name)};

	return profile_node(profile, parent, profile_frame(profile, frame));
}

static uint32_t metric(struct profile *profile, const char *name, enum proton_metric_type type,
		       uint16_t flags)
{
	return profile_metric(profile, profile_add_text(profile, name), (uint16_t)type, flags);
}

static struct profile_kernel *kernel(struct profile *profile, uint32_t at, const char *type,
				     uint32_t id, uint64_t count, uint64_t total)
{
	uint32_t device = profile_device(profile, profile_add_text(profile, type), id);
	struct profile_kernel *row = profile_kernel(profile, at, device);

	row->count = count;
	row->total_ns = total;
	row->min_ns = count == 1 ? total : KERNEL_TIME_UNKNOWN;
	row->max_ns = row->min_ns;
	return row;
}

typedef int (*export_fn)(const struct profile *profile, struct out *out, struct proton_error *err);

/* The text of a profile, which is freed. */
static char *exported(struct profile *profile, export_fn export)
{
	struct out out;
	size_t length;

	out_init(&out, -1);
	CHECK_DONE(export(profile, &out, &err));
	CHECK_DONE(out_finish(&out, &err));
	char *text = out_take(&out, &length);
	profile_free(profile);
	return text;
}

static const char upstreams_shape[] = "\n"
				      "[\n"
				      "    {\n"
				      "        \"children\": [\n"
				      "            {\n"
				      "                \"children\": [\n"
				      "                    {\n"
				      "                        \"children\": [],\n"
				      "                        \"frame\": {\n"
				      "                            \"name\": \"mm\",\n"
				      "                            \"type\": \"function\"\n"
				      "                        },\n"
				      "                        \"metrics\": {\n"
				      "                            \"count\": 2,\n"
				      "                            \"device_id\": \"0\",\n"
				      "                            \"device_type\": \"CUDA\",\n"
				      "                            \"flops16\": 1000000000.0,\n"
				      "                            \"time (ns)\": 300\n"
				      "                        }\n"
				      "                    }\n"
				      "                ],\n"
				      "                \"frame\": {\n"
				      "                    \"name\": \"layer \\\"1\\\"\",\n"
				      "                    \"type\": \"function\"\n"
				      "                },\n"
				      "                \"metrics\": {\n"
				      "                    \"cpu_time (ns)\": 7\n"
				      "                }\n"
				      "            }\n"
				      "        ],\n"
				      "        \"frame\": {\n"
				      "            \"name\": \"ROOT\",\n"
				      "            \"type\": \"function\"\n"
				      "        },\n"
				      "        \"metrics\": {\n"
				      "            \"count\": 0,\n"
				      "            \"flops16\": 0.0,\n"
				      "            \"time (ns)\": 0\n"
				      "        }\n"
				      "    },\n"
				      "    {\n"
				      "        \"CUDA\": {\n"
				      "            \"0\": {\n"
				      "                \"arch\": \"90\",\n"
				      "                \"bus_width\": 6016,\n"
				      "                \"clock_rate\": 1980000,\n"
				      "                \"memory_clock_rate\": 3201000,\n"
				      "                \"num_sms\": 132\n"
				      "            }\n"
				      "        }\n"
				      "    }\n"
				      "]\n";

TEST(the_text_has_upstreams_shape)
{
	struct profile *profile = profile_new();
	uint32_t scope = node(profile, 0, "layer \"1\"");
	uint32_t mm = node(profile, scope, "mm");

	kernel(profile, mm, "CUDA", 0, 2, 300);
	profile->devices[0].arch = profile_add_text(profile, "90");
	profile->devices[0].processors = 132;
	profile->devices[0].clock_khz = 1980000;
	profile->devices[0].memory_clock_khz = 3201000;
	profile->devices[0].bus_width_bits = 6016;
	profile_device(profile, profile_add_text(profile, "CUDA"), 1); /* not observed */
	profile_value(profile, mm, metric(profile, "flops16", PROTON_METRIC_DOUBLE, 0))
		->as.float64 = 1e9;
	profile_value(profile, scope,
		      metric(profile, "cpu_time (ns)", PROTON_METRIC_INT64, METRIC_EXCLUSIVE))
		->as.int64 = 7;
	char *text = exported(profile, export_hatchet);
	CHECK_STR(text, upstreams_shape);
	free(text);
}

TEST(an_empty_profile_has_a_root_and_no_devices)
{
	char *text = exported(profile_new(), export_hatchet_compact);

	CHECK_STR(text, "[{\"children\":[],\"frame\":{\"name\":\"ROOT\",\"type\":\"function\"},"
			"\"metrics\":{}},{}]");
	free(text);
}

TEST(root_has_a_zero_for_additive_metrics)
{
	struct profile *profile = profile_new();
	uint32_t total = metric(profile, "total", PROTON_METRIC_INT64, 0);
	char *text;

	metric(profile, "exclusive", PROTON_METRIC_INT64, METRIC_EXCLUSIVE);
	metric(profile, "property", PROTON_METRIC_DOUBLE, METRIC_PROPERTY);
	metric(profile, "text", PROTON_METRIC_STRING, 0);
	metric(profile, "vector", PROTON_METRIC_INT64_VECTOR, 0);
	metric(profile, "double", PROTON_METRIC_DOUBLE, 0);
	profile_value(profile, 0, total)->as.int64 = 5; /* recorded at ROOT itself */
	text = exported(profile, export_hatchet_compact);
	CHECK_HAS(text, "\"metrics\":{\"double\":0.0,\"total\":5}}");
	free(text);
}

TEST(non_additive_metrics_are_stored_next_to_roots_metrics)
{
	struct profile *profile = profile_new();
	struct profile *again;
	uint32_t note = metric(profile, "note", PROTON_METRIC_STRING, METRIC_PROPERTY);
	uint32_t own = metric(profile, "own", PROTON_METRIC_INT64, METRIC_EXCLUSIVE);
	uint32_t vector = metric(profile, "v", PROTON_METRIC_DOUBLE_VECTOR, 0);
	uint64_t elements[1] = {0};
	uint32_t words = profile_vector(profile, elements, 1);

	profile_value(profile, 0, note)->as.string = profile_add_text(profile, "x");
	profile_value(profile, 0, own)->as.int64 = 0;
	profile_value(profile, 0, vector)->as.vector = words;
	char *text = exported(profile, export_hatchet_compact);
	CHECK_HAS(text, "\"metrics\":{},\"proton\":{\"metrics\":{\"note\":\"x\",\"own\":0,"
			"\"v\":[0.0]}}}");
	CHECK_DONE(profile_load_bytes("text", text, strlen(text), &again, &err));
	CHECK_EQ(again->value_count, 4);
	CHECK_EQ(again->metrics[1].flags, METRIC_EXCLUSIVE);
	profile_free(again);
	free(text);
}

TEST(a_kernel_on_several_devices_becomes_siblings)
{
	struct profile *profile = profile_new();
	uint32_t mm = node(profile, 0, "mm");

	node(profile, mm, "below");
	node(profile, 0, "next");
	kernel(profile, mm, "CUDA", 0, 1, 10);
	kernel(profile, mm, "CUDA", 10, 1, 20);
	kernel(profile, mm, "CUDA", 2, 1, 30);
	profile_value(profile, mm, metric(profile, "bytes", PROTON_METRIC_INT64, 0))->as.int64 = 9;
	char *text = exported(profile, export_hatchet_compact);
	CHECK_STR(text,
		  "[{\"children\":["
		  "{\"children\":[{\"children\":[],\"frame\":{\"name\":\"below\","
		  "\"type\":\"function\"},"
		  "\"metrics\":{}}],\"frame\":{\"name\":\"mm\",\"type\":\"function\"},\"metrics\":"
		  "{\"bytes\":9,\"count\":1,\"device_id\":\"0\",\"device_type\":\"CUDA\",\"time "
		  "(ns)\":10}},"
		  "{\"children\":[],\"frame\":{\"name\":\"mm\",\"type\":\"function\"},\"metrics\":"
		  "{\"count\":1,\"device_id\":\"10\",\"device_type\":\"CUDA\",\"time (ns)\":20}},"
		  "{\"children\":[],\"frame\":{\"name\":\"mm\",\"type\":\"function\"},\"metrics\":"
		  "{\"count\":1,\"device_id\":\"2\",\"device_type\":\"CUDA\",\"time (ns)\":30}},"
		  "{\"children\":[],\"frame\":{\"name\":\"next\",\"type\":\"function\"},"
		  "\"metrics\":{}}],"
		  "\"frame\":{\"name\":\"ROOT\",\"type\":\"function\"},"
		  "\"metrics\":{\"bytes\":0,\"count\":0,\"time (ns)\":0}},"
		  "{\"CUDA\":{"
		  "\"0\":{\"arch\":\"\",\"bus_width\":0,\"clock_rate\":0,\"memory_clock_rate\":0,"
		  "\"num_sms\":0},"
		  "\"10\":{\"arch\":\"\",\"bus_width\":0,\"clock_rate\":0,"
		  "\"memory_clock_rate\":0,\"num_sms\":0},"
		  "\"2\":{\"arch\":\"\",\"bus_width\":0,\"clock_rate\":0,\"memory_clock_rate\":0,"
		  "\"num_sms\":0}"
		  "}}]");
	free(text);
}

TEST(a_metric_named_like_a_built_in_one_is_renamed)
{
	struct profile *profile = profile_new();
	uint32_t mm = node(profile, 0, "mm");
	uint32_t scope = node(profile, 0, "scope");
	uint32_t count = metric(profile, "count", PROTON_METRIC_INT64, 0);
	uint32_t taken = metric(profile, "count (user)", PROTON_METRIC_INT64, METRIC_EXCLUSIVE);

	kernel(profile, mm, "CPU", 0, 1, 10);
	profile_value(profile, mm, count)->as.int64 = 77;
	profile_value(profile, mm, taken)->as.int64 = 5;
	profile_value(profile, scope, count)->as.int64 = 8;
	char *text = exported(profile, export_hatchet_compact);
	CHECK_HAS(text, "\"metrics\":{\"count\":1,\"count (user)\":5,\"count (user) (user)\":77,"
			"\"device_id\":\"0\",\"device_type\":\"CPU\",\"time (ns)\":10}}");
	CHECK_HAS(text, "\"name\":\"scope\",\"type\":\"function\"},\"metrics\":{\"count\":8}}");
	CHECK_HAS(text, "\"metrics\":{\"count\":0,\"count (user) (user)\":0,\"time (ns)\":0}}");
	free(text);
}

TEST(names_that_hatchet_uses_itself_are_renamed)
{
	struct profile *profile = profile_new();
	uint32_t at = node(profile, 0, "");

	profile_value(profile, at, metric(profile, "name", PROTON_METRIC_INT64, 0))->as.int64 = 1;
	profile_value(profile, at, metric(profile, "node", PROTON_METRIC_INT64, METRIC_EXCLUSIVE))
		->as.int64 = 2;
	char *text = exported(profile, export_hatchet_compact);
	CHECK_HAS(text, "{\"name\":\"<unnamed>\",\"type\":\"function\"},"
			"\"metrics\":{\"name (user)\":1,\"node (user)\":2}}");
	CHECK_HAS(text, "\"metrics\":{\"name (user)\":0}}");
	free(text);
}

TEST(kernels_at_root_show_no_device)
{
	struct profile *profile = profile_new();

	kernel(profile, 0, "CUDA", 0, 2, 10);
	kernel(profile, 0, "CUDA", 1, 3, 20);
	char *text = exported(profile, export_hatchet_compact);
	CHECK_HAS(text, "\"metrics\":{\"count\":5,\"time (ns)\":30}}");
	free(text);
}

TEST(extras_are_stored_next_to_the_metrics)
{
	struct profile *profile = profile_new();
	uint32_t mm = node(profile, 0, "mm");
	struct profile_kernel *row = kernel(profile, mm, "CUDA", 0, 3, 300);

	row->min_ns = 40;
	row->max_ns = 200;
	row->histogram = profile_histogram(profile);
	profile->histograms[row->histogram].bucket[histogram_bucket(40)] = 1;
	profile->histograms[row->histogram].bucket[histogram_bucket(200)] = 2;
	profile_counter(profile, "kernels", false, 3);
	profile_counter(profile, "dropped", true, 1);
	profile_info(profile, "host", "m");
	profile->start_ns = 1;
	profile->end_ns = 2;
	profile->is_unfinished = true;
	profile->is_damaged = true;
	char *text = exported(profile, export_hatchet_compact);
	CHECK_HAS(text, "\"time (ns)\":300},\"proton\":{\"histogram (ns)\":{\"32\":1,\"192\":2},"
			"\"max (ns)\":200,\"min (ns)\":40}}]");
	CHECK_HAS(text,
		  "\"proton\":{\"counters\":{\"kernels\":3},\"damaged\":true,\"end_time (ns)\":2,"
		  "\"info\":{\"host\":\"m\"},\"losses\":{\"dropped\":1},\"start_time (ns)\":1,"
		  "\"unfinished\":true}},{");
	free(text);
}

TEST(protons_extensions_are_on_one_line)
{
	struct row_config launch = {.config = {.grid = {70000, 2, 1},
					       .block = {128, 1, 1},
					       .registers_per_thread = 32,
					       .static_shared_bytes = 16,
					       .dynamic_shared_bytes = 49152},
				    .count = 1,
				    .total_ns = 300};
	struct row_config other = {.flags = CONFIG_OTHER, .count = 4, .total_ns = 5};
	struct profile *profile = profile_new();
	struct profile_kernel *row = kernel(profile, node(profile, 0, "mm"), "CUDA", 0, 1, 300);

	row->first_config = profile_config(profile, 0, &launch);
	row->first_config = profile_config(profile, row->first_config, &other);
	char *text = exported(profile, export_hatchet);
	CHECK_HAS(text, "                \"proton\": {\"configs\":["
			"{\"block\":[128,1,1],\"count\":1,"
			"\"dynamic_shared (bytes)\":49152,\"grid\":[70000,2,1],\"registers\":32,"
			"\"static_shared (bytes)\":16,\"time (ns)\":300},"
			"{\"count\":4,\"time (ns)\":5}]}\n");
	free(text);
}

static struct profile *chain(uint32_t levels)
{
	struct profile *profile = profile_new();
	uint32_t at = 0;

	for (uint32_t i = 0; i < levels; i++)
		at = node(profile, at, i % 2 ? "odd" : "even");
	return profile;
}

TEST(a_hundred_thousand_levels_are_written_and_read)
{
	static const export_fn exports[] = {export_hatchet, export_hatchet_compact, export_msgpack};

	for (size_t i = 0; i < 3; i++) {
		struct profile *profile = chain(90000);
		struct profile *again;
		struct proton_error err;
		struct out out;

		out_init(&out, -1);
		CHECK_OK(exports[i](profile, &out, &err), err);
		CHECK_LT(out.length, 250000000);
		CHECK_OK(profile_load_bytes("chain", out.bytes, out.length, &again, &err), err);
		CHECK_EQ(again->node_count, 90001);
		CHECK_EQ(again->nodes[90000].parent, 89999);
		profile_free(again);
		profile_free(profile);
		out_fini(&out);
	}
}

TEST(large_profiles_are_a_line_per_node)
{
	struct profile *profile = profile_new();
	struct profile *again;
	struct out out;
	size_t lines = 0;

	for (int i = 0; i < 100001; i++)
		node(profile, 0, "n");
	out_init(&out, -1);
	CHECK_DONE(export_hatchet(profile, &out, &err));
	for (size_t i = 0; i < out.length; i++)
		lines += out.bytes[i] == '\n';
	CHECK_EQ(lines, 100001 + 3); /* and one for ROOT, one for the devices, one at the end */
	CHECK_DONE(profile_load_hatchet(out.bytes, out.length, &again, &err));
	CHECK_EQ(again->node_count, 100002);
	CHECK(!again->is_damaged);
	profile_free(profile);
	profile_free(again);
	out_fini(&out);
}

TEST(a_name_longer_than_the_buffer_is_written)
{
	struct profile *profile = profile_new();
	char *name = malloc(200001);

	memset(name, '\n', 200000);
	name[200000] = '\0';
	node(profile, 0, name);
	char *text = exported(profile, export_hatchet_compact);
	CHECK_LT(400000, strlen(text));
	free(text);
	free(name);
}

TEST(a_profile_that_ran_out_of_memory_is_rejected)
{
	struct profile *profile = profile_new();
	struct proton_error err;
	struct out out;

	profile->out_of_memory = true;
	out_init(&out, -1);
	CHECK_EQ(export_hatchet(profile, &out, &err), PROTON_E_NOMEM);
	CHECK_EQ(export_msgpack(profile, &out, &err), PROTON_E_NOMEM);
	CHECK_EQ(out.length, 0);
	profile_free(profile);
	out_fini(&out);
}

TEST(formats_are_found_without_regard_to_case)
{
	CHECK_STR(export_format_find("Hatchet")->name, "hatchet");
	CHECK_STR(export_format_find("hatchet_MSGPACK")->suffix, "hatchet_msgpack");
	CHECK_PTR(export_format_find("chrome"), NULL);
}

/* Frames of one file with a name of 1 MB: 300 MB when each is kept, 1 MB in the profile. */
TEST(a_long_name_that_many_frames_share_is_not_kept_for_each)
{
	struct profile *profile = profile_new();
	char *file = malloc(1 << 20);
	struct plan_texts texts;
	size_t length;

	CHECK(file != NULL);
	memset(file, 'f', 1 << 20);
	file[(1 << 20) - 1] = '\0';
	for (uint32_t line = 1; line <= 300; line++)
		build_source(profile, 0, file, line, "g");
	CHECK_DONE(plan_texts_init(&texts, profile, json_quote, &err));
	CHECK_LT(texts.bytes.length, 32 << 20);
	for (uint32_t frame = 1; frame <= 300; frame++) {
		char end[16];
		const char *text = plan_text(&texts, frame, &length);

		snprintf(end, sizeof(end), "f:%u@g\"", frame);
		CHECK(text != NULL);
		CHECK_MEM(text + length - strlen(end), end, strlen(end));
		CHECK_U64(length, (1 << 20) + strlen(end) - 1);
	}
	plan_texts_fini(&texts);
	profile_free(profile);
	free(file);
}
