/* Rescheduling around markers: operations that move before a wait, and those that stay. */
#include "unit/tap.h"

#include "intra/llvm/ir_module.h"
#include "intra/llvm/reschedule.h"

#define FLAT "define ptx_kernel void @k(i32 %0, ptr addrspace(1) %1) #0 {\n"
/* The same with a loop; its body follows. */
#define DEFINE FLAT "  br label %loop\n\nloop:\n"
#define END "  br i1 true, label %loop, label %done\n\ndone:\n  ret void\n}\n"
#define MARK(result, kind)                                                                         \
	"  " result " = tail call i32 asm sideeffect \"// proton.record " kind " s\", "            \
	"\"=r\"() #1\n"
#define WAIT "  tail call void @llvm.nvvm.cp.async.wait.group(i32 2)\n"

static char *moved(const char *text)
{
	struct ir_function function;
	struct proton_error err;
	size_t length;
	char *out;

	CHECK_OK(ir_module_read(text, strlen(text), &function, &err), err);
	CHECK_OK(reschedule(&function, &out, &length, &err), err);
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

TEST(arithmetic_after_a_marker_moves_before_its_wait)
{
	char *text = moved(DEFINE MARK("%3", "start") WAIT MARK(
		"%4", "end") "  %5 = add i32 %0, 8\n"
			     "  tail call void asm sideeffect \"use $0 %7\", \"r\"(i32 %5)\n"
			     "  %6 = shl i32 %5, 2\n" END);

	CHECK(text != NULL);
	check_order(text, "start s", "= add i32");
	check_order(text, "= add i32", "wait.group");
	check_order(text, "= shl i32", "wait.group");
	check_order(text, "= add i32", "= shl i32");
	/* Unnamed values have names now; quoted text is unchanged. */
	CHECK_HAS(text, "%proton.v.6 = shl i32 %proton.v.5, 2\n");
	CHECK_HAS(text, "void @k(i32 %proton.v.0, ptr addrspace(1) %proton.v.1)");
	CHECK_HAS(text, "\nproton.v.2:\n");
	CHECK_HAS(text, "\"use $0 %7\"");
	free(text);
}

TEST(arithmetic_that_depends_on_the_wait_stays)
{
	char *text = moved(DEFINE "  %3 = call i32 asm sideeffect \"// wait $0\", \"=r\"()\n" MARK(
		"%4", "end") "  %5 = add i32 %3, 8\n"
			     "  %6 = mul i32 %5, %0\n"
			     "  %7 = mul i32 %0, 3\n" END);

	CHECK(text != NULL);
	check_order(text, "wait", "= add i32");
	check_order(text, "end s", "%proton.v.6 = mul");
	check_order(text, "%proton.v.7 = mul", "wait");
	free(text);
}

TEST(only_arithmetic_moves)
{
	CHECK(!moved(DEFINE MARK("%3", "start")
			     WAIT MARK("%4", "end") "  %5 = load i32, ptr addrspace(1) %1\n"
						    "  %6 = udiv i32 7, %0\n"
						    "  %7 = fadd float 1.0, 2.0\n" END));
}

TEST(nothing_moves_without_a_wait)
{
	CHECK(!moved(DEFINE MARK("%3", "start") "  store i32 1, ptr addrspace(1) %1\n" MARK(
		"%4", "end") "  %5 = add i32 %0, 8\n" END));
	/* The wait of another scope, before the marker of this one. */
	CHECK(!moved(DEFINE WAIT MARK("%3", "start") "  store i32 1, ptr addrspace(1) %1\n" MARK(
		"%4", "end") "  %5 = add i32 %4, 8\n" END));
	CHECK(!moved("define ptx_kernel void @k(ptr %0) {\n" WAIT "  %2 = add i32 1, 2\n"
		     "  ret void\n}\n"));
}

#define FRAGMENT(result)                                                                           \
	"  " result " = tail call { i32, i32 } @llvm.nvvm.ldmatrix.sync.aligned.m8n8.x2.b16("      \
	"ptr addrspace(3) null)\n"

TEST(fragments_move_to_their_dots)
{
	char *text = moved(DEFINE MARK("%3", "start") WAIT "  %4 = add i32 %0, 8\n" FRAGMENT(
		"%5") "  %6 = extractvalue { i32, i32 } %5, 1\n"
		      "  %7 = add i32 %0, 9\n" MARK("%8", "end") MARK(
			      "%9", "start") "  call void @mma(i32 %6, i32 %7, i32 %4)\n" END);

	CHECK(text != NULL);
	check_order(text, "end s", "ldmatrix");
	check_order(text, "%proton.v.9 = ", "ldmatrix");
	check_order(text, "ldmatrix", "extractvalue");
	check_order(text, "extractvalue", "@mma");
	check_order(text, "%proton.v.7 = add", "end s");
	check_order(text, "%proton.v.4 = add", "end s");
	free(text);
}

TEST(fragments_alone_between_markers_stay)
{
	/* Nothing else between the markers. */
	CHECK(!moved(DEFINE WAIT "  call void @f()\n" MARK("%3", "start") FRAGMENT("%4")
			     MARK("%5", "end") "  call void @mma({ i32, i32 } %4)\n" END));
	/* The instructions before are unknown. */
	CHECK(!moved(DEFINE FRAGMENT("%3")
			     MARK("%4", "end") "  call void @mma({ i32, i32 } %3)\n" END));
	/* Not in a loop. */
	CHECK(!moved(FLAT MARK("%3", "start") "  call void @f()\n" FRAGMENT(
		"%4") MARK("%5", "end") "  call void @mma({ i32, i32 } %4)\n  ret void\n}\n"));
}

TEST(outside_loops_nothing_moves)
{
	CHECK(!moved(FLAT MARK("%3", "start")
			     WAIT MARK("%4", "end") "  %5 = add i32 %0, 8\n  ret void\n}\n"));
	/* Before and after the loop. */
	CHECK(!moved(
		FLAT WAIT MARK("%3", "start") "  %4 = add i32 %0, 8\n  br label %5\n\n5:\n"
					      "  br i1 true, label %5, label %6\n\n6:\n" WAIT MARK(
						      "%7", "end") "  %8 = add i32 %0, 9\n"
								   "  ret void\n}\n"));
}

TEST(arithmetic_moves_across_a_barrier)
{
	char *text = moved(DEFINE MARK("%3", "start") WAIT
			   "  tail call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)\n" MARK(
				   "%4", "end") MARK("%5", "start") "  %6 = add i32 %0, 8\n"
								    "  br label %7\n\n"
								    "7:     ; preds = %2\n" END);

	CHECK(text != NULL);
	check_order(text, "= add i32", "wait.group");
	CHECK_HAS(text, "  br label %proton.v.7\n\nproton.v.7:     ; preds = %proton.v.2\n");
	free(text);
}

#define MARK_WAIT(result, kind)                                                                    \
	"  " result " = tail call i32 asm sideeffect \"// proton.record " kind " dot_wait\", "     \
	"\"=r\"() #1\n"

TEST(scope_named_wait_is_not_a_wait)
{
	static const char kernel[] = DEFINE    //
		MARK_WAIT("%3", "start")       //
		WAIT                           //
			MARK_WAIT("%4", "end") //
		"  %5 = add i32 %0, 8\n"       //
		MARK("%6", "start")            //
		"  %7 = mul i32 %0, 9\n"
		"  %8 = add i32 %5, %7\n" //
		MARK("%9", "end")         //
		END;
	char *text = moved(kernel);

	CHECK(text != NULL);
	check_order(text, "= add i32 %proton.v.0, 8", "wait.group");
	/* The second scope's start does not follow a wait, so what comes after it stays. */
	check_order(text, "start s", "= mul i32 %proton.v.0, 9");
	check_order(text, "= mul i32 %proton.v.0, 9", "= add i32 %proton.v.5, %proton.v.7");
	free(text);
}

TEST(amd_kernels_are_not_rescheduled)
{
	CHECK(!moved("define amdgpu_kernel void @k(i32 %0, ptr addrspace(1) %1) {\n" MARK(
		"%3", "start") WAIT MARK("%4", "end") "  %5 = add i32 %0, 8\n  ret void\n}\n"));
}

#define ASM_LOAD(result)                                                                           \
	"  " result " = tail call { i32, i32, i32 } asm sideeffect \"ld.global\", \"=r,=r,=r,l\"(" \
	"ptr addrspace(1) %1)\n"
#define PART(result, from, number)                                                                 \
	"  " result " = extractvalue { i32, i32, i32 } " from ", " number ", !dbg !8\n"
/* Three values of a load; the first is added here. */
#define LOADED(of)                                                                                 \
	ASM_LOAD("%l" of)                                                                          \
	PART("%i" of, "%l" of, "0")                                                                \
	PART("%b" of, "%l" of, "1")                                                                \
	PART("%c" of, "%l" of, "2")                                                                \
	"  %a" of " = bitcast i32 %i" of " to float, !dbg !8\n"
#define SCALAR(of, to) "  %s" of " = fadd float " to ", %a" of ", !dbg !9\n"
/* And the other two, in a vector. */
#define PACKED(of)                                                                                 \
	"  %p" of " = insertelement <2 x i32> poison, i32 %b" of ", i64 0, !dbg !8\n"              \
	"  %q" of " = insertelement <2 x i32> %p" of ", i32 %c" of ", i64 1, !dbg !8\n"            \
	"  %w" of " = bitcast <2 x i32> %q" of " to <2 x float>, !dbg !8\n"
#define VECTOR(of, to, source)                                                                     \
	PACKED(of) "  %v" of " = fadd <2 x float> " to ", %w" of ", !dbg !" source "\n"
#define SUMS_END                                                                                   \
	"  %e0 = extractelement <2 x float> %v2, i64 0\n"                                          \
	"  %t = fadd float %s2, %e0\n"                                                             \
	"  store float %t, ptr addrspace(1) %1\n  ret void\n}\n"

TEST(vectors_move_to_scalars_with_their_location)
{
	static const char kernel[] = FLAT           //
		MARK("%m0", "start")                //
		LOADED("0")                         //
		SCALAR("0", "0.0")                  //
		MARK("%m1", "end")                  //
		MARK("%m2", "start")                //
		LOADED("1")                         //
		SCALAR("1", "%s0")                  //
		MARK("%m3", "end")                  //
		MARK("%m4", "start")                //
		LOADED("2")                         //
		SCALAR("2", "%s1")                  //
		VECTOR("0", "zeroinitializer", "9") //
		VECTOR("1", "%v0", "9")             //
		VECTOR("2", "%v1", "9")             //
		MARK("%m5", "end")                  //
		SUMS_END;
	char *text = moved(kernel);

	CHECK(text != NULL);
	check_order(text, "%s0 = fadd", "%p0 = insert");
	check_order(text, "%p0 = insert", "%q0 = insert");
	check_order(text, "%q0 = insert", "%w0 = bitcast");
	check_order(text, "%w0 = bitcast", "%v0 = fadd");
	check_order(text, "%v0 = fadd", "%m1 = tail call");
	check_order(text, "%s1 = fadd", "%v1 = fadd");
	check_order(text, "%q1 = insert", "%v1 = fadd");
	check_order(text, "%m2 = tail call", "%p1 = insert");
	check_order(text, "%v1 = fadd", "%m3 = tail call");
	check_order(text, "%m4 = tail call", "%p2 = insert");
	check_order(text, "%v2 = fadd", "%m5 = tail call");
	free(text);
}

/* A vector, and one with the same location that consumes it. */
#define CHAIN(to, source)                                                                          \
	VECTOR("2", to, source) "  %z = fadd <2 x float> %v2, %v2, !dbg !" source "\n"
/* A kernel that computes its vector after the second marker, with `work` before that marker. */
#define LATER(work, vector)                                                                        \
	FLAT MARK("%m0", "start") LOADED("2")                                                      \
		work MARK("%m1", "end") "  call void @f()\n" vector MARK("%m2", "start") SUMS_END
#define ZERO "zeroinitializer"

TEST(vectors_without_evidence_stay)
{
	char *text = moved(LATER(SCALAR("2", "0.0"), CHAIN(ZERO, "9")));

	CHECK(text != NULL); /* the pattern of the following checks */
	check_order(text, "%v2 = fadd", "%m1 = tail call");
	check_order(text, "@f()", "%z = fadd");
	free(text);
	/* From another source location: it may belong after the marker. */
	CHECK(!moved(LATER(SCALAR("2", "0.0"), CHAIN(ZERO, "7"))));
	CHECK(!moved(LATER(SCALAR("2", "0.0"), CHAIN(ZERO, "90"))));
	/* One with the same location after the marker is what an unrolled loop has there. */
	CHECK(!moved(LATER(SCALAR("2", "0.0"), VECTOR("2", ZERO, "9"))));
	/* The scalar is on the same side. */
	CHECK(!moved(LATER("", SCALAR("2", "0.0") CHAIN(ZERO, "9"))));
	/* An operand is not available before. */
	CHECK(!moved(LATER(SCALAR("2", "0.0"),
			   "  %x = load <2 x float>, ptr addrspace(1) %1\n" CHAIN("%x", "9"))));
	/* Its operand is used after the marker too, so more registers would be needed. */
	CHECK(!moved(
		LATER(SCALAR("2", "0.0"), CHAIN(ZERO, "9") "  call void @g(i32 %b2, i32 %c2)\n")));
	/* Loads do not move. */
	CHECK(!moved(LATER(SCALAR("2", "0.0"),
			   "  %v2 = load <2 x float>, ptr addrspace(1) %1, !dbg !9\n"
			   "  %z = fadd <2 x float> %v2, %v2, !dbg !9\n")));
}

#define LOCATIONS(load, sum)                                                                       \
	"!6 = !DILocation(line: 4, column: 2, scope: !2)\n"                                        \
	"!8 = !DILocation(" load ")\n"                                                             \
	"!9 = distinct !DILocation(" sum ")\n"

/* There is no scalar remainder, but the load has the same source line. */
TEST(a_load_of_the_same_line_is_evidence)
{
#define LOADS_ONLY                                                                                 \
	LATER("  call void @g(), !dbg !8\n", CHAIN(ZERO, "9") "  %s2 = fadd float 1.0, 2.0\n")
	char *text = moved(LOADS_ONLY LOCATIONS("line: 3, column: 9, scope: !2",
						"line: 3, column: 4, scope: !2"));

	CHECK(text != NULL);
	check_order(text, "%v2 = fadd", "%m1 = tail call");
	free(text);
	text = moved(LOADS_ONLY LOCATIONS("line: 3, column: 9, scope: !2, inlinedAt: !6",
					  "line: 3, column: 4, scope: !2, inlinedAt: !6"));
	CHECK(text != NULL);
	free(text);
	CHECK(!moved(LOADS_ONLY LOCATIONS("line: 3, column: 9, scope: !2",
					  "line: 4, column: 4, scope: !2")));
	CHECK(!moved(LOADS_ONLY LOCATIONS("line: 3, column: 9, scope: !2",
					  "line: 3, column: 4, scope: !3")));
	CHECK(!moved(LOADS_ONLY LOCATIONS("line: 3, column: 9, scope: !2, inlinedAt: !6",
					  "line: 3, column: 4, scope: !2, inlinedAt: !7")));
	CHECK(!moved(LOADS_ONLY LOCATIONS("line: 3, column: 9, scope: !2",
					  "line: 3, column: 4, scope: !2, inlinedAt: !7")));
	CHECK(!moved(LOADS_ONLY));
}

/* Additions that LLVM did not vectorize, each of a value from before the marker. */
TEST(scalars_of_a_chain_move_too)
{
	static const char kernel[] = FLAT //
		MARK("%m0", "start")      //
		LOADED("0")               //
		LOADED("2")               //
		SCALAR("0", "0.0")        //
		MARK("%m1", "end")        //
		"  call void @f()\n"      //
		SCALAR("2", "0.0")        //
		VECTOR("2", ZERO, "7")    //
		"  %y = fadd float %s2, %s0, !dbg !9\n"
		"  %x = fadd float %y, %y, !dbg !6\n"
		"  store float %x, ptr addrspace(1) %1\n" //
		MARK("%m2", "start")                      //
		"  ret void\n}\n";
	char *text = moved(kernel);

	CHECK(text != NULL);
	check_order(text, "%s0 = fadd", "%s2 = fadd");
	check_order(text, "%s2 = fadd", "%y = fadd");
	check_order(text, "%y = fadd", "%m1 = tail call");
	check_order(text, "@f()", "%v2 = fadd");
	check_order(text, "@f()", "%x = fadd");
	free(text);
}

TEST(wider_vectors_are_shuffled_where_they_move)
{
	static const char kernel[] = FLAT //
		MARK("%m0", "start")      //
		LOADED("2")               //
		SCALAR("2", "0.0")        //
		VECTOR("2", ZERO, "7")    //
		MARK("%m1", "end")        //
		"  call void @f()\n"
		"  %n = shufflevector <2 x float> %v2, <2 x float> poison, <2 x i32> "
		"<i32 1, i32 0>, !dbg !9\n"
		"  %y = fadd <2 x float> %n, %v2, !dbg !9\n"
		"  %z = fadd <2 x float> %y, %y, !dbg !9\n"
		"  store <2 x float> %z, ptr addrspace(1) %1\n" //
		MARK("%m2", "start")                            //
		"  ret void\n}\n";
	char *text = moved(kernel);

	CHECK(text != NULL);
	check_order(text, "%n = shuffle", "%y = fadd");
	check_order(text, "%y = fadd", "%z = fadd");
	check_order(text, "%z = fadd", "%m1 = tail call");
	free(text);
}

TEST(vectors_that_need_fragments_stay_after_them)
{
	static const char kernel[] = DEFINE             //
		MARK("%m0", "start")                    //
		"  call void @f()\n"                    //
		"  %s = fadd float 1.0, 2.0, !dbg !9\n" //
		FRAGMENT("%l")                          //
		PART("%b2", "%l", "0")                  //
		PART("%c2", "%l", "1")                  //
		MARK("%m1", "end")                      //
		"  call void @g()\n"                    //
		CHAIN(ZERO, "9")                        //
		MARK("%m2", "start")                    //
		END;
	char *text = moved(kernel);

	CHECK(text != NULL);
	check_order(text, "%m1 = tail call", "ldmatrix");
	check_order(text, "ldmatrix", "%v2 = fadd");
	free(text);
}

/* In an unreachable block, which LLVM's verifier accepts. */
TEST(value_that_depends_on_itself_moves_once)
{
	char *text = moved(FLAT "  ret void\n\nnowhere:\n" MARK("%m0", "start") LOADED(
		"2") SCALAR("2", "0.0") PACKED("2")
				   MARK("%m1", "end") "  %v2 = fadd <2 x float> %w2, %v2, !dbg !9\n"
						      "  %z = fneg <2 x float> %w2\n"
						      "  br label %nowhere\n}\n");

	if (text)
		CHECK(strstr(strstr(text, "%v2 = ") + 1, "%v2 = ") == NULL);
	free(text);
}
