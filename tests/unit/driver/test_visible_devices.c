/*
 * Visible devices: HIP ordinals of four GPUs under the variables that select and reorder them, as
 * the HSA runtime and HIP read them, and of the GPUs of a topology directory.
 */
#include "unit/recorded.h"

#include "driver/amd_gpus.h"

#define GPUS 4

static const uint64_t ids[GPUS] = {
	0xbabababababababa,
	0xabbaabbaabbaabba,
	0xbabaabbaabbababa,
	0,
};

static int hip_count = -1;

/* HIP's devices, by the machine's numbers: "31" is GPU 3 and then 1. NULL: not set. */
static const char *devices(const char *rocr, const char *hip, const char *cuda, const char *gpu)
{
	const char *names[] = {"ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
			       "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"};
	const char *values[] = {rocr, hip, cuda, gpu};
	static char text[GPUS + 1];
	int ordinals[GPUS];

	for (int i = 0; i < 4; i++)
		if (values[i])
			setenv(names[i], values[i], 1);
		else
			unsetenv(names[i]);
	amd_gpus_map_visible(ids, GPUS, hip_count, ordinals);
	memset(text, 0, sizeof(text));
	for (int i = 0; i < GPUS; i++) {
		CHECK_LE(-1, ordinals[i]);
		CHECK_LE(ordinals[i], GPUS - 1);
		if (ordinals[i] >= 0) {
			CHECK_EQ(text[ordinals[i]], '\0'); /* one GPU per ordinal */
			text[ordinals[i]] = (char)('0' + i);
		}
	}
	return text;
}

static const char *rocr(const char *value)
{
	return devices(value, NULL, NULL, NULL);
}

static const char *hip(const char *value)
{
	return devices(NULL, value, NULL, NULL);
}

TEST(without_variables_every_gpu_has_its_own_number)
{
	CHECK_STR(devices(NULL, NULL, NULL, NULL), "0123");
	CHECK_STR(devices(NULL, "", "", ""), "0123"); /* HIP takes empty as not set */
}

TEST(the_hsa_runtime_selects_and_reorders)
{
	CHECK_STR(rocr("2"), "2");
	CHECK_STR(rocr("3,0"), "30");
	CHECK_STR(rocr("3,2,1,0"), "3210");
	CHECK_STR(rocr(""), ""); /* set and empty: none */
	CHECK_STR(rocr("-1"), "");
	CHECK_STR(rocr("1,-1,2"), "1");
	CHECK_STR(rocr("1,4,2"), "1");
	CHECK_STR(rocr("99999999999999999999"), "");
}

TEST(the_hsa_runtime_allows_spaces_and_other_bases)
{
	CHECK_STR(rocr(" 3 ,\t1"), "31");
	CHECK_STR(rocr("0x2,01,+0"), "210");
	CHECK_STR(rocr("2,"), "2");
	CHECK_STR(rocr(",2"), "");
	CHECK_STR(rocr("2,,1"), "2");
	CHECK_STR(rocr("2 1"), "");
	CHECK_STR(rocr("2;1"), "");
	CHECK_STR(rocr("1a"), "");
	CHECK_STR(rocr("0x"), "");
	CHECK_STR(rocr("none"), "");
}

TEST(the_hsa_runtime_ends_its_list_at_a_duplicate)
{
	CHECK_STR(rocr("2,2,1"), "2");
	CHECK_STR(rocr("2,1,2,0"), "21");
	CHECK_STR(rocr("1,GPU-ABBAABBAABBAABBA,0"), "1");
}

TEST(the_hsa_runtime_takes_abbreviated_unique_ids_in_any_case)
{
	CHECK_STR(rocr("GPU-abbaabbaabbaabba"), "1");
	CHECK_STR(rocr("gpu-ABBA"), "1");
	CHECK_STR(rocr("3,GPU-BABABABABABABABA,4"), "30");
	CHECK_STR(rocr("GPU-baba"), ""); /* two begin with it */
	CHECK_STR(rocr("GPU-babaa,GPU-babab"), "20");
	CHECK_STR(rocr("GPU-"), "");
	CHECK_STR(rocr("GPU-XX"), ""); /* the text of a GPU without one */
	CHECK_STR(rocr("GPU-abbaabbaabbaabba0"), "");
	CHECK_STR(rocr("GPU-0000000000000000"), "");
}

TEST(hip_selects_and_reorders)
{
	CHECK_STR(hip("2"), "2");
	CHECK_STR(hip("3,1"), "31");
	CHECK_STR(hip("-1"), "");
	CHECK_STR(hip("0,-1,2"), "0");
	CHECK_STR(hip("1,4,2"), "1");
	CHECK_STR(hip("3,"), "3");
	CHECK_STR(hip(",3"), "");
}

TEST(hip_skips_duplicates)
{
	CHECK_STR(hip("2,2,1"), "21");
	CHECK_STR(hip("1,GPU-abba,0"), "10");
}

TEST(hip_takes_numbers_only_as_it_prints_them)
{
	CHECK_STR(hip(" 1"), "");
	CHECK_STR(hip("1 "), "");
	CHECK_STR(hip("0, 1"), "0");
	CHECK_STR(hip("+1"), "");
	CHECK_STR(hip("01"), "");
	CHECK_STR(hip("0x1"), "");
	CHECK_STR(hip("00"), "");
	CHECK_STR(hip("all"), "");
	CHECK_STR(hip("4294967297"), "");
}

TEST(hip_takes_the_first_gpu_of_an_abbreviated_unique_id)
{
	CHECK_STR(hip("GPU-abbaabbaabbaabba"), "1");
	CHECK_STR(hip("GPU-baba"), "0");
	CHECK_STR(hip("GPU-babaa,GPU-baba"), "20");
	CHECK_STR(hip("GPU-ABBA"), ""); /* it prints them in lower case */
	CHECK_STR(hip("GPU-XX,0"), "30");
	CHECK_STR(hip("GPU-"), "0");
	CHECK_STR(hip("gpu-abba"), "");
}

TEST(hip_counts_within_the_list_of_the_hsa_runtime)
{
	CHECK_STR(devices("3,2,0", "1", NULL, NULL), "2");
	CHECK_STR(devices("3,2,0", "2,0", NULL, NULL), "03");
	CHECK_STR(devices("3,2,0", "3", NULL, NULL), "");
	CHECK_STR(devices("3,2,0", "GPU-babab,0", NULL, NULL), "03");
	CHECK_STR(devices("3,2,0", "GPU-abba", NULL, NULL), ""); /* hidden from HIP */
	CHECK_STR(devices("", "0", NULL, NULL), "");
	CHECK_STR(devices("GPU-abba,0", "1", NULL, NULL), "0");
}

TEST(the_first_variable_of_hip_that_is_not_empty_counts)
{
	CHECK_STR(devices(NULL, "2", "1", "0"), "2");
	CHECK_STR(devices(NULL, NULL, "1", "0"), "1");
	CHECK_STR(devices(NULL, "", "1", "0"), "1");
	CHECK_STR(devices(NULL, NULL, "", "0"), "0");
	CHECK_STR(devices("3,2", NULL, "1", NULL), "2");
	CHECK_STR(devices("3,2", NULL, NULL, "1,0"), "23");
	CHECK_STR(devices(NULL, NULL, "GPU-abba,3", NULL), "13");
}

TEST(the_number_of_devices_of_hip_decides_about_gpu_device_ordinal)
{
	hip_count = 1;
	CHECK_STR(devices(NULL, NULL, NULL, "2"), "2");
	hip_count = 4; /* HIP ignores the variable */
	CHECK_STR(devices(NULL, NULL, NULL, "2"), "0123");
	CHECK_STR(devices(NULL, "2", NULL, NULL), "2");
	hip_count = 0;
	CHECK_STR(devices(NULL, NULL, NULL, "2"), "0123");
	hip_count = 2;
	CHECK_STR(devices("3,1", NULL, NULL, "0"), "31");
}

TEST(no_gpus_and_many_gpus)
{
	static uint64_t many[2 * VISIBLE_DEVICES_MAX];
	static int ordinals[2 * VISIBLE_DEVICES_MAX];

	unsetenv("HIP_VISIBLE_DEVICES");
	setenv("ROCR_VISIBLE_DEVICES", "0", 1);
	amd_gpus_map_visible(NULL, 0, -1, NULL);
	unsetenv("ROCR_VISIBLE_DEVICES");
	setenv("HIP_VISIBLE_DEVICES", "255,256", 1);
	amd_gpus_map_visible(many, 2 * VISIBLE_DEVICES_MAX, -1, ordinals);
	CHECK_EQ(ordinals[255], 0);
	for (int i = 0; i < 2 * VISIBLE_DEVICES_MAX; i++)
		CHECK_EQ(ordinals[i], i == 255 ? 0 : -1);
}

/* ------------------------------------------------------------------ the topology */

static void write_file(const char *path, const char *text)
{
	FILE *file = fopen(rec_path(path), "w");

	CHECK(file);
	fputs(text, file);
	fclose(file);
}

/* NULL: the file is a directory, which can be opened and not read, like a hidden node's. */
static void add_node(unsigned node, const char *gpu_id, const char *properties)
{
	char path[128];

	snprintf(path, sizeof(path), "nodes/%u", node);
	CHECK_EQ(mkdir(rec_path(path), 0700), 0);
	snprintf(path, sizeof(path), "nodes/%u/name", node);
	write_file(path, "\n");
	snprintf(path, sizeof(path), "nodes/%u/gpu_id", node);
	if (gpu_id)
		write_file(path, gpu_id);
	else
		CHECK_EQ(mkdir(rec_path(path), 0700), 0);
	snprintf(path, sizeof(path), "nodes/%u/properties", node);
	write_file(path, properties);
}

static void begin_topology(void)
{
	CHECK_EQ(mkdir(rec_path("nodes"), 0700), 0);
	setenv("PROTON_KFD_TOPOLOGY", rec_dir(), 1);
	unsetenv("ROCR_VISIBLE_DEVICES");
	unsetenv("HIP_VISIBLE_DEVICES");
	unsetenv("CUDA_VISIBLE_DEVICES");
	unsetenv("GPU_DEVICE_ORDINAL");
	setenv("PROTON_HIP_PATH", "/nonexistent", 1);
}

TEST(nodes_are_read_from_the_topology_without_those_that_a_container_hides)
{
	struct amd_gpu gpus[2];

	begin_topology();
	CHECK_EQ(amd_gpus_read(gpus, 2), 0);
	add_node(0, "0\n", "cpu_cores_count 96\nsimd_count 0\n");
	add_node(1, "0\n", "cpu_cores_count 96\nsimd_count 0\n");
	add_node(2, "51110\n", "simd_count 304\nunique_id 13505416284914363232\n");
	add_node(3, NULL, "");
	add_node(4, "777\n", "simd_count 304\ndrm_render_minor 99999\n");
	add_node(5, "888\n", "cpu_cores_count 0\nsimd_count 304\nunique_id 0\n");
	CHECK_EQ(mkdir(rec_path("nodes/6"), 0700), 0);
	write_file("nodes/6/name", "\n"); /* and no gpu_id */
	CHECK_EQ(amd_gpus_read(gpus, 2), 2);
	CHECK_EQ(gpus[0].node, 2);
	CHECK_EQ(gpus[0].unique_id, 13505416284914363232u);
	CHECK_EQ(gpus[1].node, 3);
	CHECK_EQ(gpus[1].unique_id, 0);
	CHECK_EQ(amd_gpus_read(gpus, 1), 2);
	setenv("ROCR_VISIBLE_DEVICES", "1,0", 1);
	CHECK_EQ(amd_gpus_ordinal_of_node(2), 1);
	CHECK_EQ(amd_gpus_ordinal_of_node(3), 0);
	CHECK_EQ(amd_gpus_ordinal_of_node(0), -1);
	CHECK_EQ(amd_gpus_ordinal_of_node(5), -1);
}

TEST(a_gpu_that_is_not_visible_has_no_ordinal)
{
	begin_topology();
	add_node(0, "1\n", "simd_count 304\nunique_id 5\n");
	add_node(1, "2\n", "simd_count 304\nunique_id 6\n");
	setenv("HIP_VISIBLE_DEVICES", "GPU-0000000000000006", 1);
	CHECK_EQ(amd_gpus_ordinal_of_node(0), -1);
	CHECK_EQ(amd_gpus_ordinal_of_node(1), 0);
	CHECK_EQ(amd_gpus_hip_count(), -1);
}
