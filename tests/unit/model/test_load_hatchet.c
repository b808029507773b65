/*
 * model/load_hatchet and load_tree: mapping of fields, early ends, deep and odd trees. Fields that
 * JSON and MessagePack share are tested here once; MessagePack has its reader's own test.
 */
#include "unit/tap.h"

#include "base/buf.h"
#include "model/load.h"

static struct profile *load(const char *text)
{
	struct profile *profile = NULL;
	size_t length = strlen(text);
	char *copy = malloc(length ? length : 1);

	memcpy(copy, text, length);
	CHECK_DONE(profile_load_hatchet(copy, length, &profile, &err));
	free(copy);
	return profile;
}

#define NODE(children, name, metrics)                                                              \
	"{\"children\":[" children "],\"frame\":{\"name\":\"" name "\",\"type\":\"function\"},"    \
	"\"metrics\":{" metrics "}}"
#define H100                                                                                       \
	",{\"CUDA\":{\"0\":{\"arch\":\"90\",\"bus_width\":6016,\"clock_rate\":1980000,"            \
	"\"memory_clock_rate\":3201000,\"num_sms\":132}}}"
#define DEVICE_0 "\"device_id\":\"0\",\"device_type\":\"CUDA\""

/* The index of the metric of that name and type. */
static uint32_t metric_of(const struct profile *profile, const char *name, uint16_t type)
{
	for (uint32_t i = 0; i < profile->metric_count; i++)
		if (profile->metrics[i].type == type &&
		    strcmp(profile_text(profile, profile->metrics[i].name), name) == 0)
			return i;
	FAIL("no metric %s of type %u", name, type);
}

static const struct profile_value *value_of(const struct profile *profile, uint32_t node,
					    uint32_t metric)
{
	for (uint32_t v = profile->nodes[node].first_value; v; v = profile->values[v].next)
		if (profile->values[v].metric == metric)
			return &profile->values[v];
	FAIL("node %u has no value of metric %u", node, metric);
}

static void check_frame(const struct profile *profile, uint32_t node, const char *name,
			uint32_t kind)
{
	char text[256];

	profile_frame_text(profile, profile->nodes[node].frame, text, sizeof(text));
	CHECK_STR(text, name);
	CHECK_EQ(profile->frames[profile->nodes[node].frame].kind, kind);
}

#define MM_METRICS "\"count\":3,\"time (ns)\":300,\"flops16\":1.5e9," DEVICE_0

TEST(kernels_scopes_and_devices)
{
	struct profile *profile = load(
		"\n[" NODE(NODE(NODE("", "mm", MM_METRICS), "layer", "\"bytes\":7"), "ROOT",
			   "\"count\":0,\"time (ns)\":0,\"flops16\":0,\"bytes\":0") H100 "]\n");
	const struct profile_kernel *kernel = &profile->kernels[1];
	const struct row_device *device = &profile->devices[0];

	CHECK_EQ(profile->node_count, 3);
	CHECK(!profile->is_damaged);
	check_frame(profile, 0, "ROOT", FRAME_ROOT);
	check_frame(profile, 1, "layer", FRAME_NAME);
	check_frame(profile, 2, "mm", FRAME_KERNEL);
	CHECK_EQ(profile->nodes[2].parent, 1);
	CHECK_EQ(profile->kernel_count, 2);
	CHECK_U64(kernel->count, 3);
	CHECK_U64(kernel->total_ns, 300);
	CHECK_U64(kernel->min_ns, KERNEL_TIME_UNKNOWN);
	CHECK_EQ(profile->device_count, 1);
	CHECK_STR(profile_text(profile, device->type), "CUDA");
	CHECK_STR(profile_text(profile, device->arch), "90");
	CHECK_U64(device->processors, 132);
	CHECK_U64(device->clock_khz, 1980000);
	CHECK_U64(device->memory_clock_khz, 3201000);
	CHECK_U64(device->bus_width_bits, 6016);
	CHECK_NEAR(value_of(profile, 2, metric_of(profile, "flops16", PROTON_METRIC_DOUBLE))
			   ->as.float64,
		   1.5e9, 0);
	CHECK_EQ(value_of(profile, 1, metric_of(profile, "bytes", PROTON_METRIC_INT64))->as.int64,
		 7);
	CHECK_EQ(profile->metric_count, 2); /* the built-in ones are the kernel's */
	profile_free(profile);
}

TEST(names_on_root_are_inclusive)
{
	struct profile *profile =
		load("[" NODE(NODE("", "a", "\"on_root\":1,\"cpu_time (ns)\":5,\"note\":\"x\""),
			      "ROOT", "\"on_root\":0,\"only_root\":0,\"note\":0") ",{}]");

	CHECK_EQ(profile->metrics[metric_of(profile, "on_root", PROTON_METRIC_INT64)].flags, 0);
	CHECK_EQ(profile->metrics[metric_of(profile, "only_root", PROTON_METRIC_INT64)].flags, 0);
	CHECK_EQ(profile->metrics[metric_of(profile, "cpu_time (ns)", PROTON_METRIC_INT64)].flags,
		 METRIC_EXCLUSIVE);
	CHECK_EQ(profile->metrics[metric_of(profile, "note", PROTON_METRIC_STRING)].flags,
		 METRIC_EXCLUSIVE);
	CHECK_EQ(profile->nodes[0].first_value, 0);
	profile_free(profile);
}

/* Checks whether x and cpu_time (ns) are exclusive in a tree with a ROOT that ends with `rest`. */
static void check_exclusive(const char *rest, bool is_x, bool is_cpu_time)
{
	static const struct {
		const char *name;
		uint16_t type;
	} metrics[] = {{"x", PROTON_METRIC_INT64},
		       {"cpu_time (ns)", PROTON_METRIC_INT64},
		       {"note", PROTON_METRIC_STRING},
		       {"v", PROTON_METRIC_INT64_VECTOR}};
	const bool expected[] = {is_x, is_cpu_time, true, true};
	char text[512];

	snprintf(text, sizeof(text),
		 "[{\"children\":[%s],\"frame\":{\"name\":\"ROOT\",\"type\":\"function\"}%s},{}]",
		 NODE("", "a", "\"x\":1,\"cpu_time (ns)\":5,\"note\":\"t\",\"v\":[1]"), rest);
	struct profile *profile = load(text);
	for (size_t i = 0; i < sizeof(metrics) / sizeof(metrics[0]); i++) {
		uint32_t metric = metric_of(profile, metrics[i].name, metrics[i].type);

		if (profile->metrics[metric].flags != (expected[i] ? METRIC_EXCLUSIVE : 0))
			FAIL("flags of %s with \"%s\": %u", metrics[i].name, rest,
			     profile->metrics[metric].flags);
	}
	CHECK_EQ(value_of(profile, 1, metric_of(profile, "x", PROTON_METRIC_INT64))->as.int64, 1);
	profile_free(profile);
}

TEST(without_metrics_on_root_numbers_are_inclusive_except_cpu_time)
{
	check_exclusive("", false, true);
	check_exclusive(",\"more\":{\"x\":3}", false, true);
	/* If ROOT has metrics, but none with that name, the metric is exclusive. */
	check_exclusive(",\"metrics\":{}", true, true);
	check_exclusive(",\"metrics\":{\"y\":0}", true, true);
	check_exclusive(",\"metrics\":{\"x\":0}", false, true);
	check_exclusive(",\"metrics\":{\"cpu_time (ns)\":0}", true, false);
	check_exclusive(",\"metrics\":{\"note\":0,\"v\":0}", true, true);
}

TEST(without_a_device_time_and_count_are_metrics)
{
	struct profile *profile = load("[" NODE(NODE("", "a", "\"time (ns)\":10,\"count\":2"),
						"ROOT", "\"count\":0,\"time (ns)\":0") "]");

	CHECK_EQ(profile->kernel_count, 1);
	CHECK_EQ(value_of(profile, 1, metric_of(profile, "time (ns)", PROTON_METRIC_INT64))
			 ->as.int64,
		 10);
	CHECK_EQ(value_of(profile, 1, metric_of(profile, "count", PROTON_METRIC_INT64))->as.int64,
		 2);
	CHECK_EQ(profile->metrics[metric_of(profile, "count", PROTON_METRIC_INT64)].flags, 0);
	profile_free(profile);
}

TEST(without_time_a_device_is_a_metric)
{
	struct profile *profile = load(
		"[" NODE(NODE("", "k", "\"cycles\":5,\"device_id\":\"0\",\"device_type\":\"1\""),
			 "ROOT", "") "]");
	uint32_t id = metric_of(profile, "device_id", PROTON_METRIC_STRING);

	CHECK_EQ(profile->kernel_count, 1);
	CHECK_STR(profile_text(profile, value_of(profile, 1, id)->as.string), "0");
	profile_free(profile);
}

TEST(a_kernel_that_ran_once_has_extremes)
{
	struct profile *profile = load(
		"[" NODE(NODE("", "k", "\"count\":1,\"time (ns)\":42," DEVICE_0), "ROOT", "") "]");

	CHECK_U64(profile->kernels[1].min_ns, 42);
	CHECK_U64(profile->kernels[1].max_ns, 42);
	profile_free(profile);
}

TEST(protons_extras_are_read)
{
	struct profile *profile = load(
		"[{\"children\":[{\"children\":[],\"proton\":{\"min (ns)\":10,\"max (ns)\":200,"
		"\"histogram (ns)\":{\"32\":1,\"192\":2,\"bad\":true},\"other\":[1]},"
		"\"frame\":{\"name\":\"k\"},\"metrics\":{\"count\":3,\"time (ns)\":400," DEVICE_0
		"}}],"
		"\"frame\":{\"name\":\"ROOT\"},\"metrics\":{},\"proton\":{\"info\":{"
		"\"host\":\"m\",\"n\":1},"
		"\"counters\":{\"kernels\":3},\"losses\":{\"dropped\":18446744073709551615},"
		"\"start_time (ns)\":5,\"end_time (ns)\":6,\"unfinished\":true}}]");
	const struct profile_kernel *kernel = &profile->kernels[1];

	CHECK_U64(kernel->min_ns, 10);
	CHECK_U64(kernel->max_ns, 200);
	CHECK_EQ(profile->histograms[kernel->histogram].bucket[histogram_bucket(32)], 1);
	CHECK_EQ(profile->histograms[kernel->histogram].bucket[histogram_bucket(192)], 2);
	CHECK_EQ(profile->info_count, 1);
	CHECK_EQ(profile->counter_count, 2);
	CHECK(!profile->counters[0].is_loss && profile->counters[1].is_loss);
	CHECK_U64(profile->counters[1].value, UINT64_MAX);
	CHECK_U64(profile->start_ns, 5);
	CHECK_U64(profile->end_ns, 6);
	CHECK(profile->is_unfinished && !profile->is_damaged);
	profile_free(profile);
}

#define SECOND "\"mixed\":0.5,\"int\":9223372036854775807,\"vec\":[1,2.5]"

TEST(number_types_are_kept_and_settled)
{
	struct profile *profile =
		load("[" NODE(NODE("", "a",
				   "\"mixed\":3,\"int\":-5,\"vec\":[1,2],"
				   "\"big\":18446744073709551615") "," NODE("", "b", SECOND),
			      "ROOT", "\"mixed\":0,\"int\":0") "]");
	uint32_t mixed = metric_of(profile, "mixed", PROTON_METRIC_DOUBLE);
	uint32_t vec = metric_of(profile, "vec", PROTON_METRIC_DOUBLE_VECTOR);
	const uint64_t *words = profile->words + value_of(profile, 1, vec)->as.vector;
	double second;

	CHECK_EQ(profile->metric_count, 4);
	CHECK_NEAR(value_of(profile, 1, mixed)->as.float64, 3, 0);
	CHECK_NEAR(value_of(profile, 2, mixed)->as.float64, 0.5, 0);
	CHECK_EQ(profile->metrics[mixed].flags, 0);
	CHECK_EQ(value_of(profile, 2, metric_of(profile, "int", PROTON_METRIC_INT64))->as.int64,
		 INT64_MAX);
	CHECK_NEAR(
		value_of(profile, 1, metric_of(profile, "big", PROTON_METRIC_DOUBLE))->as.float64,
		18446744073709551616.0, 0);
	memcpy(&second, &words[2], sizeof(second));
	CHECK_U64(words[0], 2);
	CHECK_NEAR(second, 2, 0);
	profile_free(profile);
}

TEST(source_frames_are_taken_apart_at_the_last_place)
{
	struct profile *profile = load("[" NODE(
		NODE("", "/a/b.py:12@fn", "") "," NODE("", "x:1@y:22@z@w", "") "," NODE(
			"", "f.py:012@g",
			"") "," NODE("", ":5@g",
				     "") "," NODE("", "f.py:5@",
						  "") "," NODE("", "f.py:99999999999@g",
							       "") "," NODE("", "@@@:1@", ""),
		"ROOT", "") "]");

	check_frame(profile, 1, "/a/b.py:12@fn", FRAME_SOURCE);
	CHECK_EQ(profile->frames[profile->nodes[1].frame].line, 12);
	check_frame(profile, 2, "x:1@y:22@z@w", FRAME_SOURCE);
	CHECK_EQ(profile->frames[profile->nodes[2].frame].line, 22);
	check_frame(profile, 3, "f.py:012@g", FRAME_NAME);
	check_frame(profile, 4, ":5@g", FRAME_NAME);
	check_frame(profile, 5, "f.py:5@", FRAME_NAME);
	check_frame(profile, 6, "f.py:99999999999@g", FRAME_NAME);
	check_frame(profile, 7, "@@@:1@", FRAME_NAME);
	profile_free(profile);
}

TEST(unknown_keys_and_elements_are_skipped)
{
	struct profile *profile =
		load("[{\"x\":{\"children\":[{}]},\"children\":[7,null,{\"frame\":{\"name\":\"a\","
		     "\"line\":[1]},"
		     "\"metrics\":{\"o\":{\"p\":1},\"l\":[\"s\"],\"m\":[[1],2],\"ok\":1,\"n\":null,"
		     "\"t\":true}}],"
		     "\"frame\":{\"name\":\"ROOT\"},\"metrics\":{}},{\"CUDA\":{\"0\":7,\"z\":{}},"
		     "\"X\":3},5,{\"a\":{}}]");

	CHECK_EQ(profile->node_count, 2);
	CHECK_EQ(profile->metric_count, 2);
	CHECK_EQ(value_of(profile, 1, metric_of(profile, "ok", PROTON_METRIC_INT64))->as.int64, 1);
	CHECK_EQ(value_of(profile, 1, metric_of(profile, "t", PROTON_METRIC_INT64))->as.int64, 1);
	CHECK_EQ(profile->device_count, 0);
	profile_free(profile);
}

TEST(a_name_given_twice_counts_once)
{
	struct profile *profile = load(
		"[" NODE(NODE("", "a", "\"m\":1,\"m\":2,\"v\":[1],\"v\":[2,3]"), "ROOT", "") "]");
	uint32_t v = metric_of(profile, "v", PROTON_METRIC_INT64_VECTOR);

	CHECK_EQ(value_of(profile, 1, metric_of(profile, "m", PROTON_METRIC_INT64))->as.int64, 2);
	CHECK_U64(profile->words[value_of(profile, 1, v)->as.vector], 2);
	CHECK_EQ(profile->value_count, 3);
	profile_free(profile);
}

TEST(every_truncation_gives_the_part_before_it)
{
	char *bytes;
	size_t length;
	struct proton_error err;
	size_t nodes = 0;
	size_t tree; /* where the tree begins */

	CHECK_OK(file_read_all(TESTS_DIR "/data/viewer/up_tree.hatchet", 0, &bytes, &length, &err),
		 err);
	tree = (size_t)(strchr(strstr(bytes, "\"children\""), '[') - bytes) + 1;
	for (size_t cut = 0; cut < length; cut++) {
		struct profile *profile = NULL;
		char *copy = malloc(cut ? cut : 1);
		int status;

		memcpy(copy, bytes, cut);
		status = profile_load_hatchet(copy, cut, &profile, &err);
		free(copy);
		if (cut + 1 == length) { /* only the last line break is missing */
			CHECK_OK(status, err);
			CHECK(!profile->is_damaged);
		} else if (cut < tree) {
			CHECK_EQ(status, PROTON_E_FORMAT);
			CHECK_HAS(err.text, "not a profile");
			continue;
		} else {
			CHECK_OK(status, err);
			CHECK(profile->is_damaged);
			CHECK_LE(nodes, profile->node_count);
		}
		nodes = profile->node_count;
		profile_free(profile);
	}
	CHECK_EQ(nodes, 9);
	free(bytes);
}

static void check_refused(const char *text, const char *expected)
{
	struct profile *profile = NULL;
	struct proton_error err;

	CHECK_EQ(profile_load_hatchet(text, strlen(text), &profile, &err), PROTON_E_FORMAT);
	CHECK_STR(err.text, expected);
	CHECK_PTR(profile, NULL);
}

TEST(input_that_is_not_a_tree_is_rejected)
{
	static const char no_list[] =
		"not a profile: a list of a tree and a device table is expected";

	check_refused("{\"traceEvents\":[]}", no_list);
	check_refused("[]", no_list);
	check_refused("[1,2]", no_list);
	check_refused("[{\"name\":\"x\"}]", no_list);
	check_refused("[x", "not a profile: line 1, byte 1: expected a value");
	check_refused("[{\"children\":[],}]", "line 1, byte 16: expected a quoted name");
	check_refused("[" NODE("", "ROOT", "") "] x",
		      "line 1, byte 73: unexpected data after the end");
}

TEST(a_hundred_thousand_levels)
{
	const size_t levels = 100000;
	static const char open[] = "{\"children\":[";
	static const char close[] = "],\"frame\":{\"name\":\"f\"},\"metrics\":{\"m\":1}}";
	size_t length = 2 + levels * (sizeof(open) + sizeof(close) - 2);
	char *text = malloc(length + 1);
	char *at = text;
	struct profile *profile;

	*at++ = '[';
	for (size_t i = 0; i < levels; i++)
		at = stpcpy(at, open);
	for (size_t i = 0; i < levels; i++)
		at = stpcpy(at, close);
	*at++ = ']';
	CHECK_EQ(at - text, length);
	CHECK_DONE(profile_load_hatchet(text, length, &profile, &err));
	CHECK_EQ(profile->node_count, levels);
	CHECK_EQ(profile->nodes[levels - 1].parent, levels - 2);
	CHECK_EQ(profile->frame_count, 2);
	profile_free(profile);
	free(text);
}

TEST(samples_of_upstream_load_whole)
{
	static const struct {
		const char *name;
		size_t nodes, kernels, metrics;
	} samples[] = {{"up_tree", 9, 4, 5},
		       {"up_op", 4, 0, 4},
		       {"up_graph", 8, 2, 2},
		       {"up_pc", 29, 4, 24},
		       {"up_python", 42, 4, 5}};

	for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
		char path[512];
		struct profile *profile;
		struct proton_error err;

		snprintf(path, sizeof(path), TESTS_DIR "/data/viewer/%s.hatchet", samples[i].name);
		CHECK_OK(profile_load_file(path, &profile, &err), err);
		CHECK(!profile->is_damaged);
		CHECK_EQ(profile->node_count, samples[i].nodes);
		CHECK_EQ(profile->kernel_count - 1, samples[i].kernels);
		CHECK_EQ(profile->metric_count, samples[i].metrics);
		profile_free(profile);
	}
}
