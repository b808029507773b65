/* Vectorized additions that move back between markers, and those that stay. */
#include "unit/tap.h"

#include "intra/llvm/hoist.h"
#include "intra/llvm/ir_module.h"
#include "intra/llvm/llvm_pass.h"

#define DEFINE "define ptx_kernel void @k(i32 %0, ptr addrspace(1) %1) #0 {\n"
#define MARK(result, kind)                                                                         \
	"  " result " = tail call i32 asm sideeffect \"// proton.record " kind " s\", "            \
	"\"=r\"() #1\n"
/* A load has location 8, the additions 9 of the same line; 7 is another line. */
#define LOCATION(number, text) "!" number " = !DILocation(" text ")\n"
#define LOCATIONS                                                                                  \
	LOCATION("7", "line: 4, column: 4, scope: !2")                                             \
	LOCATION("8", "line: 3, column: 9, scope: !2")                                             \
	"!9 = distinct !DILocation(line: 3, column: 4, scope: !2)\n"

static char *moved(const char *text)
{
	struct ir_function function;
	struct proton_error err;
	size_t length;
	char *out;

	CHECK_OK(ir_module_read(text, strlen(text), &function, &err), err);
	CHECK_OK(hoist(&function, &out, &length, &err), err);
	ir_module_fini(&function);
	return out;
}

/* `first` comes before `second` in the text. */
static void check_order(const char *text, const char *first, const char *second)
{
	const char *a = strstr(text, first);
	const char *b = strstr(text, second);

	CHECK(a && b);
	if (a > b)
		FAIL("\"%s\" is after \"%s\" in:\n%s", first, second, text);
}

static void check_stays(const char *text)
{
	char *out = moved(text);

	if (out)
		FAIL("moved in:\n%s", out);
}

#define LOAD(of, location)                                                                         \
	"  %l" of " = tail call { i32, i32, i32 } asm sideeffect \"ld.global\", "                  \
	"\"=r,=r,=r,l\"(ptr addrspace(1) %1), !dbg !" location "\n"
#define PART(result, of, number)                                                                   \
	"  " result " = extractvalue { i32, i32, i32 } %l" of ", " number ", !dbg !8\n"
#define PARTS(of)                                                                                  \
	PART("%i" of, of, "0")                                                                     \
	PART("%b" of, of, "1")                                                                     \
	PART("%c" of, of, "2")                                                                     \
	"  %a" of " = bitcast i32 %i" of " to float, !dbg !8\n"
/* Three values; the first is added here. */
#define LOADED(of) LOAD(of, "8") PARTS(of)
#define SCALAR(of, to) "  %s" of " = fadd float " to ", %a" of ", !dbg !9\n"
/* And the other two, in a vector. */
#define VECTOR(of, to, location)                                                                   \
	"  %p" of " = insertelement <2 x i32> poison, i32 %b" of ", i64 0, !dbg !8\n"              \
	"  %q" of " = insertelement <2 x i32> %p" of ", i32 %c" of ", i64 1, !dbg !8\n"            \
	"  %w" of " = bitcast <2 x i32> %q" of " to <2 x float>, !dbg !8\n"                        \
	"  %v" of " = fadd <2 x float> " to ", %w" of ", !dbg !" location "\n"
#define ZERO "zeroinitializer"
#define UNROLLED                                                                                   \
	DEFINE MARK("%m0", "start") LOADED("0") SCALAR("0", "0.0") MARK("%m1", "end")              \
		MARK("%m2", "start") LOADED("1") SCALAR("1", "%s0") MARK("%m3", "end") MARK(       \
			"%m4", "start") LOADED("2") SCALAR("2", "%s1") VECTOR("0", ZERO, "9")      \
			VECTOR("1", "%v0", "9") VECTOR("2", "%v1", "9") MARK(                      \
				"%m5",                                                             \
				"end") "  %e0 = extractelement <2 x float> %v2, i64 0\n"           \
				       "  %t = fadd float %s2, %e0\n"                              \
				       "  store float %t, ptr addrspace(1) %1\n  ret void\n}\n"

TEST(vectors_move_to_the_values_they_add)
{
	char *text = moved(UNROLLED LOCATIONS);

	CHECK(text != NULL);
	check_order(text, "%b0 = extract", "%p0 = insert");
	check_order(text, "%p0 = insert", "%q0 = insert");
	check_order(text, "%q0 = insert", "%w0 = bitcast");
	check_order(text, "%w0 = bitcast", "%v0 = fadd");
	check_order(text, "%v0 = fadd", "%m1 = tail call");
	check_order(text, "%m2 = tail call", "%p1 = insert");
	check_order(text, "%q1 = insert", "%v1 = fadd");
	check_order(text, "%v1 = fadd", "%m3 = tail call");
	check_order(text, "%m4 = tail call", "%p2 = insert");
	check_order(text, "%v2 = fadd", "%m5 = tail call");
	/* Unnamed values have names now. */
	CHECK_HAS(text, "void @k(i32 %proton.v.0, ptr addrspace(1) %proton.v.1)");
	CHECK_HAS(text, "\nproton.v.2:\n");
	free(text);
}

TEST(the_pass_hoists_only_on_request)
{
	static const char text[] = UNROLLED LOCATIONS;
	struct instrument_options options = {
		.arch = "sm_90",
		.warp_count = 4,
		.threads_per_warp = 32,
		.shared_limit = 232448,
	};
	struct instrument_result as_it_is;
	struct instrument_result hoisted;
	struct proton_error err;

	CHECK_OK(instrument_llvm(text, strlen(text), &options, &as_it_is, &err), err);
	options.hoists = true;
	CHECK_OK(instrument_llvm(text, strlen(text), &options, &hoisted, &err), err);
	CHECK(as_it_is.can_hoist && hoisted.can_hoist);
	check_order(as_it_is.text, "%s2 = fadd", "%v0 = fadd");
	check_order(hoisted.text, "%v0 = fadd", "%s2 = fadd");
	CHECK_U64(as_it_is.record_count, hoisted.record_count);
	CHECK_U64(as_it_is.shared_bytes, hoisted.shared_bytes);
	instrument_result_fini(&as_it_is);
	instrument_result_fini(&hoisted);
}

/* A vector, and one with the same location that uses it. */
#define CHAIN(to, location)                                                                        \
	VECTOR("2", to, location)                                                                  \
	"  %z = fadd <2 x float> %v2, %v2, !dbg !" location "\n"
/* A kernel that adds after the second marker, with `work` before that marker. */
#define LATER(work, vector)                                                                        \
	DEFINE MARK("%m0", "start") LOADED("2") SCALAR("2", "0.0")                                 \
		work MARK("%m1", "end") "  call void @f()\n" vector MARK(                          \
			"%m2", "start") "  ret void\n}\n" LOCATIONS

TEST(vectors_without_evidence_stay)
{
	char *text = moved(LATER("", CHAIN(ZERO, "9")));

	CHECK(text != NULL); /* the pattern of the following checks */
	check_order(text, "%v2 = fadd", "%m1 = tail call");
	check_order(text, "@f()", "%z = fadd");
	free(text);
	/* From another source line: it may belong after the marker. */
	check_stays(LATER("", CHAIN(ZERO, "7")));
	/* Its location is unknown. */
	check_stays(LATER("", CHAIN(ZERO, "90")));
	check_stays(LATER("", CHAIN(ZERO, "4294967296")));
	/* One vector per iteration is what an unrolled loop has there. */
	check_stays(LATER("", VECTOR("2", ZERO, "9")));
	/* An operand is not available before. */
	check_stays(LATER("", "  %x = load <2 x float>, ptr addrspace(1) %1\n" CHAIN("%x", "9")));
	/* Loads do not move. */
	check_stays(LATER("", "  %v2 = load <2 x float>, ptr addrspace(1) %1, !dbg !9\n"
			      "  %z = fadd <2 x float> %v2, %v2, !dbg !9\n"));
}

/* All values were loaded before: the additions are what each scope measures. */
TEST(additions_of_values_that_were_there_stay)
{
	check_stays(DEFINE MARK("%m0", "start") LOADED("0") LOADED(
		"1") MARK("%m1", "end") MARK("%m2", "start") SCALAR("0", "0.0")
			    VECTOR("0", ZERO, "9") MARK("%m3", "end") MARK("%m4", "start")
				    VECTOR("1", "%v0",
					   "9") "  %z = fadd <2 x float> %v1, "
						"%v1, !dbg !9\n" MARK(
							"%m5", "end") "  ret void\n}\n" LOCATIONS);
}

#define LOAD_ONLY(load, sum)                                                                       \
	DEFINE MARK("%m0", "start") LOAD("2", "5") PARTS("2")                                      \
		MARK("%m1", "end") "  call void @f()\n" CHAIN(ZERO, "6")                           \
			MARK("%m2", "start") "  ret void\n}\n" LOCATION("5", load)                 \
				LOCATION("6", sum)

/* There is no scalar, but the load has the same source line. */
TEST(a_load_of_the_same_line_is_evidence)
{
	char *text = moved(LOAD_ONLY("line: 3, column: 9, scope: !2, inlinedAt: !6",
				     "line: 3, column: 14, scope: !2, inlinedAt: !6"));

	CHECK(text != NULL);
	check_order(text, "%v2 = fadd", "%m1 = tail call");
	free(text);
	check_stays(LOAD_ONLY("line: 3, column: 9, scope: !2", "line: 4, column: 9, scope: !2"));
	check_stays(LOAD_ONLY("line: 3, column: 9, scope: !2", "line: 3, column: 9, scope: !3"));
	check_stays(LOAD_ONLY("line: 3, column: 9, scope: !2, inlinedAt: !6",
			      "line: 3, column: 9, scope: !2, inlinedAt: !7"));
	check_stays(LOAD_ONLY("line: 3, column: 9, scope: !2",
			      "line: 3, column: 9, scope: !2, inlinedAt: !7"));
	check_stays(LOAD_ONLY("line: 3", "line: 3"));
}

TEST(scalars_move_only_with_vectors)
{
#define SCALARS(vectors)                                                                           \
	DEFINE MARK("%m0", "start") LOADED("0") LOADED("2") SCALAR("0", "0.0")                     \
		MARK("%m1", "end") "  call void @f()\n" SCALAR("2", "0.0") vectors                 \
		"  %y = fadd float %s2, %a0, !dbg !9\n"                                            \
		"  store float %y, ptr addrspace(1) %1\n" MARK(                                    \
			"%m2", "start") "  ret void\n}\n" LOCATIONS
	char *text = moved(SCALARS(CHAIN(ZERO, "9")));

	CHECK(text != NULL);
	check_order(text, "%s0 = fadd", "%s2 = fadd");
	check_order(text, "%s2 = fadd", "%y = fadd");
	check_order(text, "%y = fadd", "%m1 = tail call");
	free(text);
	check_stays(SCALARS(""));
	check_stays(SCALARS(CHAIN(ZERO, "7")));
}

/* In an unreachable block, which LLVM's verifier accepts. */
TEST(a_value_that_depends_on_itself_moves_once)
{
	char *text = moved(DEFINE "  ret void\n\nnowhere:\n" MARK("%m0", "start") LOADED(
		"2") SCALAR("2", "0.0") MARK("%m1", "end")
				   VECTOR("2", "%v2", "9") "  br label %nowhere\n}\n" LOCATIONS);

	CHECK(text != NULL);
	CHECK(strstr(strstr(text, "%v2 = ") + 1, "%v2 = ") == NULL);
	free(text);
}

TEST(nothing_moves_where_lines_cannot_be_named)
{
	check_stays("%0 = type { i32 }\n" UNROLLED LOCATIONS);
	check_stays("define amdgpu_kernel void @k() {\n  ret void\n}\n");
}
