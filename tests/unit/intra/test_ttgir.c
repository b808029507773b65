/* Records added by a user and automatic scopes, in TTGIR of real kernels. */
#include "intra/ttgir/ttgir.h"

#include "intra/marker.h"
#include "unit/tap.h"

static struct proton_error err;
static struct ttgir_result result;

/* ------------------------------------------------------------------ support */

static char *read_data(const char *name, size_t *length)
{
	char path[512];
	char *bytes;

	snprintf(path, sizeof(path), "%s/data/ttgir/%s.ttgir", TESTS_DIR, name);
	CHECK_OK(file_read_all(path, 0, &bytes, length, &err), err);
	bytes = realloc(bytes, *length + 1);
	bytes[*length] = '\0';
	return bytes;
}

static uint32_t count(const char *text, const char *part)
{
	uint32_t found = 0;

	for (; (text = strstr(text, part)); text += strlen(part))
		found++;
	return found;
}

/* Every line that is not a marker is unchanged and in order. */
static void check_rest(const char *made, const char *original)
{
	while (*made) {
		size_t length = strcspn(made, "\n");

		if (!memmem(made, length, "elementwise_inline_asm \"// proton.", 34) &&
		    !memmem(made, length, "proton.record ", 14)) {
			CHECK(strncmp(made, original, length + 1) == 0);
			original += length + (original[length] == '\n');
		}
		made += length + (made[length] == '\n');
	}
	CHECK_STR(original, "");
}

static int insert_scopes(const char *text, size_t length, const struct instrument_mode *mode,
			 enum ttgir_spelling spelling)
{
	struct ttgir_insertion how = {.spelling = spelling};

	return ttgir_insert_scopes(text, length, mode, &how, &result, &err);
}

/* A mode with all automatic scopes: the budget has its own tests. */
static struct instrument_mode read_mode(const char *mode_text)
{
	struct instrument_mode mode;

	CHECK_OK(instrument_mode_read(mode_text, &mode, &err), err);
	mode.budget = 0;
	return mode;
}

static void insert(const char *name, const char *mode_text, enum ttgir_spelling spelling)
{
	struct instrument_mode mode;
	size_t length;
	char *text = read_data(name, &length);

	mode = read_mode(mode_text);
	CHECK_OK(insert_scopes(text, length, &mode, spelling), err);
	if (result.text)
		check_rest(result.text, text);
	free(text);
}

static void translated(const char *text, const char *expected)
{
	CHECK_OK(ttgir_translate_records(text, strlen(text), false, &result, &err), err);
	CHECK_STR(result.text, expected);
	ttgir_result_fini(&result);
}

static void refused(const char *text, const char *why)
{
	CHECK_EQ(ttgir_translate_records(text, strlen(text), false, &result, &err),
		 PROTON_E_FORMAT);
	CHECK_STR(err.text, why);
	CHECK(!result.text);
}

#define MARK_START "%proton_0 = tt.elementwise_inline_asm \"// proton."
#define MARK_END "%proton_1 = tt.elementwise_inline_asm \"// proton."
#define MARK_REST "\" {constraints = \"=r\", packed_element = 1 : i32, pure = false} -> i32"

/* ------------------------------------------------------------------ records added by a user */

TEST(records_become_markers)
{
	static const char made[] = "module {\n"
				   "    " MARK_START "record start load" MARK_REST "\n"
				   "    %1 = tt.load %0 loc(#loc3)\n"
				   "\t" MARK_END "record end load" MARK_REST " loc(#loc3)\n"
				   "}";

	translated("module {\n"
		   "    proton.record start \"load\"\n"
		   "    %1 = tt.load %0 loc(#loc3)\n"
		   "\tproton.record end \"load\" loc(#loc3)\n"
		   "}",
		   made);
}

TEST(names_may_contain_any_character)
{
	static const char made[] = MARK_START "record start a%20b%22%5C%20%C3%A4%0A%25%24" MARK_REST
					      "\n";

	translated("proton.record start \"a b\\22\\\\ \\C3\\A4\\n%$\"\n", made);
}

TEST(ssa_names_do_not_clash)
{
	const char *text = "%proton_0 = x\nproton.record end \"a\"\n";

	CHECK_OK(ttgir_translate_records(text, strlen(text), false, &result, &err), err);
	CHECK_HAS(result.text, "%proton_0 = x\n%proton_v1_0 = tt.elementwise_inline_asm");
	ttgir_result_fini(&result);
}

TEST(amd_markers_use_vgprs)
{
	const char *text = "module attributes {ttg.target = \"hip:gfx942\"} {\n"
			   "  proton.record start \"a\"\n}\n";

	CHECK_OK(ttgir_translate_records(text, strlen(text), false, &result, &err), err);
	CHECK_HAS(result.text, "{constraints = \"=v\", ");
	ttgir_result_fini(&result);
	CHECK_OK(ttgir_translate_records("proton.record start \"a\"", 23, true, &result, &err),
		 err);
	CHECK_HAS(result.text, "{constraints = \"=v\", ");
	ttgir_result_fini(&result);
}

TEST(events_are_followed_into_partitions)
{
	static const char text[] =
		"  %e = proton.allocate_event \"copy\" : i32 loc(#loc1)\n"
		"  proton.event start %e : i32 loc(#loc2)\n"
		"  ttg.warp_specialize(%o, %e) attributes {registers = array<i32: 24>}\n"
		"  default {\n"
		"    ttg.warp_yield\n"
		"  }\n"
		"  partition0(%a: !ttg.memdesc<3x1xi64, #s>, %b: i32 loc(unknown)) {\n"
		"    proton.event end %b : i32\n"
		"    ttg.warp_return\n"
		"  } : (!ttg.memdesc<3x1xi64, #s>, i32) -> ()\n";

	CHECK_OK(ttgir_translate_records(text, strlen(text), false, &result, &err), err);
	CHECK_HAS(result.text, "  %e = arith.constant 0 : i32 loc(#loc1)\n");
	CHECK_HAS(result.text, "\n  " MARK_START "event start copy" MARK_REST " loc(#loc2)\n");
	CHECK_HAS(result.text, "\n    " MARK_END "event end copy" MARK_REST "\n");
	CHECK_EQ(count(result.text, "\n"), count(text, "\n"));
	ttgir_result_fini(&result);
}

TEST(parse_errors_have_a_line_number)
{
	refused("a\nproton.record begin \"x\"\n",
		"line 2: not of the form: proton.record start \"name\", or end \"name\"");
	refused("proton.record start x",
		"line 1: not of the form: proton.record start \"name\", or end \"name\"");
	refused("proton.record start \"x", "line 1: not of the form: proton.record start \"name\", "
					   "or end \"name\"");
	refused("proton.record start \"\"", "line 1: not of the form: proton.record start "
					    "\"name\", or end \"name\"");
	refused("proton.allocate_event \"x\" : i32",
		"line 1: not of the form: %event = proton.allocate_event \"name\" : i32");
	refused("proton.event start %4 : i32",
		"line 1: %4 is not defined by an earlier proton.allocate_event");
	refused("\n\nproton.event start "
		"%a123456789b123456789c123456789d123456789e123456789f123456789 : i32",
		"line 3: %a123456789b123456789c123456789d123456789e123456789f12345678 is not "
		"defined by an earlier proton.allocate_event");
	refused("proton.event %4",
		"line 1: not of the form: proton.event start %event : i32, or end");
	refused("  proton.flush\n",
		"line 1: unknown operation proton.flush; expected proton.record, proton.event "
		"or proton.allocate_event");
}

TEST(text_without_records_is_not_changed)
{
	const char *texts[] = {"", "\n", "module {\n}\n", "// proton.record in a comment\n"};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		CHECK_OK(ttgir_translate_records(texts[i], strlen(texts[i]), false, &result, &err),
			 err);
		CHECK(!result.text);
	}
}

/* ------------------------------------------------------------------ automatic scopes */

TEST(add_of_triton_3_6)
{
	insert("add_sm90_3_6", "default:auto=all", TTGIR_MARKERS);
	CHECK_EQ(result.scope_count, 3);
	CHECK_HAS(result.text, "\n    %proton_0 = tt.elementwise_inline_asm \"// proton.record "
			       "start load@intra_proto.py:126:16\" {constraints = \"=r\", "
			       "packed_element = 1 : i32, pure = false} -> i32 loc(#loc38)\n"
			       "    %a_6 = tt.load %a_5, %m_4");
	CHECK_HAS(result.text, "start load@intra_proto.py:126:42\"");
	CHECK_HAS(result.text, "record end store@intra_proto.py:129\" ");
	CHECK_EQ(count(result.text, "// proton.record"), 6);
	CHECK(!result.note);
	ttgir_result_fini(&result);
}

TEST(a_pipelined_matmul)
{
	insert("matmul_sm90", "default:auto=loads,dots,waits,loops", TTGIR_MARKERS);
	CHECK_HAS(result.text, "start loop@kernels.py:19\" {");
	CHECK_HAS(result.text, "start dot@kernels.py:22\" {");
	CHECK_HAS(result.text, "start dot_wait@kernels.py:22\" {");
	CHECK_HAS(result.text, "start async_wait@kernels.py:20\" {");
	/* Copies of the prologue and of the loop are one scope. */
	CHECK_EQ(count(result.text, "start async_copy@kernels.py:20\" {"), 3);
	CHECK_EQ(count(result.text, "store@"), 0);
	CHECK_EQ(count(result.text, "record start"), count(result.text, "record end"));
	ttgir_result_fini(&result);
	insert("matmul_sm90", "mma", TTGIR_MARKERS);
	CHECK_EQ(result.scope_count, 1);
	ttgir_result_fini(&result);
}

TEST(partitions)
{
	insert("matmul_partitions_sm100", "default:auto=partitions,dots", TTGIR_MARKERS);
	/* The default partition is empty. */
	CHECK_EQ(count(result.text, "start default"), 0);
	CHECK_EQ(count(result.text, "start partition0@kernels.py:"), 1);
	CHECK_EQ(count(result.text, "start partition1@kernels.py:"), 1);
	CHECK_EQ(count(result.text, "start dot@kernels.py:"), 1);
	CHECK_EQ(result.scope_count, 3);
	ttgir_result_fini(&result);
	insert("partitions_gluon_sm90", "default:auto=partitions,stores", TTGIR_MARKERS);
	CHECK_HAS(result.text, "default {\n      %proton_0 = tt.elementwise_inline_asm \"// proton."
			       "record start default@kernels.py:");
	CHECK_EQ(count(result.text, "record start store@kernels.py:"), 2);
	ttgir_result_fini(&result);
}

TEST(while_if_and_reductions)
{
	insert("softmax_loop_gfx942", "default:auto=all", TTGIR_MARKERS);
	CHECK_HAS(result.text, "{constraints = \"=v\", ");
	CHECK_HAS(result.text, "start loop@kernels.py:");
	CHECK_HAS(result.text, "start atomic@kernels.py:");
	CHECK_EQ(count(result.text, "record start"), count(result.text, "record end"));
	ttgir_result_fini(&result);
}

/* `mode` inserts scopes with each of the words, which are separated by blanks, and no others. */
static void check_kind(const char *name, const char *mode, const char *words)
{
	uint32_t scopes = 0;

	insert(name, mode, TTGIR_RECORDS);
	while (*words) {
		int length = (int)strcspn(words, " ");
		char start[64];

		snprintf(start, sizeof(start), "record start \"%.*s@", length, words);
		if (!result.text || !strstr(result.text, start))
			FAIL("no %s in %s", start, name);
		scopes += count(result.text, start);
		words += length;
		words += strspn(words, " ");
	}
	CHECK_EQ(result.text ? count(result.text, "record start") : 0, scopes);
	ttgir_result_fini(&result);
}

TEST(further_kinds)
{
	static const char *const kernels[] = {"kinds_sm90_3_6", "kinds_sm100_3_9",
					      "kinds_gfx942_3_9"};

	for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++) {
		check_kind(kernels[i], "default:auto=reduce", "reduce histogram");
		check_kind(kernels[i], "default:auto=scan", "scan");
		check_kind(kernels[i], "default:auto=convert", "convert");
		check_kind(kernels[i], "default:auto=atomic", "atomic atomic_cas");
		check_kind(kernels[i], "default:auto=call", "call");
	}
	/* Not those without a value: they take no time. */
	check_kind(kernels[0], "default:auto=local", "local_alloc");
	check_kind(kernels[1], "default:auto=local", "local_alloc");
	check_kind(kernels[2], "default:auto=local", "local_alloc local_load");
	check_kind(kernels[0], "default:auto=tmem", "");
	check_kind(kernels[1], "default:auto=tmem", "tmem_alloc tmem_load");
	check_kind("matmul_partitions_sm100", "default:auto=tmem", "tmem_store tmem_load");
	check_kind(kernels[2], "default:auto=tmem", "");
	check_kind(kernels[2], "default:auto=scan,call", "scan call");
}

TEST(scope_of_a_reduction_contains_its_region)
{
	const char *text;

	insert("kinds_sm90_3_6", "default:auto=reduce", TTGIR_RECORDS);
	text = strstr(result.text, "proton.record start \"reduce@kinds.py:18\"\n");
	CHECK(text);
	CHECK(strstr(text, "= \"tt.reduce\"(") < strstr(text, "tt.reduce.return"));
	CHECK(strstr(text, "tt.reduce.return") < strstr(text, "proton.record end"));
	CHECK_HAS(text, "\n      proton.record end \"reduce@kinds.py:18\"\n");
	CHECK_HAS(result.text, "\n    proton.record end \"reduce@kinds.py:");
	ttgir_result_fini(&result);
}

TEST(all_contains_every_kind)
{
	insert("kinds_gfx942_3_9", "default:auto=all:budget=off", TTGIR_RECORDS);
	CHECK_HAS(result.text, "start \"atomic@");
	CHECK_HAS(result.text, "start \"reduce@");
	CHECK_HAS(result.text, "start \"convert@");
	CHECK_HAS(result.text, "start \"local_load@");
	CHECK_HAS(result.text, "start \"call@");
	ttgir_result_fini(&result);
}

/* 4 warps have 24 bytes each: 3 records. */
TEST(details_are_omitted_before_loops_and_what_they_contain)
{
	const char *text = "module attributes {\"ttg.num-warps\" = 4 : i32} {\n"
			   "  tt.func public @f() {\n"
			   "    %1 = ttg.convert_layout %a : T -> U loc(\"k.py\":1:1)\n"
			   "    scf.for %i = %b to %c step %d : i32 {\n"
			   "      %2 = tt.load %p loc(\"k.py\":3:1)\n"
			   "    } loc(\"k.py\":2:1)\n  }\n}\n";
	struct instrument_mode mode = read_mode("default:auto=all:budget=off:buffer_size=96");

	CHECK_OK(insert_scopes(text, strlen(text), &mode, TTGIR_MARKERS), err);
	CHECK_EQ(result.scope_count, 2);
	CHECK_HAS(result.text, "start loop@k.py:2");
	CHECK_HAS(result.text, "start load@k.py:3");
	CHECK_HAS(result.note, "1 of 3 automatic scopes were omitted, details and innermost loops "
			       "first");
	ttgir_result_fini(&result);
}

TEST(records_for_users_to_edit)
{
	insert("add_sm90_3_6", "default:auto=stores", TTGIR_RECORDS);
	CHECK_HAS(result.text, "\n    proton.record start \"store@intra_proto.py:129\"\n"
			       "    tt.store %5, %6");
	ttgir_result_fini(&result);
}

TEST(innermost_scopes_are_omitted_first)
{
	insert("matmul_sm90", "default:auto=all:buffer_size=512", TTGIR_MARKERS);
	/* 8 warps have 64 bytes each: 8 records. */
	CHECK_HAS(
		result.note,
		"automatic scopes were omitted, details and innermost loops first, because a warp "
		"can hold 8 records");
	CHECK_EQ(count(result.text, "start dot@"), 0);
	CHECK_EQ(count(result.text, "start loop@"), 1);
	CHECK_EQ(count(result.text, "start store@"), 1);
	ttgir_result_fini(&result);
	insert("matmul_sm90", "default:auto=all:buffer_size=8", TTGIR_MARKERS);
	CHECK(!result.text && result.note);
	ttgir_result_fini(&result);
}

/* Automatic scopes of loads in a kernel with four warps. */
static void insert_loads(const char *body, const char *mode_text)
{
	struct instrument_mode mode;
	char text[2048];

	snprintf(text, sizeof(text),
		 "module attributes {\"ttg.num-warps\" = 4 : i32} {\n  tt.func public @f() {\n"
		 "%s  }\n}\n",
		 body);
	mode = read_mode(mode_text);
	CHECK_OK(insert_scopes(text, strlen(text), &mode, TTGIR_MARKERS), err);
}

TEST(a_warp_runs_only_one_partition)
{
	const char *body = "    ttg.warp_specialize(%a)\n    default {\n"
			   "      %1 = tt.load %p loc(\"k.py\":1:1)\n"
			   "      %2 = tt.load %p loc(\"k.py\":2:1)\n      ttg.warp_yield\n    }\n"
			   "    partition0(%b: i32) num_warps(4) {\n"
			   "      %3 = tt.load %p loc(\"k.py\":3:1)\n"
			   "      %4 = tt.load %p loc(\"k.py\":4:1)\n      ttg.warp_return\n"
			   "    } : (i32) -> ()\n    %5 = tt.load %p loc(\"k.py\":5:1)\n";

	/* 8 warps have 32 bytes each, 4 records, and make 3. */
	insert_loads(body, "default:auto=loads:buffer_size=256");
	CHECK_EQ(result.scope_count, 5);
	CHECK(!result.note);
	ttgir_result_fini(&result);
	insert_loads(body, "default:auto=loads:buffer_size=128");
	CHECK_EQ(result.scope_count, 4);
	CHECK_HAS(result.note, "1 of 5 automatic scopes were omitted");
	ttgir_result_fini(&result);
}

TEST(scopes_are_chosen_for_the_ring_buffer_that_is_given)
{
	struct ttgir_insertion how = {.records = 2};
	struct instrument_mode mode;
	const char *text = "module attributes {\"ttg.num-warps\" = 4 : i32} {\n"
			   "  tt.func public @f() {\n    %1 = tt.load %p loc(\"k.py\":1:1)\n"
			   "    %2 = tt.load %p loc(\"k.py\":2:1)\n"
			   "    %3 = tt.load %p loc(\"k.py\":3:1)\n  }\n}\n";

	mode = read_mode("default:auto=loads");
	CHECK_OK(insert_scopes(text, strlen(text), &mode, TTGIR_MARKERS), err);
	CHECK_EQ(result.record_count, 3);
	CHECK(!result.note);
	ttgir_result_fini(&result);
	CHECK_OK(ttgir_insert_scopes(text, strlen(text), &mode, &how, &result, &err), err);
	CHECK_EQ(result.record_count, 2);
	CHECK_HAS(result.note, "because a warp can hold 2 records");
	ttgir_result_fini(&result);
}

TEST(copies_before_and_after_a_loop_are_not_counted)
{
	insert_loads("    %1 = tt.load %p loc(\"k.py\":2:1)\n"
		     "    %2 = tt.load %p loc(\"k.py\":2:1)\n"
		     "    scf.for %i = %a to %b step %c : i32 {\n"
		     "      %3 = tt.load %p loc(\"k.py\":2:1)\n"
		     "      %4 = tt.load %p loc(\"k.py\":2:1)\n    }\n"
		     "    %5 = tt.load %p loc(\"k.py\":2:1)\n",
		     "default:auto=loads:buffer_size=64");
	CHECK_EQ(result.scope_count, 1);
	CHECK_EQ(count(result.text, "record start load@k.py:2\""), 5);
	ttgir_result_fini(&result);
}

/* ------------------------------------------------------------------ locations */

/* Checks the name of the only scope when `location` is that of a load. */
static void named(const char *location, const char *aliases, const char *expected)
{
	struct instrument_mode mode;
	char text[2048];

	snprintf(text, sizeof(text),
		 "module {\n  tt.func public @f() {\n    %%1 = tt.load %%0 : f32 %s\n  }\n}\n%s",
		 location, aliases);
	mode = read_mode("default:auto=loads");
	CHECK_OK(insert_scopes(text, strlen(text), &mode, TTGIR_RECORDS), err);
	CHECK_HAS(result.text, expected);
	ttgir_result_fini(&result);
}

TEST(locations)
{
	named("", "", "start \"load\"\n");
	named("loc(unknown)", "", "start \"load\"\n");
	named("loc(\"/a/b.py\":7:3)", "", "start \"load@b.py:7\"\n");
	named("loc(\"b.py\":7:3 to :9)", "", "start \"load@b.py:7\"\n");
	named("loc(\"x\"(\"/a/b.py\":7:3))", "", "start \"load@b.py:7\"\n");
	named("loc(#loc1)", "#loc1 = loc(\"x\"(#loc2))\n#loc2 = loc(\"c.py\":8:1)\n",
	      "start \"load@c.py:8\"\n");
	named("loc(callsite(#loc2 at #loc))", "#loc = loc(\"d.py\":1:1)\n#loc2 = loc(\"c.py\":8:1)",
	      "start \"load@c.py:8\"\n");
	named("loc(fused<\"tag\">[\"c.py\":9:1, \"d.py\":1:1])", "", "start \"load@c.py:9\"\n");
	named("loc(fused[#loc4, #loc5])", "#loc4 = loc(\"c.py\":9:1)\n", "start \"load@c.py:9\"\n");
	/* Operations in Triton's own functions are attributed to the caller. */
	named("loc(callsite(\"/x/triton/language/standard.py\":2:1 at callsite("
	      "\"/x/triton/language/core.py\":3:1 at \"k.py\":5:6)))",
	      "", "start \"load@k.py:5\"\n");
	named("loc(callsite(callsite(\"/x/triton/language/s.py\":2:1 at "
	      "\"/x/triton/language/core.py\":3:1) at \"k.py\":5:6))",
	      "", "start \"load@k.py:5\"\n");
	/* An alias of itself does not loop forever. */
	named("loc(#loc1)", "#loc1 = loc(#loc1)\n", "start \"load\"\n");
}

/* Automatic scopes of loads and partitions in a kernel at k.py:1. */
static void insert_at(const char *body, const char *aliases)
{
	struct instrument_mode mode;
	char text[4096];

	snprintf(text, sizeof(text),
		 "module {\n  tt.func public @k() {\n%s    tt.return loc(\"k.py\":1:0)\n"
		 "  } loc(\"k.py\":1:0)\n} loc(\"k.py\":1:0)\n%s",
		 body, aliases);
	mode = read_mode("default:auto=loads,partitions");
	CHECK_OK(insert_scopes(text, strlen(text), &mode, TTGIR_RECORDS), err);
}

TEST(function_inlined_twice_is_two_scopes)
{
	static const char aliases[] = "#loc1 = loc(\"/a/h.py\":8:3)\n";

	insert_at("    %1 = tt.load %p loc(callsite(#loc1 at \"k.py\":20:5))\n"
		  "    %2 = tt.load %p loc(callsite(#loc1 at \"k.py\":21:5))\n"
		  /* the pipeliner's copy of the second one */
		  "    %3 = tt.load %p loc(callsite(#loc1 at \"k.py\":21:5))\n"
		  "    %4 = tt.load %p loc(\"k.py\":30:1)\n",
		  aliases);
	CHECK_EQ(count(result.text, "start \"load@h.py:8 from k.py:20\"\n"), 1);
	CHECK_EQ(count(result.text, "start \"load@h.py:8 from k.py:21\"\n"), 2);
	CHECK_EQ(count(result.text, "start \"load@k.py:30\"\n"), 1);
	CHECK_EQ(result.scope_count, 3);
	ttgir_result_fini(&result);
	/* Inlined once: the call says nothing new. */
	insert_at("    %1 = tt.load %p loc(callsite(#loc1 at \"k.py\":20:5))\n"
		  "    %2 = tt.load %p loc(callsite(#loc1 at \"k.py\":20:5))\n",
		  aliases);
	CHECK_EQ(count(result.text, "start \"load@h.py:8\"\n"), 2);
	ttgir_result_fini(&result);
}

TEST(names_have_the_first_call_that_differs)
{
	/* Two calls on one line. */
	insert_at("    %1 = tt.load %p loc(callsite(\"h.py\":8:3 at \"k.py\":20:5))\n"
		  "    %2 = tt.load %p loc(callsite(\"h.py\":8:3 at \"k.py\":20:9))\n",
		  "");
	CHECK_EQ(count(result.text, "start \"load@h.py:8 from k.py:20:5\"\n"), 1);
	CHECK_EQ(count(result.text, "start \"load@h.py:8 from k.py:20:9\"\n"), 1);
	ttgir_result_fini(&result);
	/* A function called by one that is inlined twice, and another call of the inner one. */
	insert_at("    %1 = tt.load %p loc(callsite(\"h.py\":8:3 at callsite(\"h.py\":15:3 at "
		  "\"k.py\":20:5)))\n"
		  "    %2 = tt.load %p loc(callsite(callsite(\"h.py\":8:3 at \"h.py\":15:3) at "
		  "\"k.py\":21:5))\n"
		  "    %3 = tt.load %p loc(callsite(\"h.py\":8:3 at \"h.py\":99:3))\n",
		  "");
	CHECK_EQ(count(result.text, "start \"load@h.py:8 from h.py:15 from k.py:20\"\n"), 1);
	CHECK_EQ(count(result.text, "start \"load@h.py:8 from h.py:15 from k.py:21\"\n"), 1);
	CHECK_EQ(count(result.text, "start \"load@h.py:8 from h.py:99\"\n"), 1);
	ttgir_result_fini(&result);
	/* Calls inside Triton's own functions do not count. */
	insert_at("    %1 = tt.load %p loc(callsite(\"h.py\":8:3 at callsite("
		  "\"/x/triton/language/core.py\":3:1 at \"k.py\":20:5)))\n"
		  "    %2 = tt.load %p loc(callsite(\"h.py\":8:3 at callsite("
		  "\"/x/triton/language/core.py\":4:1 at \"k.py\":20:5)))\n",
		  "");
	CHECK_EQ(count(result.text, "start \"load@h.py:8\"\n"), 2);
	ttgir_result_fini(&result);
}

TEST(long_names_of_calls_are_cut)
{
	char body[2048] = "";
	char file[120];

	memset(file, 'f', sizeof(file) - 1);
	file[sizeof(file) - 1] = '\0';
	for (int i = 1; i < 3; i++)
		snprintf(
			body + strlen(body), sizeof(body) - strlen(body),
			"    %%%d = tt.load %%p loc(callsite(\"%s\":1:1 at callsite(\"%s\":%d:1 at "
			"\"%s\":%d:1)))\n",
			i, file, file, i, file, i);
	insert_at(body, "");
	CHECK_EQ(count(result.text, "proton.record start "), 2);
	CHECK_EQ(result.scope_count, 2);
	ttgir_result_fini(&result);
}

TEST(partitions_are_named_after_their_own_line)
{
	/* Each begins with an operation of another function; the last frame is the kernel's own. */
	insert_at("    ttg.warp_specialize(%a)\n    default {\n"
		  "      %c = arith.constant 1 : i32 loc(\"k.py\":1:0)\n"
		  "      %1 = tt.load %p loc(callsite(\"h.py\":8:3 at \"k.py\":12:1))\n"
		  "      ttg.warp_yield\n    }\n"
		  "    partition0(%b: i32) num_warps(4) {\n"
		  "      %2 = tt.load %p loc(callsite(callsite(\"h.py\":8:3 at \"k.py\":17:1) at "
		  "\"k.py\":1:0))\n"
		  "      ttg.warp_return\n    } : (i32) -> ()\n",
		  "");
	CHECK_EQ(count(result.text, "start \"default@k.py:12\"\n"), 1);
	CHECK_EQ(count(result.text, "start \"partition0@k.py:17\"\n"), 1);
	ttgir_result_fini(&result);
}

TEST(op_with_the_kernels_location_gets_that_of_its_neighbor)
{
	static const char text[] = "module {\n  tt.func public @k() {\n"
				   "    ttng.wait_barrier %b loc(\"k.py\":5:1)\n"
				   "    ttng.async_tma_copy_global_to_local %p loc(\"k.py\":1:0)\n"
				   "    ttng.wait_barrier %c loc(\"k.py\":1:0)\n"
				   "    %d = ttng.warp_group_dot %e, %f loc(\"k.py\":7:1)\n"
				   "    ttg.barrier local loc(\"k.py\":1:0)\n"
				   "    tt.return loc(\"k.py\":1:0)\n"
				   "  } loc(\"k.py\":1:0)\n} loc(\"k.py\":1:0)\n";
	struct instrument_mode mode;

	mode = read_mode("default:auto=all");
	CHECK_OK(insert_scopes(text, sizeof(text) - 1, &mode, TTGIR_MARKERS), err);
	CHECK_EQ(count(result.text, "record start tma_load@k.py:5\""), 1);
	CHECK_EQ(count(result.text, "record start wait_barrier@k.py:5\""), 1);
	CHECK_EQ(count(result.text, "record start wait_barrier@k.py:7\""), 1);
	CHECK_EQ(count(result.text, "record start barrier@k.py:1\""), 1);
	CHECK_EQ(result.scope_count, 5);
	ttgir_result_fini(&result);
}

TEST(noinline_functions_get_automatic_scopes)
{
	struct instrument_mode mode;
	const char *text = "module {\n  tt.func private @f() {\n    %1 = tt.load %0\n  }\n}\n";

	mode = read_mode("default:auto=all");
	CHECK_OK(insert_scopes(text, strlen(text), &mode, TTGIR_MARKERS), err);
	CHECK_EQ(count(result.text, "// proton.record "), 2);
	check_rest(result.text, text);
	ttgir_result_fini(&result);
}

TEST(text_that_is_not_mlir_is_rejected)
{
	struct instrument_mode mode;
	char deep[2048] = "";

	mode = read_mode("default:auto=all");
	CHECK_EQ(insert_scopes("}\n", 2, &mode, TTGIR_MARKERS), PROTON_E_UNSUPPORTED);
	CHECK_STR(err.text, "line 1: unmatched end of a region");
	CHECK_EQ(insert_scopes("module {\n", 9, &mode, TTGIR_MARKERS), PROTON_E_UNSUPPORTED);
	for (int i = 0; i < 257; i++)
		strcat(deep, "a {\n");
	CHECK_EQ(insert_scopes(deep, strlen(deep), &mode, TTGIR_MARKERS), PROTON_E_UNSUPPORTED);
	CHECK_STR(err.text, "line 257: regions are nested more than 256 deep");
	CHECK_OK(insert_scopes("", 0, &mode, TTGIR_MARKERS), err);
	CHECK(!result.text);
}
