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

TEST(arithmetic_after_the_next_wait_stays)
{
	char *text = moved(DEFINE WAIT MARK("%3", "end") "  %4 = add i32 %0, 8\n" WAIT
							 "  %5 = mul i32 %0, 3\n" END);

	CHECK(text != NULL);
	check_order(text, "= add i32", "wait.group");
	check_order(text, "end s", "= mul i32");
	free(text);
	CHECK(!moved(DEFINE WAIT MARK("%3", "end") WAIT "  %4 = mul i32 %0, 3\n" END));
}

/* A thread has seven predicates; ptxas packs more into registers, bit by bit. */
TEST(predicates_move_only_with_arithmetic_that_needs_them)
{
	char *text = moved(
		DEFINE WAIT MARK("%3", "end") "  %4 = icmp ugt i32 %0, 8\n"
					      "  %5 = icmp ult i32 %0, 70\n"
					      "  %6 = and i1 %4, %5\n"
					      "  %7 = select i1 %6, i32 16, i32 0\n"
					      "  %8 = icmp eq i32 %7, 3\n"
					      "  %9 = xor i1 %8, true\n"
					      "  %10 = trunc i32 %7 to i1\n"
					      "  %11 = select i1 %4, i1 %5, i1 false\n"
					      "  %12 = select i1 %9, float 1.0, float 2.0\n" END);

	CHECK(text != NULL);
	check_order(text, "v.5 = icmp ult", "wait.group");
	check_order(text, "v.6 = and i1", "wait.group");
	check_order(text, "v.7 = select", "wait.group");
	check_order(text, "end s", "v.8 = icmp eq");
	check_order(text, "end s", "v.9 = xor i1");
	check_order(text, "end s", "v.10 = trunc");
	check_order(text, "end s", "v.11 = select i1");
	free(text);
	CHECK(!moved(
		DEFINE WAIT MARK("%3", "end") "  %4 = icmp ugt i32 %0, 8\n"
					      "  %5 = select i1 %4, float 1.0, float 2.0\n" END));
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

#define SHARED(result) "  " result " = load <2 x float>, ptr addrspace(3) null, align 8\n"
#define MULTIPLY(result, a, b)                                                                     \
	"  " result " = tail call <2 x float> @llvm.fmuladd.v2f32(<2 x float> " a                  \
	", <2 x float> " a ", <2 x float> " b ")\n"

TEST(a_dot_in_plain_arithmetic_moves_into_its_scope)
{
	/* LLVM moved a part of it before the start. */
	static const char kernel[] = DEFINE //
		WAIT                        //
			MARK("%3", "end")   //
		"  %4 = add i32 %0, 8\n"    //
		SHARED("%5")                //
		SHARED("%6")                //
		"  %7 = shufflevector <2 x float> %5, <2 x float> %6, <2 x i32> undef\n" MULTIPLY(
			"%8", "%7", "%c")      //
		"  %9 = fadd float 1.0, 2.0\n" //
		MARK("%10", "start")           //
		MULTIPLY("%11", "%6", "%8")    //
		MARK("%12", "end")             //
		END;
	char *text = moved(kernel);

	CHECK(text != NULL);
	check_order(text, "= fadd", "%proton.v.10 = ");
	check_order(text, "%proton.v.4 = add", "%proton.v.10 = ");
	check_order(text, "%proton.v.10 = ", "%proton.v.5 = load");
	check_order(text, "%proton.v.5 = load", "%proton.v.6 = load");
	check_order(text, "%proton.v.6 = load", "%proton.v.7 = shufflevector");
	check_order(text, "%proton.v.7 = shufflevector", "%proton.v.8 = tail call");
	check_order(text, "%proton.v.8 = tail call", "%proton.v.11 = tail call");
	check_order(text, "%proton.v.11 = tail call", "%proton.v.12 = ");
	free(text);
}

#define AT(text, location) text ", !dbg " location "\n"
#define MULTIPLY_AT(result, a, b, location)                                                        \
	AT("  " result " = tail call <2 x float> @llvm.fmuladd.v2f32(<2 x float> " a               \
	   ", <2 x float> " a ", <2 x float> " b ")",                                              \
	   location)

TEST(part_of_a_dot_moves_out_of_another_scope)
{
	/* The location shows that LLVM moved it there. */
	char *text = moved(DEFINE MARK("%3", "start") WAIT SHARED("%4")
				   MULTIPLY_AT("%5", "%4", "%c", "!30") MARK("%6", "end")
					   MARK("%7", "start") MULTIPLY_AT("%8", "%4", "%5", "!30")
						   MARK("%9", "end") END);

	CHECK(text != NULL);
	check_order(text, "%proton.v.7 = ", "%proton.v.4 = load");
	check_order(text, "%proton.v.4 = load", "%proton.v.5 = tail call");
	free(text);
	/* The scope's own arithmetic has another location. */
	CHECK(!moved(DEFINE MARK("%3", "start") WAIT SHARED(
		"%4") MULTIPLY_AT("%5", "%4", "%c", "!29") MARK("%6", "end") MARK("%7", "start")
			     MULTIPLY_AT("%8", "%4", "%5", "!30") MARK("%9", "end") END));
}

TEST(plain_loads_stay_where_they_are_measured)
{
	/* The beginning of another scope. */
	CHECK(!moved(DEFINE MARK("%3", "start") SHARED("%4") MARK("%5", "start")
			     MULTIPLY("%6", "%4", "%4") MARK("%7", "end") END));
	/* The end of a scope with a dot. */
	CHECK(!moved(DEFINE MARK("%3", "start") "  call void @f()\n" SHARED(
		"%4") MULTIPLY("%5", "%4", "%4") MARK("%6", "end") MULTIPLY("%7", "%4", "%4") END));
	/* The scope has no dot. */
	CHECK(!moved(DEFINE "  call void @f()\n" SHARED("%3")
			     MARK("%4", "start") "  call void @g(<2 x float> %3)\n" END));
	/* Before a store or a barrier the memory has other values. */
	CHECK(!moved(DEFINE "  call void @f()\n" SHARED(
		"%3") "  store i32 0, ptr addrspace(3) null\n" MARK("%4", "start")
			     MULTIPLY("%5", "%3", "%3") END));
	CHECK(!moved(DEFINE "  call void @f()\n" SHARED(
		"%3") "  tail call void @llvm.nvvm.barrier."
		      "cta.sync.aligned.all(i32 0)\n" MARK("%4", "start") MULTIPLY("%5", "%3", "%3")
			      END));
	CHECK(!moved(DEFINE "  call void @f()\n  %3 = load volatile <2 x float>, ptr addrspace(3) "
			    "null, align 8\n" MARK("%4", "start") MULTIPLY("%5", "%3", "%3") END));
}

#define FENCE "  tail call void @llvm.nvvm.wgmma.fence.sync.aligned()\n"
#define DOT(result, a, b)                                                                          \
	"  " result                                                                                \
	" = tail call { float } asm sideeffect \"wgmma.mma_async $0, $1;\", \"=f,0,r\""            \
	"(float " a ", i32 " b ")\n"
#define DOT_WAIT(result, of)                                                                       \
	"  " result " = tail call { float } asm sideeffect \"wgmma.wait_group.sync.aligned 0;\", " \
	"\"=f,0\"({ float } " of ")\n"

TEST(operands_of_a_dot_are_made_before_its_scope)
{
	char *text = moved(
		DEFINE "  %3 = call float @llvm.nvvm.ex2.approx.f(float 1.0)\n" MARK("%4", "end")
			MARK("%5", "start") "  %6 = load float, ptr addrspace(3) null\n"
					    "  %7 = fptrunc float %3 to half\n"
					    "  %8 = fptrunc float %6 to half\n"
					    "  %9 = bitcast half %7 to i16\n"
					    "  %10 = fmul float %3, 2.0\n"
					    "  %11 = fadd float %10, 1.0\n" FENCE DOT(
						    "%12", "%11",
						    "%0") "  %13 = fmul float %3, 3.0\n" END);

	CHECK(text != NULL);
	check_order(text, "%proton.v.7 = fptrunc", "%proton.v.4 = ");
	check_order(text, "%proton.v.9 = bitcast", "%proton.v.4 = ");
	check_order(text, "%proton.v.10 = fmul", "%proton.v.4 = ");
	/* A value loaded in the scope, other arithmetic, and what is after the fence. */
	check_order(text, "%proton.v.5 = ", "%proton.v.8 = fptrunc");
	check_order(text, "%proton.v.5 = ", "%proton.v.11 = fadd");
	check_order(text, "wgmma.fence", "%proton.v.13 = fmul");
	free(text);
}

TEST(operands_stay_if_they_would_enter_or_leave_another_scope)
{
	/* They are outside of scopes. */
	CHECK(!moved(DEFINE MARK("%3", "end") "  %4 = fmul float 1.0, 2.0\n" FENCE DOT("%5", "%4",
										       "%0") END));
	/* They alone are measured. */
	CHECK(!moved(DEFINE MARK("%3", "start") "  %4 = fmul float 1.0, 2.0\n" MARK("%5", "end")
			     FENCE DOT("%6", "%4", "%0") END));
	CHECK(!moved(DEFINE MARK("%3", "start") "  %4 = fmul float 1.0, 2.0\n" END));
}

TEST(scaling_of_the_results_of_a_dot_moves_after_its_scope)
{
	char *text = moved(DEFINE MARK("%3", "start") FENCE DOT("%4", "1.0", "%0") DOT_WAIT(
		"%5", "%4") "  %6 = extractvalue { float } %5, 0\n"
			    "  %7 = fadd float %6, 1.0\n"
			    "  %8 = fmul float %6, 2.0\n"
			    "  %9 = fsub float %8, 1.0\n" MARK("%10", "end")
				    MARK("%11", "start") "  %12 = fadd float %8, %9\n" END);

	CHECK(text != NULL);
	check_order(text, "wgmma.wait_group", "%proton.v.7 = fadd");
	check_order(text, "%proton.v.7 = fadd", "%proton.v.10 = ");
	check_order(text, "%proton.v.11 = ", "%proton.v.8 = fmul");
	check_order(text, "%proton.v.8 = fmul", "%proton.v.9 = fsub");
	check_order(text, "%proton.v.9 = fsub", "%proton.v.12 = fadd");
	free(text);
}

TEST(operands_made_of_scaled_results_follow_the_scaling)
{
	char *text = moved(DEFINE DOT_WAIT(
		"%3", "undef") "  %4 = extractvalue { float } %3, 0\n"
			       "  %5 = fmul float %4, 2.0\n" MARK("%6", "end")
				       MARK("%7", "start") "  %8 = fptrunc float %5 to half\n"
							   "  %9 = fmul float %4, 3.0\n" FENCE DOT(
								   "%10", "%9", "%0") END);

	CHECK(text != NULL);
	check_order(text, "%proton.v.7 = ", "%proton.v.5 = fmul");
	check_order(text, "%proton.v.5 = fmul", "%proton.v.8 = fptrunc");
	check_order(text, "%proton.v.9 = fmul", "%proton.v.6 = ");
	free(text);
}

TEST(operands_made_of_fragments_follow_them)
{
	char *text = moved(DEFINE "  call void @f()\n" FRAGMENT("%3") MARK("%4", "end") MARK(
		"%5", "start") "  %6 = extractvalue { i32, i32 } %3, 1\n"
			       "  %7 = bitcast i32 %6 to float\n" FENCE DOT("%8", "%7", "%0") END);

	CHECK(text != NULL);
	check_order(text, "%proton.v.5 = ", "ldmatrix");
	check_order(text, "ldmatrix", "extractvalue");
	check_order(text, "extractvalue", "bitcast");
	free(text);
}

TEST(scaling_that_is_measured_stays)
{
	/* Its own scope; more work than that; nothing ends. */
	CHECK(!moved(DEFINE DOT_WAIT("%3", "undef") MARK("%4", "start") "  %5 = fmul float 1.0, "
									"2.0\n" MARK("%6", "end")
										END));
	CHECK(!moved(DEFINE DOT_WAIT("%3", "undef") "  %4 = fmul float 1.0, 2.0\n"
						    "  call void @f()\n" MARK("%5", "end") END));
	CHECK(!moved(DEFINE DOT_WAIT("%3", "undef") "  %4 = fmul float 1.0, 2.0\n" MARK(
		"%5", "start") END));
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
