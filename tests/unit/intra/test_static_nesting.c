/* Static nesting analysis of kernels' control flow. */
#include "unit/tap.h"

#include "intra/llvm/llvm_pass.h"

static struct instrument_result result;

/* ------------------------------------------------------------------ kernels */

/*
 * Writes a kernel in a short notation:
 *     +a -a       start and end of scope a
 *     *a /a       of an event
 *     b:          a block
 *     >b ?b,c     a branch there, or to one of two
 *     .           returns
 *     @f {f       calls f; the function f begins
 */
struct writer {
	struct out out;
	uint32_t value;
	bool is_callee;
};

static void write_marker(struct writer *writer, const char *kind, const char *name)
{
	out_printf(&writer->out,
		   "  %%%u = tail call i32 asm sideeffect \"// proton.%s %s\", \"=r\"() #1\n",
		   writer->value++, kind, name);
}

static void begin(struct writer *writer, const char *name)
{
	if (name)
		out_printf(&writer->out, "}\ndefine internal fastcc i32 @%s(i32 %%0) #0 {\n", name);
	else
		out_text(&writer->out,
			 "define ptx_kernel void @k(i32 %0, ptr addrspace(1) %1) {\n");
	writer->is_callee = name != NULL;
	writer->value = name ? 2 : 3;
}

static void write_jump(struct writer *writer, char *word)
{
	char *other = strchr(word, ',');

	if (other)
		*other++ = '\0';
	if (other)
		out_printf(&writer->out, "  br i1 true, label %%%s, label %%%s\n\n", word, other);
	else
		out_printf(&writer->out, "  br label %%%s\n\n", word);
}

static void write_word(struct writer *writer, char *word)
{
	static const char signs[] = "+-*/";
	static const char *const kinds[] = {"record start", "record end", "event start",
					    "event end"};
	const char *sign = strchr(signs, *word);

	if (sign)
		write_marker(writer, kinds[sign - signs], word + 1);
	else if (*word == '>' || *word == '?')
		write_jump(writer, word + 1);
	else if (*word == '{')
		begin(writer, word + 1);
	else if (*word == '@')
		out_printf(&writer->out, "  %%%u = tail call fastcc i32 @%s(i32 %%0)\n",
			   writer->value++, word + 1);
	else if (*word == '.')
		out_text(&writer->out, writer->is_callee ? "  ret i32 %0\n\n" : "  ret void\n\n");
	else
		out_printf(&writer->out, "%s\n", word);
}

static void instrument(const char *words)
{
	struct instrument_options options = {
		.arch = "sm_90", .warp_count = 4, .threads_per_warp = 32, .shared_limit = 232448};
	struct writer writer = {.value = 0};
	char text[512];

	snprintf(text, sizeof(text), "%s", words);
	out_init(&writer.out, -1);
	begin(&writer, NULL);
	for (char *word = strtok(text, " "); word; word = strtok(NULL, " "))
		write_word(&writer, word);
	out_text(&writer.out, "}\n");
	CHECK_DONE(instrument_llvm(writer.out.bytes, writer.out.length, &options, &result, &err));
	out_fini(&writer.out);
}

static uint32_t scope_of(const char *name)
{
	for (uint32_t i = 0; i < result.layout.scope_count; i++)
		if (strcmp(result.layout.scopes[i], name) == 0)
			return i;
	FAIL("no scope %s", name);
}

/* "" if there is none. */
static const char *parent_of(const char *name)
{
	const struct instrument_nesting *nesting = result.layout.nesting;
	uint32_t scope = scope_of(name);

	CHECK(nesting && nesting[scope].is_known);
	return nesting[scope].parent == INSTRUMENT_NO_SCOPE
		       ? ""
		       : result.layout.scopes[nesting[scope].parent];
}

static bool may_lie_in(const char *inner, const char *outer)
{
	return layout_may_contain(&result.layout, scope_of(outer), scope_of(inner));
}

static void done(void)
{
	instrument_result_fini(&result);
}

/* ------------------------------------------------------------------ results */

/* A partition around a loop around two scopes, the second inside a branch. */
TEST(scopes_in_a_loop_are_inside_scopes_around_it)
{
	instrument("+partition +loop >a a: +load -load ?b,c b: +dot >d d: -dot >c c: ?a,e "
		   "e: -loop -partition .");
	CHECK_STR(parent_of("partition"), "");
	CHECK_STR(parent_of("loop"), "partition");
	CHECK_STR(parent_of("load"), "loop");
	CHECK_STR(parent_of("dot"), "loop");
	CHECK(may_lie_in("dot", "loop") && may_lie_in("dot", "partition"));
	CHECK(!may_lie_in("dot", "load") && !may_lie_in("load", "dot"));
	CHECK(!may_lie_in("loop", "loop") && !may_lie_in("partition", "loop"));
	done();
}

/* A scope in two partitions, one of which each warp runs, always is in neither. */
TEST(scope_in_two_partitions_has_their_common_parent)
{
	instrument("+all ?a,b a: +one +wait -wait -one >c b: +two +wait -wait -two >c c: -all .");
	CHECK_STR(parent_of("one"), "all");
	CHECK_STR(parent_of("two"), "all");
	CHECK_STR(parent_of("wait"), "all");
	CHECK(may_lie_in("wait", "one") && may_lie_in("wait", "two"));
	CHECK(!may_lie_in("one", "two"));
	done();
}

/* The kernel returns early: the rest of the scope still runs in it. */
TEST(scope_left_without_its_end_is_a_parent)
{
	instrument("+all ?a,b a: +load -load ?c,b b: . c: -all .");
	CHECK_STR(parent_of("load"), "all");
	done();
}

/* It never ends, or does not end later. */
TEST(scope_without_an_end_is_not_a_parent)
{
	instrument("+lost +load -load >b b: +store -store .");
	CHECK_STR(parent_of("load"), "");
	CHECK_STR(parent_of("store"), "");
	CHECK(may_lie_in("load", "lost"));
	done();
	/* An iteration of a pipelined loop ends the copy of the previous one. */
	instrument("+copy >a a: -copy +dot -dot +copy ?a,b b: -copy +store -store .");
	CHECK_STR(parent_of("dot"), "");
	CHECK(!may_lie_in("dot", "copy"));
	CHECK_STR(parent_of("store"), "");
	done();
}

/* They overlap: the second is inside the first only at its start. */
TEST(overlapping_scopes)
{
	instrument("+a >a a: +b -a +c -c -b .");
	CHECK_STR(parent_of("b"), "a");
	CHECK_STR(parent_of("c"), "b");
	CHECK(may_lie_in("a", "b")); /* ends there */
	CHECK(!may_lie_in("c", "a"));
	done();
}

/* Scopes around it in different orders. */
TEST(different_orders_give_no_parent)
{
	instrument("+all ?a,b a: +x +y +in -in -y -x >c b: +y +x +in -in -x -y >c c: -all .");
	CHECK_STR(parent_of("in"), "all");
	CHECK_STR(parent_of("x"), "all");
	done();
}

/* One call is inside a scope, another is not; the callee's own scopes are unaffected. */
TEST(noinline_callees)
{
	instrument("+all +one @f +after -after -one @f -all . {f +outer +inner -inner -outer .");
	CHECK_STR(parent_of("inner"), "outer");
	CHECK_STR(parent_of("outer"), "all");
	CHECK(may_lie_in("inner", "one"));
	CHECK_STR(parent_of("after"), "one");
	CHECK(!may_lie_in("after", "outer"));
	done();
}

/* A scope begins in a callee and ends in another. */
TEST(a_scope_across_callees)
{
	instrument("@begin +in -in @finish +out -out . {begin +both . {finish -both .");
	CHECK_STR(parent_of("in"), "both");
	CHECK_STR(parent_of("out"), "");
	CHECK(!may_lie_in("out", "both"));
	done();
}

TEST(events_do_not_nest)
{
	instrument("+a *copy +b -b /copy -a .");
	CHECK_STR(parent_of("b"), "a");
	CHECK(!may_lie_in("b", "copy"));
	CHECK(!result.layout.nesting[scope_of("copy")].is_known);
	done();
}

/* Unreachable blocks have no effect. */
TEST(unreachable_blocks_have_no_effect)
{
	instrument("+a +b -b -a . b: +b -b +dead -dead .");
	CHECK_STR(parent_of("b"), "a");
	CHECK(!result.layout.nesting[scope_of("dead")].is_known);
	done();
}

/* ------------------------------------------------------------------ layout text */

static const char plain[] = "proton-instrument 1\nvendor nvidia\nwarps 1\nwarps_per_unit 1\n"
			    "ring 64\nslack 0\ncta 128\ncta_stride 1\nunits 0\n"
			    "scope a\nscope b\nscope c\ncode 0 0\ncode 1 0\ncode 2 0\n";

static int read_with(const char *more, struct instrument_layout *layout)
{
	struct proton_error err;
	char text[512];
	int length = snprintf(text, sizeof(text), "%s%s", plain, more);

	return layout_read(text, (size_t)length, layout, &err);
}

TEST(nesting_is_stored_in_the_layout)
{
	static const char nesting[] = "around 0\naround 1 0 2\nparent 1 0\n";
	struct instrument_layout layout;
	struct out out;

	CHECK_EQ(read_with(nesting, &layout), PROTON_OK);
	CHECK(layout.nesting[0].is_known && layout.nesting[1].is_known);
	CHECK(!layout.nesting[2].is_known);
	CHECK_EQ(layout.nesting[1].parent, 0);
	CHECK_EQ(layout.nesting[0].parent, INSTRUMENT_NO_SCOPE);
	CHECK(!layout_may_contain(&layout, 1, 0) && !layout_may_contain(&layout, 1, 1));
	CHECK(layout_may_contain(&layout, 2, 1));
	CHECK(layout_may_contain(&layout, 0, 2)); /* unknown */
	out_init(&out, -1);
	layout_write(&layout, &out);
	out_byte(&out, '\0');
	CHECK_HAS(out.bytes, nesting);
	out_fini(&out);
	layout_fini(&layout);
}

/* Layouts of an earlier version, and additions of a later one. */
TEST(a_layout_without_nesting_is_read)
{
	struct instrument_layout layout;

	CHECK_EQ(read_with("", &layout), PROTON_OK);
	CHECK(!layout.nesting);
	CHECK(layout_may_contain(&layout, 1, 0));
	layout_fini(&layout);
	CHECK_EQ(read_with("hotness 1 2\n", &layout), PROTON_OK);
	layout_fini(&layout);
}

TEST(impossible_nesting_is_rejected)
{
	static const char *const damage[] = {
		"around\n",
		"around x\n",
		"around 3\n",             /* no such scope */
		"around 0 3\n",           /* neither */
		"around 255 0\n",         /* more scopes than any layout has */
		"around 0 1x\n",          /* not a number */
		"parent 0\n",             /* without a scope */
		"parent 0 1\n",           /* of a scope with unknown nesting */
		"around 0\nparent 0 3\n", /* no such parent */
		"around 0\nparent 0 0\n", /* inside itself */
		"around 0\naround 1\nparent 0 1\nparent 1 0\n",
	};
	struct instrument_layout layout;

	for (size_t i = 0; i < sizeof(damage) / sizeof(damage[0]); i++)
		if (read_with(damage[i], &layout) != PROTON_E_FORMAT)
			FAIL("\"%s\" was accepted", damage[i]);
}
