/*
 * Makes profiles for tests and benchmarks and writes them in any form:
 *
 *   make_profile SOURCE FORMAT [FILE]     FILE: standard output if absent
 *   make_profile SOURCE time              how long exports and loads take
 *
 * SOURCE  seed:N   a random profile with everything that can be in one, odd names included
 *         nodes:N  N nodes shaped like a program's: scopes, kernels, flops and bytes
 *         chain:N  N nodes below each other
 *         PATH     a file
 * FORMAT  hatchet, compact, msgpack, or sums (a line per metric and node: what rollup.h says)
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "export/export.h"
#include "model/load.h"
#include "model/rollup.h"

static uint64_t random_state;

static uint64_t random_u64(void)
{
	random_state += 0x9e3779b97f4a7c15u;
	uint64_t z = random_state;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static uint32_t random_below(uint32_t limit)
{
	return (uint32_t)(random_u64() % limit);
}

/* ------------------------------------------------------------------ a random profile */

static const char *const names[] = {
	"a",
	"forward",
	"matmul_kernel",
	"with space",
	"quote\"back\\slash",
	"tab\tnewline\nreturn\rbell\a",
	"\xc3\xa9t\xc3\xa9",
	"\xe6\xa0\xb8",
	"\xf0\x9f\x9a\x80 rocket",
	"<captured_at>",
	"not:a@source",
	"x:1@",
	":1@x",
	"a.py:01@x",
	"",
	"\x7f",
	"_ZN2at6native29vectorized_elementwise_kernelILi8EEEviT0_T1_",
};

static uint32_t random_frame(struct profile *profile)
{
	struct row_frame frame = {.kind = FRAME_NAME};
	char text[64];

	if (random_below(4) == 0) {
		frame.kind = FRAME_SOURCE;
		snprintf(text, sizeof(text), "/home/user/m\"od%u.py", random_below(5));
		frame.file = profile_add_text(profile, text);
		frame.line = random_below(3) ? random_below(1000) : UINT32_MAX;
	}
	frame.name =
		profile_add_text(profile, names[random_below(sizeof(names) / sizeof(names[0]))]);
	return profile_frame(profile, frame);
}

static uint32_t random_kernel_frame(struct profile *profile)
{
	struct row_frame frame = {.kind = FRAME_KERNEL};

	frame.name =
		profile_add_text(profile, names[random_below(sizeof(names) / sizeof(names[0]))]);
	return profile_frame(profile, frame);
}

static double random_double(void)
{
	static const double odd[] = {0.0,  -0.0, 0.1,         1e300, 5e-324,
				     1e15, 1e16, 123456789.0, -2.5,  1.0 / 3};
	uint32_t pick = random_below(20);
	uint64_t bits = random_u64();
	double value;

	if (pick < 10)
		return odd[pick];
	memcpy(&value, &bits, sizeof(value));
	return pick < 15 && isfinite(value) ? value : (double)random_below(1000000) / 8;
}

static int64_t random_int64(void)
{
	static const int64_t odd[] = {0,    -1,    127,   128,        -32,       -33,      -128,
				      -129, 32767, 65536, 4294967296, INT64_MAX, INT64_MIN};
	uint32_t pick = random_below(26);

	return pick < 13 ? odd[pick] : (int64_t)random_below(1000000);
}

struct random_metrics {
	uint32_t id[16];
	uint32_t count;
};

static void make_random_metrics(struct profile *profile, struct random_metrics *metrics)
{
	static const struct {
		const char *name;
		uint16_t type;
		uint16_t flags;
	} made[] = {
		{"flops8", PROTON_METRIC_INT64, 0},
		{"bytes", PROTON_METRIC_DOUBLE, 0},
		{"cpu_time (ns)", PROTON_METRIC_INT64, METRIC_EXCLUSIVE},
		{"note", PROTON_METRIC_STRING, METRIC_PROPERTY},
		{"vector", PROTON_METRIC_INT64_VECTOR, 0},
		{"weights", PROTON_METRIC_DOUBLE_VECTOR, METRIC_EXCLUSIVE},
		{"odd \"name\"", PROTON_METRIC_DOUBLE, METRIC_PROPERTY},
		{"count", PROTON_METRIC_INT64, 0},
		{"count (user)", PROTON_METRIC_DOUBLE, 0},
		{"device_id", PROTON_METRIC_STRING, METRIC_PROPERTY},
		{"time (ns)", PROTON_METRIC_DOUBLE, METRIC_EXCLUSIVE},
	};

	metrics->count = 0;
	for (uint32_t i = 0; i < sizeof(made) / sizeof(made[0]); i++)
		if (random_below(4))
			metrics->id[metrics->count++] =
				profile_metric(profile, profile_add_text(profile, made[i].name),
					       made[i].type, made[i].flags);
}

static void random_value(struct profile *profile, uint32_t node, uint32_t metric)
{
	uint16_t type = profile->metrics[metric].type;
	struct profile_value *value = profile_value(profile, node, metric);
	uint64_t elements[4];
	uint32_t count = random_below(5);

	for (uint32_t i = 0; i < count; i++) {
		double number = random_double();

		elements[i] = (uint64_t)random_int64();
		if (type == PROTON_METRIC_DOUBLE_VECTOR)
			memcpy(&elements[i], &number, sizeof(number));
	}
	switch (type) {
	case PROTON_METRIC_INT64:
		value->as.int64 = random_int64() / 1024;
		break;
	case PROTON_METRIC_DOUBLE:
		value->as.float64 = random_double();
		break;
	case PROTON_METRIC_STRING:
		value->as.string = profile_add_text(profile, names[random_below(10)]);
		break;
	default:
		value->as.vector = profile_vector(profile, elements, count);
		break;
	}
}

/* Some of the executions; some kernels have more launch configurations than are kept. */
static void random_configs(struct profile *profile, uint32_t kernel)
{
	uint32_t count = 1 + random_below(random_below(8) ? 3 : 20);

	for (uint32_t i = 0; i < count; i++) {
		struct row_config launch = {
			.config = {.grid = {1 + random_below(70000), 1, 1 + random_below(2)},
				   .block = {32u << random_below(6), 1, 1},
				   .registers_per_thread = random_below(256),
				   .dynamic_shared_bytes = random_below(4) * 16384},
			.count = 1 + random_below(100),
			.total_ns = random_u64() >> 24,
		};

		profile->kernels[kernel].first_config =
			profile_config(profile, profile->kernels[kernel].first_config, &launch);
	}
}

static void random_kernel(struct profile *profile, uint32_t node, uint32_t device)
{
	struct profile_kernel *kernel = profile_kernel(profile, node, device);
	uint32_t runs = 1 + random_below(5) * random_below(100);
	uint32_t histogram = 0;
	uint64_t sum = 0;

	kernel->count = runs;
	kernel->min_ns = UINT64_MAX;
	if (runs > 1)
		histogram = kernel->histogram = profile_histogram(profile);
	for (uint32_t i = 0; i < runs; i++) {
		uint64_t ns = 1 + random_u64() % (1ull << random_below(40));

		sum += ns;
		kernel->min_ns = ns < kernel->min_ns ? ns : kernel->min_ns;
		kernel->max_ns = ns > kernel->max_ns ? ns : kernel->max_ns;
		if (histogram)
			profile->histograms[histogram].bucket[histogram_bucket(ns)]++;
	}
	kernel->total_ns = sum;
	if (random_below(2))
		random_configs(profile, (uint32_t)(kernel - profile->kernels));
}

static void make_random(struct profile *profile)
{
	struct random_metrics metrics;
	uint32_t devices = random_below(4);
	uint32_t count = 1 + random_below(60);

	make_random_metrics(profile, &metrics);
	for (uint32_t i = 0; i < devices; i++) {
		uint32_t id = profile_device(
			profile, profile_add_text(profile, i == 2 ? "HIP" : "CUDA"), i * 7);

		profile->devices[id].arch = profile_add_text(profile, i == 2 ? "gfx942" : "90");
		profile->devices[id].clock_khz = 1980000;
		profile->devices[id].processors = 132 + i;
	}
	for (uint32_t i = 0; i < count; i++) {
		uint32_t parent = random_below((uint32_t)profile->node_count);
		bool is_kernel = devices && random_below(3) == 0;
		uint32_t node = profile_node(profile, parent,
					     is_kernel ? random_kernel_frame(profile)
						       : random_frame(profile));

		for (uint32_t d = 0; is_kernel && d < devices; d++)
			if (d == 0 || random_below(2))
				random_kernel(profile, node, d);
		for (uint32_t m = 0; m < metrics.count; m++)
			if (random_below(3) == 0)
				random_value(profile, random_below(8) ? node : 0, metrics.id[m]);
	}
	if (random_below(2)) {
		profile_info(profile, "host", "m\"1");
		profile_counter(profile, "kernels", false, random_u64());
		profile_counter(profile, "dropped: storage full", true, 3);
		profile->start_ns = 1700000000000000000u;
		profile->end_ns = profile->start_ns + 5;
	}
}

/* ------------------------------------------------------------------ shaped profiles */

static void make_nodes(struct profile *profile, uint32_t wanted)
{
	uint32_t flops = profile_metric(profile, profile_add_text(profile, "flops16"),
					PROTON_METRIC_DOUBLE, 0);
	uint32_t bytes =
		profile_metric(profile, profile_add_text(profile, "bytes"), PROTON_METRIC_INT64, 0);
	uint32_t device = profile_device(profile, profile_add_text(profile, "CUDA"), 0);
	uint32_t scope = 0;

	profile->devices[device].arch = profile_add_text(profile, "90");
	for (uint32_t i = 1; i < wanted; i++) {
		struct row_frame frame = {.kind = FRAME_KERNEL};
		struct profile_kernel *kernel;
		char text[64];
		uint32_t node;

		if (i % 5 == 1) { /* a scope, up to 8 deep, and 4 kernels in it */
			frame.kind = FRAME_NAME;
			snprintf(text, sizeof(text), "layer_%u", i % 1000);
			if (i % 40 == 1)
				scope = 0;
			frame.name = profile_add_text(profile, text);
			scope = profile_node(profile, scope, profile_frame(profile, frame));
			continue;
		}
		snprintf(text, sizeof(text), "triton_poi_fused_add_mul_relu_%u", i % 997);
		frame.name = profile_add_text(profile, text);
		node = profile_node(profile, scope, profile_frame(profile, frame));
		kernel = profile_kernel(profile, node, device);
		kernel->count = 1;
		kernel->total_ns = kernel->min_ns = kernel->max_ns = 1000 + random_below(100000);
		if (i % 2) {
			profile_value(profile, node, flops)->as.float64 = 1e9 + i;
			profile_value(profile, node, bytes)->as.int64 = 4096 * (int64_t)i;
		}
	}
}

static void make_chain(struct profile *profile, uint32_t wanted)
{
	uint32_t node = 0;

	for (uint32_t i = 1; i < wanted; i++) {
		struct row_frame frame = {.kind = FRAME_SOURCE, .line = i % 100};

		frame.file = profile_add_text(profile, "deep.py");
		frame.name = profile_add_text(profile, "recurse");
		node = profile_node(profile, node, profile_frame(profile, frame));
	}
}

static struct profile *make(const char *source)
{
	struct profile *profile = NULL;
	struct proton_error err;
	uint64_t number = strtoull(strchr(source, ':') ? strchr(source, ':') + 1 : "0", NULL, 10);

	random_state = number;
	if (strncmp(source, "seed:", 5) == 0) {
		profile = profile_new();
		make_random(profile);
	} else if (strncmp(source, "nodes:", 6) == 0) {
		profile = profile_new();
		make_nodes(profile, (uint32_t)number);
	} else if (strncmp(source, "chain:", 6) == 0) {
		profile = profile_new();
		make_chain(profile, (uint32_t)number);
	} else if (profile_load_file(source, &profile, &err) != PROTON_OK) {
		fprintf(stderr, "make_profile: %s\n", err.text);
	}
	return profile;
}

/* ------------------------------------------------------------------ output */

static void write_sums(const struct profile *profile, FILE *file)
{
	for (size_t m = 0; m < profile->metric_count + 2; m++) {
		const char *name = m == 0   ? "time (ns)"
				   : m == 1 ? "count"
					    : profile_text(profile, profile->metrics[m - 2].name);
		struct column column;

		if (m > 1 && (strcmp(name, "time (ns)") == 0 || strcmp(name, "count") == 0))
			continue;
		if (rollup_metric(profile, name, true, &column, NULL) != PROTON_OK)
			continue;
		for (size_t i = 0; i < profile->node_count; i++) {
			fprintf(file, "%s\t%d\t%zu\t%.17g", name,
				rollup_is_inclusive(profile, name), i, column.value[i]);
			if (column.exact)
				fprintf(file, "\t%lld", (long long)column.exact[i]);
			fprintf(file, "\n");
		}
		column_fini(&column);
	}
}

static int write_to(const struct profile *profile, const char *format, struct out *out,
		    struct proton_error *err)
{
	if (strcmp(format, "msgpack") == 0)
		return export_msgpack(profile, out, err);
	if (strcmp(format, "compact") == 0)
		return export_hatchet_compact(profile, out, err);
	if (strcmp(format, "hatchet") == 0)
		return export_hatchet(profile, out, err);
	return err_set(err, PROTON_E_INVALID, "unknown format %s", format);
}

static double seconds_since(uint64_t start_ns)
{
	return (double)(clock_monotonic_ns() - start_ns) / 1e9;
}

static void time_format(const struct profile *profile, const char *name)
{
	const struct export_format *format = export_format_find(name);
	char path[] = "/tmp/make_profile.XXXXXX";
	int fd = mkstemp(path);
	uint64_t start_ns = clock_monotonic_ns();
	struct profile *loaded;
	struct proton_error err;
	double export_s;

	if (fd < 0 || export_to_file(format, profile, path, false, &err) != PROTON_OK) {
		fprintf(stderr, "make_profile: cannot write %s\n", path);
		exit(1);
	}
	export_s = seconds_since(start_ns);
	close(fd);
	fd = -1;
	start_ns = clock_monotonic_ns();
	if (profile_load_file(path, &loaded, &err) != PROTON_OK) {
		fprintf(stderr, "make_profile: %s\n", err.text);
		exit(1);
	}
	printf("%-16s export %.3f s, load %.3f s (%zu nodes)\n", name, export_s,
	       seconds_since(start_ns), loaded->node_count);
	profile_free(loaded);
	unlink(path);
}

int main(int argc, char **argv)
{
	struct profile *profile;
	struct proton_error err;
	struct out out;
	FILE *file;
	int status;

	if (argc < 3) {
		fprintf(stderr, "usage: make_profile SOURCE FORMAT [FILE]\n");
		return 2;
	}
	profile = make(argv[1]);
	if (!profile)
		return 1;
	if (strcmp(argv[2], "time") == 0) {
		time_format(profile, "hatchet");
		time_format(profile, "hatchet_msgpack");
		profile_free(profile);
		return 0;
	}
	file = argc > 3 ? fopen(argv[3], "wb") : stdout;
	if (!file) {
		perror(argv[3]);
		return 1;
	}
	if (strcmp(argv[2], "sums") == 0) {
		write_sums(profile, file);
		profile_free(profile);
		return fclose(file) != 0;
	}
	out_init(&out, fileno(file));
	status = write_to(profile, argv[2], &out, &err);
	if (status == PROTON_OK)
		status = out_finish(&out, &err);
	if (status != PROTON_OK)
		fprintf(stderr, "make_profile: %s\n", err.text);
	out_fini(&out);
	profile_free(profile);
	return status != PROTON_OK || fclose(file) != 0;
}
