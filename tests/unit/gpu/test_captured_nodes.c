/* backend/gpu/captured_nodes: which captured node a record belongs to, and when nodes are freed. */
#include "unit/recorded.h"

#include "backend/gpu/captured_nodes.h"

#define NODE(graph, node) ((uint64_t)(graph) << 32 | (node))

static int session;

static void start(void)
{
	session = rec_start("captured");
	for (uint32_t graph = 1; graph <= 2; graph++)
		for (uint32_t node = 1; node <= 3; node++)
			captured_nodes_add(NODE(graph, node), true, graph * 100 + node);
}

static void finish(void)
{
	captured_nodes_clear();
	rec_finalize(session, "none");
}

TEST(the_source_of_a_node_counts_if_it_is_known)
{
	start();
	CHECK_U64(captured_nodes_origin(NODE(1, 1), NODE(2, 3)), NODE(2, 3));
	CHECK_U64(captured_nodes_origin(NODE(1, 1), NODE(9, 9)), NODE(1, 1));
	CHECK_U64(captured_nodes_origin(NODE(9, 9), NODE(2, 3)), NODE(2, 3));
	finish();
}

TEST(origins_that_differ_are_counted_until_the_last_session_ends)
{
	start();
	captured_nodes_origin(NODE(1, 1), NODE(9, 9));
	captured_nodes_origin(NODE(9, 9), NODE(1, 1));
	captured_nodes_clone(NODE(3, 7), NODE(1, 1));
	captured_nodes_origin(NODE(3, 7), NODE(1, 1)); /* the same work */
	CHECK_EQ(captured_nodes_differing(), 0);
	captured_nodes_origin(NODE(1, 1), NODE(2, 3));
	captured_nodes_origin(NODE(1, 1), NODE(1, 2));
	CHECK_EQ(captured_nodes_differing(), 2);
	captured_nodes_clear();
	CHECK_EQ(captured_nodes_differing(), 0);
	CHECK_EQ(captured_nodes_count(), 0);
	CHECK_U64(captured_nodes_crc(NODE(1, 1)), 0);
	finish();
}

TEST(a_clone_shares_the_code_of_its_original_and_outlives_it)
{
	start();
	captured_nodes_clone(NODE(3, 7), NODE(1, 2));
	captured_nodes_clone(NODE(3, 8), NODE(9, 9)); /* unknown: nothing */
	CHECK_EQ(captured_nodes_count(), 7);
	captured_nodes_destroy(1, false);
	CHECK_EQ(captured_nodes_count(), 4);
	CHECK_U64(captured_nodes_crc(NODE(3, 7)), 102);
	CHECK_U64(captured_nodes_crc(NODE(1, 2)), 0);
	captured_nodes_clone(NODE(3, 7), NODE(2, 3)); /* in place of the first */
	CHECK_EQ(captured_nodes_count(), 4);
	CHECK_U64(captured_nodes_crc(NODE(3, 7)), 203);
	finish();
}

TEST(a_destroyed_executable_graph_stays_until_its_records_have_arrived)
{
	start();
	captured_nodes_set_executable(1);
	captured_nodes_destroy(1, false);
	captured_nodes_destroy(2, true);
	CHECK_EQ(captured_nodes_count(), 6);
	captured_nodes_forget_destroyed(2); /* long ago */
	CHECK_EQ(captured_nodes_count(), 6);
	captured_nodes_forget_destroyed(UINT64_MAX);
	CHECK_EQ(captured_nodes_count(), 0);
	finish();
}

TEST(an_owned_graph_goes_with_the_outermost_graph_around_it)
{
	start();
	captured_nodes_own(2, 1, false);
	captured_nodes_own(2, 5, false); /* the first owner stays */
	captured_nodes_own(1, 1, false); /* not itself */
	captured_nodes_own(8, 1, false); /* unknown */
	captured_nodes_own(9, 1, true);
	CHECK_EQ(captured_nodes_owner(2), 1);
	CHECK_EQ(captured_nodes_owner(1), 0);
	CHECK_EQ(captured_nodes_owner(8), 0);
	CHECK_EQ(captured_nodes_owner(9), 1);
	captured_nodes_destroy(1, false);
	CHECK_EQ(captured_nodes_count(), 0);
	CHECK_EQ(captured_nodes_owner(9), 0);
	finish();
}
