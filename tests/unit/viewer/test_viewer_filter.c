/* viewer/filter and viewer/pattern: selection of frames. */
#include "unit/tap.h"

#include "unit/viewer_build.h"
#include "viewer/query/filter.h"
#include "viewer/query/pattern.h"

static struct proton_error err;

static bool found(const char *pattern, const char *text)
{
	regex_t regex;

	CHECK_OK(pattern_compile(&regex, pattern, REG_NOSUB, &err), err);
	bool result = regexec(&regex, text, 0, NULL, 0) == 0;
	regfree(&regex);
	return result;
}

TEST(patterns_are_searched_anywhere)
{
	CHECK(found("b", "abc"));
	CHECK(found("^a.c$", "abc"));
	CHECK(!found("^b", "abc"));
	CHECK(found("\\Aabc\\Z", "abc"));
	CHECK(found("", "anything"));
}

TEST(classes_of_python_are_understood)
{
	CHECK(found("^\\d+$", "0123456789"));
	CHECK(!found("\\d", "abc"));
	CHECK(found("^\\w+$", "aZ_9"));
	CHECK(!found("^\\w+$", "a-b"));
	CHECK(found("a\\sb", "a\tb"));
	CHECK(found("^\\D+$", "abc"));
	CHECK(!found("\\D", "123"));
	CHECK(!found("\\W", "a_1"));
	CHECK(found("\\S", " x "));
	CHECK(found("^[\\d.]+$", "1.25"));
	CHECK(!found("^[^\\d\\s]$", "5"));
	CHECK(found("^[\\w:]+$", "std::sort"));
}

TEST(escapes_work_inside_brackets)
{
	CHECK(found("^[\\]]$", "]"));
	CHECK(found("^[]a]+$", "a]"));
	CHECK(found("^[\\-a]+$", "a-"));
	CHECK(found("^[a-]+$", "a-"));
	CHECK(!found("^[a-]$", "b"));
	CHECK(found("^[-a\\]]+$", "a-]"));
	CHECK(!found("^[-a\\]]$", "_"));
	CHECK(found("^[\\^]$", "^"));
	CHECK(!found("^[\\^]$", "a"));
	CHECK(found("^[\\^\\-]+$", "-^"));
	CHECK(!found("^[\\^\\-]$", "a"));
	CHECK(found("^[^\\^]$", "a"));
	CHECK(!found("^[^\\^]$", "^"));
	CHECK(found("^[\\\\]$", "\\"));
	CHECK(found("^[[:alpha:]]+$", "abc"));
	CHECK(found("^[a-c]+$", "abc"));
	CHECK(found("^\\(\\[x\\]\\)$", "([x])"));
}

TEST(groups_and_quantifiers_of_python_are_understood)
{
	CHECK(found("^(?:ab|cd)+$", "abcd"));
	CHECK(found("^a+?b*?c??d{1,2}?$", "aabdd"));
	CHECK(found("(?i)KERNEL", "my_kernel"));
	CHECK(!found("KERNEL", "my_kernel"));
	CHECK(found("^a\\?$", "a?"));
	CHECK(found("^a\\*?$", "a"));
}

static const char *refusal(const char *pattern)
{
	regex_t regex;

	CHECK_EQ(pattern_compile(&regex, pattern, REG_NOSUB, &err), PROTON_E_INVALID);
	return err.text;
}

TEST(invalid_filters_are_named_in_the_error)
{
	CHECK_HAS(refusal("(ab"), "\"(ab\" is not a regular expression: ");
	CHECK_HAS(refusal("(?=a)"), "groups that begin with (?=");
	CHECK_HAS(refusal("(?P<n>a)"), "groups that begin with (?P");
	CHECK_HAS(refusal("[ab"), "unmatched [");
	CHECK_HAS(refusal("[a\\D]"), "\\D is not supported in brackets");
	CHECK_HAS(refusal("(?"), "not supported");
	CHECK_HAS(refusal("["), "unmatched [");
	CHECK_HAS(refusal("[^"), "unmatched [");
}

/* 1 a ( 2 b ( 3 c, 4 d ), 5 e ), 6 f ( 7 c ); the leaves ran kernels of 10, 20, 30 and 40 ns. */
static struct profile *tree(void)
{
	struct profile *profile = profile_new();
	uint32_t a = build_node(profile, 0, "a");
	uint32_t b = build_node(profile, a, "b");
	uint32_t c = build_node(profile, b, "c");
	uint32_t d = build_node(profile, b, "d");
	uint32_t e = build_node(profile, a, "e");
	uint32_t f = build_node(profile, 0, "f");
	uint32_t g = build_node(profile, f, "c");

	build_kernel(profile, c, "CUDA", 0, 1, 10);
	build_kernel(profile, d, "CUDA", 0, 1, 20);
	build_kernel(profile, e, "CUDA", 0, 1, 30);
	build_kernel(profile, g, "CUDA", 0, 1, 40);
	CHECK(!profile->out_of_memory);
	return profile;
}

/* The states as digits, in the order of the nodes: "00112..." */
static const char *digits(const struct profile *profile, const uint8_t *state)
{
	static char text[64];

	for (size_t i = 0; i < profile->node_count; i++)
		text[i] = (char)('0' + state[i]);
	text[profile->node_count] = '\0';
	return text;
}

TEST(include_keeps_whole_paths)
{
	struct profile *profile = tree();
	uint8_t *state = filter_prune(profile);
	size_t matches;

	CHECK_STR(digits(profile, state), "00000000");
	CHECK_OK(filter_include(profile, state, "^b$", &matches, &err), err);
	CHECK_EQ(matches, 1);
	CHECK_STR(digits(profile, state), "00000111");
	free(state);
	state = filter_prune(profile);
	CHECK_OK(filter_include(profile, state, "c", &matches, &err), err);
	CHECK_EQ(matches, 2);
	CHECK_STR(digits(profile, state), "00001100");
	free(state);
	state = filter_prune(profile);
	CHECK_OK(filter_include(profile, state, "ROOT", &matches, &err), err);
	CHECK_EQ(matches, 0);
	CHECK_STR(digits(profile, state), "01111111");
	free(state);
	profile_free(profile);
}

TEST(exclude_drops_matches_with_their_subtrees)
{
	struct profile *profile = tree();
	uint8_t *state = filter_prune(profile);
	size_t matches;

	CHECK_OK(filter_exclude(profile, state, "^(b|c)$", &matches, &err), err);
	CHECK_EQ(matches, 2); /* the c below b went with b */
	CHECK_STR(digits(profile, state), "00111001");
	free(state);
	profile_free(profile);
}

TEST(requirements_keep_ancestors_of_what_is_kept)
{
	struct profile *profile = tree();
	uint8_t *state = filter_prune(profile);

	filter_require(profile, state,
		       (bool[]){false, false, false, false, true, true, false, false});
	CHECK_STR(digits(profile, state), "00020022");
	free(state);
	state = filter_prune(profile);
	filter_require(profile, state, (bool[]){false, false, true, true, true, true, false, true});
	CHECK_STR(digits(profile, state), "00000000");
	free(state);
	profile_free(profile);
}

TEST(launch_metadata_and_empty_contexts_are_removed_with_their_numbers)
{
	struct profile *profile = profile_new();
	uint32_t scope = build_node(profile, 0, "scope");
	uint32_t metadata = build_node(profile, scope, "__proton_launch_metadata:k");
	uint32_t inside = build_node(profile, metadata, "fill");
	uint32_t kernel = build_node(profile, scope, "k");
	uint32_t empty = build_node(profile, 0, "empty");

	build_node(profile, empty, "also empty");
	build_node(profile, 0, "__proton_launch_metadata_not");
	build_kernel(profile, inside, "CUDA", 0, 1, 10);
	build_kernel(profile, kernel, "CUDA", 0, 1, 20);
	uint8_t *state = filter_prune(profile);
	CHECK_STR(digits(profile, state), "00330333");
	CHECK_EQ(profile->nodes[inside].first_kernel, 0);
	CHECK_NE(profile->nodes[kernel].first_kernel, 0);
	free(state);
	profile_free(profile);
}
