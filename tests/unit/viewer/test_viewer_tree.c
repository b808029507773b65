/* viewer/walk, tree_print, table_write, sorted_print: order, depth, and trees of any shape. */
#include "unit/tap.h"

#include "unit/viewer_build.h"
#include "viewer/print/printers.h"
#include "viewer/query/filter.h"
#include "viewer/query/walk.h"

static struct proton_error err;

struct scene {
	struct profile *profile;
	uint8_t *state;
	struct metric_column column;
	struct view view;
};

/* Takes the profile. */
static void show(struct scene *scene, struct profile *profile, const char *metric, size_t depth)
{
	CHECK(!profile->out_of_memory);
	*scene = (struct scene){.profile = profile};
	scene->state = filter_prune(profile);
	scene->view = (struct view){
		.profile = profile,
		.state = scene->state,
		.columns = &scene->column,
		.shown_count = 1,
		.depth = depth,
	};
	metrics_init(&scene->view.metrics, profile);
	CHECK_OK(derive_column(&scene->view.metrics, metric, &scene->column, &err), err);
}

static void end(struct scene *scene)
{
	metric_column_fini(&scene->column);
	metrics_fini(&scene->view.metrics);
	free(scene->state);
	profile_free(scene->profile);
}

/* The order of the walk as "name:level " words; "+N" for omitted nodes. */
static const char *walked(const struct scene *scene)
{
	static char text[1024];
	struct walk_step step;
	struct walk walk;
	size_t used = 0;

	walk_init(&walk, &scene->view);
	while (walk_next(&walk, &step)) {
		const struct profile *profile = scene->profile;
		uint32_t frame = profile->nodes[step.node].frame;
		const char *name = step.is_more ? ""
				   : step.node == 0
					   ? "ROOT"
					   : profile_text(profile, profile->frames[frame].name);

		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s:%u%s",
					 used ? " " : "", name, step.level,
					 step.is_last ? "." : "");
		if (step.more)
			used += (size_t)snprintf(text + used, sizeof(text) - used, "+%u",
						 step.more);
	}
	walk_fini(&walk);
	return text;
}

static struct profile *family(void)
{
	struct profile *profile = profile_new();
	uint32_t small = build_node(profile, 0, "small");
	uint32_t large = build_node(profile, 0, "large");
	uint32_t equal = build_node(profile, 0, "equal");

	build_kernel(profile, small, "CUDA", 0, 1, 10);
	build_kernel(profile, build_node(profile, large, "x"), "CUDA", 0, 1, 20);
	build_kernel(profile, build_node(profile, large, "y"), "CUDA", 0, 1, 30);
	build_kernel(profile, equal, "CUDA", 0, 1, 10);
	return profile;
}

TEST(siblings_come_largest_first_and_equals_in_order)
{
	struct scene scene;

	show(&scene, family(), "time", 100);
	CHECK_STR(walked(&scene), "ROOT:0. large:1 y:2 x:2. small:1 equal:1.");
	end(&scene);
}

TEST(text_leaves_the_order_of_the_file)
{
	struct scene scene;

	show(&scene, family(), "device_type", 100);
	CHECK_STR(walked(&scene), "ROOT:0. small:1 large:1 x:2 y:2. equal:1.");
	end(&scene);
}

TEST(omitted_levels_are_counted)
{
	struct scene scene;

	show(&scene, family(), "time", 2);
	CHECK_STR(walked(&scene), "ROOT:0. large:1+2 small:1 equal:1.");
	end(&scene);
	show(&scene, family(), "time", 1);
	CHECK_STR(walked(&scene), "ROOT:0.+5");
	end(&scene);
}

TEST(frames_below_a_threshold_are_counted_where_they_were)
{
	bool is_enough[16];
	struct scene scene;

	show(&scene, family(), "time", 100);
	CHECK_LE(scene.profile->node_count, 16);
	for (size_t i = 0; i < scene.profile->node_count; i++)
		is_enough[i] = scene.column.values[i] >= 25;
	filter_require(scene.profile, scene.state, is_enough);
	CHECK_STR(walked(&scene), "ROOT:0. large:1 y:2 :2.+1 :1.+2");
	end(&scene);
}

TEST(an_exclusive_metric_sorts_by_the_best_below)
{
	struct profile *profile = profile_new();
	uint32_t a = build_node(profile, 0, "a");
	uint32_t b = build_node(profile, 0, "b");
	struct scene scene;

	build_number(profile, build_node(profile, a, "low"), "x", METRIC_EXCLUSIVE, 1);
	build_number(profile, build_node(profile, b, "mid"), "x", METRIC_EXCLUSIVE, 2);
	build_number(profile, build_node(profile, b, "high"), "x", METRIC_EXCLUSIVE, 3);
	build_number(profile, build_node(profile, 0, "between"), "x", METRIC_EXCLUSIVE, 2.5);
	show(&scene, profile, "x", 100);
	CHECK_STR(walked(&scene), "ROOT:0. b:1 high:2 mid:2. between:1 a:1. low:2.");
	end(&scene);
}

static size_t count_lines(const struct out *out)
{
	size_t lines = 0;

	for (size_t i = 0; i < out->length; i++)
		lines += out->bytes[i] == '\n';
	return lines;
}

#define DEEP 100000

static struct profile *chain(void)
{
	struct profile *profile = profile_new();
	uint32_t node = 0;

	for (uint32_t i = 0; i < DEEP; i++)
		node = build_node(profile, node, "f");
	build_kernel(profile, node, "CUDA", 0, 1, 10);
	return profile;
}

TEST(a_tree_of_100000_levels_is_printed)
{
	struct scene scene;
	struct out out;

	show(&scene, chain(), "time", SIZE_MAX);
	out_init(&out, -1);
	tree_print(&scene.view, &out);
	CHECK_EQ(count_lines(&out), DEEP + 1 + 3);
	CHECK_LT(out.length, DEEP * 400ll); /* indentation is limited */
	CHECK(memmem(out.bytes, out.length, "+99900 f", 8) != NULL);
	out_fini(&out);
	out_init(&out, -1);
	table_write(&scene.view, &(struct report){.format = REPORT_CSV, .out = &out});
	CHECK_EQ(count_lines(&out), DEEP + 2);
	CHECK(memmem(out.bytes, out.length, "\n100000,99999,100000,f,10\n", 26) != NULL);
	out_fini(&out);
	out_init(&out, -1);
	sorted_print(&scene.view, &out);
	CHECK_EQ(count_lines(&out), DEEP + 2);
	out_fini(&out);
	end(&scene);
}

TEST(a_node_of_100000_children_is_printed)
{
	struct profile *profile = profile_new();
	struct scene scene;
	struct out out;

	for (uint32_t i = 0; i < DEEP; i++)
		build_kernel(profile, build_node(profile, 0, "k"), "CUDA", 0, 1,
			     1 + i * 7919ull % DEEP);
	show(&scene, profile, "time", 100);
	out_init(&out, -1);
	tree_print(&scene.view, &out);
	CHECK_EQ(count_lines(&out), DEEP + 1 + 3);
	out_fini(&out);
	end(&scene);
}
