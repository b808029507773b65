/* model/profile: entries are found again, lists keep their order, names are readable. */
#include "unit/tap.h"

#include "model/profile.h"

TEST(a_new_profile_is_a_root)
{
	struct profile *profile = profile_new();

	CHECK(profile);
	CHECK_EQ(profile->node_count, 1);
	CHECK_EQ(profile->nodes[0].first_child, 0);
	CHECK_EQ(profile->frames[0].kind, FRAME_ROOT);
	CHECK_STR(profile_text(profile, profile->frames[0].name), "ROOT");
	CHECK_EQ(profile->metric_count, 0);
	CHECK_EQ(profile->device_count, 0);
	profile_free(profile);
	profile_free(NULL);
}

TEST(frames_are_found_by_content)
{
	struct profile *profile = profile_new();
	uint32_t first[500];

	for (uint32_t round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < 500; i++) {
			struct row_frame frame = {.kind = i % 2 ? FRAME_NAME : FRAME_KERNEL,
						  .name = i / 2};
			uint32_t id = profile_frame(profile, frame);

			if (round == 0)
				first[i] = id;
			CHECK_EQ(id, first[i]);
			CHECK_NE(id, 0);
		}
	}
	CHECK_EQ(profile->frame_count, 501);
	profile_free(profile);
}

TEST(appended_frames_are_found_too)
{
	struct profile *profile = profile_new();
	struct row_frame a = {.kind = FRAME_NAME, .name = profile_add_text(profile, "a")};
	struct row_frame b = {.kind = FRAME_NAME, .name = profile_add_text(profile, "b")};
	uint32_t first = profile_frame(profile, a);
	uint32_t second = profile_frame_append(profile, b);

	CHECK_NE(first, second);
	CHECK_EQ(profile_frame(profile, a), first);
	CHECK_EQ(profile_frame(profile, b), second);
	profile_free(profile);
}

TEST(metrics_are_found_by_name_and_type)
{
	struct profile *profile = profile_new();
	uint32_t name = profile_add_text(profile, "flops");
	uint32_t ints = profile_metric(profile, name, PROTON_METRIC_INT64, 0);
	uint32_t doubles = profile_metric(profile, name, PROTON_METRIC_DOUBLE, METRIC_EXCLUSIVE);

	CHECK_NE(ints, doubles);
	CHECK_EQ(profile_metric(profile, name, PROTON_METRIC_INT64, METRIC_PROPERTY), ints);
	CHECK_EQ(profile->metrics[ints].flags, 0);
	CHECK_EQ(profile->metrics[doubles].flags, METRIC_EXCLUSIVE);
	for (uint32_t i = 0; i < 300; i++)
		profile_metric(profile, 1000 + i, PROTON_METRIC_STRING, 0);
	CHECK_EQ(profile->metric_count, 302);
	CHECK_EQ(profile_metric(profile, name, PROTON_METRIC_DOUBLE, 0), doubles);
	profile_free(profile);
}

TEST(children_keep_their_order)
{
	struct profile *profile = profile_new();
	uint32_t a = profile_node(profile, 0, 0);
	uint32_t b = profile_node(profile, 0, 0);
	uint32_t below_a = profile_node(profile, a, 0);
	uint32_t c = profile_node(profile, 0, 0);

	CHECK_EQ(profile->nodes[0].first_child, a);
	CHECK_EQ(profile->nodes[a].next_sibling, b);
	CHECK_EQ(profile->nodes[b].next_sibling, c);
	CHECK_EQ(profile->nodes[c].next_sibling, 0);
	CHECK_EQ(profile->nodes[0].last_child, c);
	CHECK_EQ(profile->nodes[a].first_child, below_a);
	CHECK_EQ(profile->nodes[below_a].parent, a);
	profile_free(profile);
}

TEST(values_and_kernels_keep_their_order_when_nodes_take_turns)
{
	struct profile *profile = profile_new();
	uint32_t metric =
		profile_metric(profile, profile_add_text(profile, "m"), PROTON_METRIC_INT64, 0);
	uint32_t device = profile_device(profile, profile_add_text(profile, "CUDA"), 0);
	uint32_t nodes[2] = {profile_node(profile, 0, 0), profile_node(profile, 0, 0)};

	for (int i = 0; i < 10; i++) {
		profile_value(profile, nodes[i % 2], metric)->as.int64 = i;
		profile_kernel(profile, nodes[i % 2], device)->count = (uint64_t)i;
	}
	for (int n = 0; n < 2; n++) {
		uint32_t v = profile->nodes[nodes[n]].first_value;
		uint32_t k = profile->nodes[nodes[n]].first_kernel;

		for (int i = n; i < 10; i += 2) {
			CHECK_EQ(profile->values[v].as.int64, i);
			CHECK_EQ(profile->kernels[k].count, i);
			v = profile->values[v].next;
			k = profile->kernels[k].next;
		}
		CHECK_EQ(v, 0);
		CHECK_EQ(k, 0);
	}
	profile_free(profile);
}

TEST(a_value_without_a_metric_goes_to_the_dummy)
{
	struct profile *profile = profile_new();

	CHECK_PTR(profile_value(profile, 0, 7), &profile->values[0]);
	CHECK_PTR(profile_kernel(profile, 0, 0), &profile->kernels[0]);
	CHECK_EQ(profile->nodes[0].first_value, 0);
	CHECK_EQ(profile->nodes[0].first_kernel, 0);
	profile_free(profile);
}

TEST(devices_are_found_and_limited)
{
	struct profile *profile = profile_new();
	uint32_t cuda = profile_add_text(profile, "CUDA");
	uint32_t hip = profile_add_text(profile, "HIP");

	CHECK_EQ(profile_device(profile, cuda, 0), 0);
	CHECK_EQ(profile_device(profile, hip, 0), 1);
	CHECK_EQ(profile_device(profile, cuda, 0), 0);
	CHECK(!profile->is_damaged);
	for (uint32_t i = 0; i < PROFILE_DEVICES_MAX + 10; i++)
		profile_device(profile, cuda, i);
	CHECK_EQ(profile->device_count, PROFILE_DEVICES_MAX);
	CHECK(profile->is_damaged);
	profile_free(profile);
}

TEST(vectors_hold_their_length)
{
	struct profile *profile = profile_new();
	uint64_t elements[3] = {7, 8, 9};
	uint32_t vector = profile_vector(profile, elements, 3);
	uint32_t empty = profile_vector(profile, NULL, 0);

	CHECK_NE(vector, 0);
	CHECK_U64(profile->words[vector], 3);
	CHECK_U64(profile->words[vector + 3], 9);
	CHECK_U64(profile->words[empty], 0);
	CHECK_U64(profile->words[0], 0);
	profile_free(profile);
}

TEST(frame_names_are_readable)
{
	struct profile *profile = profile_new();
	struct row_frame source = {.kind = FRAME_SOURCE,
				   .name = profile_add_text(profile, "forward"),
				   .file = profile_add_text(profile, "/a/model.py"),
				   .line = 12};
	struct row_frame name = {.kind = FRAME_NAME, .name = profile_add_text(profile, "layer")};
	uint32_t frame = profile_frame(profile, source);
	char text[64];

	CHECK_EQ(profile_frame_text(profile, frame, text, sizeof(text)), 22);
	CHECK_STR(text, "/a/model.py:12@forward");
	CHECK_EQ(profile_frame_text(profile, frame, text, 5), 22);
	CHECK_STR(text, "/a/m");
	CHECK_EQ(profile_frame_text(profile, frame, NULL, 0), 22);
	profile_frame_text(profile, profile_frame(profile, name), text, sizeof(text));
	CHECK_STR(text, "layer");
	profile_free(profile);
}

TEST(info_and_counters_are_kept)
{
	struct profile *profile = profile_new();

	profile_info(profile, "host", "m1");
	profile_counter(profile, "kernels", false, 7);
	profile_counter(profile, "dropped", true, UINT64_MAX);
	CHECK_STR(profile_text(profile, profile->info[0].value), "m1");
	CHECK_EQ(profile->counter_count, 2);
	CHECK(profile->counters[1].is_loss);
	CHECK_U64(profile->counters[1].value, UINT64_MAX);
	profile_free(profile);
}
