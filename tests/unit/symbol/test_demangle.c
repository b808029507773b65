/* symbol/demangle: limits, and types; tests/python/test_demangle.py has more names. */
#include "unit/tap.h"

#include "symbol/demangle.h"

/* The full name, or "" if it is unchanged. */
static const char *full(const char *mangled)
{
	static char text[DEMANGLE_BYTES_MAX + 1];
	struct out out;

	out_init(&out, -1);
	text[0] = '\0';
	if (demangle(&out, mangled, strlen(mangled), DEMANGLE_FULL)) {
		memcpy(text, out.bytes, out.length);
		text[out.length] = '\0';
	}
	out_fini(&out);
	return text;
}

TEST(types_are_written_around_names)
{
	CHECK_STR(full("_Z1fPFivE"), "f(int (*)())");
	CHECK_STR(full("_Z1fRA3_Ki"), "f(int const (&) [3])");
	CHECK_STR(full("_Z1fM3FooKFivE"), "f(int (Foo::*)() const)");
	CHECK_STR(full("_ZN3FooIiED1Ev"), "Foo<int>::~Foo()");
	CHECK_STR(full("_Z1fIJifEEvDpRKT_"), "void f<int, float>(int const&, float const&)");
	CHECK_STR(full("_Z1fIJEEvDpT_"), "void f<>()");
	CHECK_STR(full("_Z1fIRiEvOT_"), "void f<int&>(int&)");
	CHECK_STR(full("_Z1fDpPi"), "f(int*...)");
	CHECK_STR(full("_Z1fIEvv"), "void f<>()");
	CHECK_STR(full("_Z1fIJEEviDpPT_i"), "void f<>(int, int)");
	/* The inner expansion has the pack. */
	CHECK_STR(full("_Z1fIJidEEvDp1AIJDpT_EE"), "void f<int, double>(A<int, double>...)");
}

TEST(lists_of_expressions_may_be_empty)
{
	CHECK_STR(full("_Z1fIiEDTcl1gEEv"), "decltype(g()) f<int>()");
	CHECK_STR(full("_Z1fIiEDTtlT_EEv"), "decltype(int{}) f<int>()");
	CHECK_STR(full("_Z1fIiEDTcl1gilEEEv"), "decltype(g({})) f<int>()");
	CHECK_STR(full("_Z1fIiEDTcl1gLi1ELi2EEEv"), "decltype(g(1, 2)) f<int>()");
	/* The first part of the name has parameters. */
	CHECK_STR(full("_ZNUlcE_clIiEEDTcl1gEEv"),
		  "decltype(g()) {lambda(char)#1}::operator()<int>()");
}

TEST(expressions_of_signatures_are_written)
{
	CHECK_STR(full("_Z1fIiEDTszfp_ET_"), "decltype(sizeof (parm(fp))) f<int>(int)");
	CHECK_STR(full("_Z1fIiEDTstT_ES0_"), "decltype(sizeof (int)) f<int>(int)");
	CHECK_STR(full("_Z1fIiEDTatT_ES0_"), "decltype(alignof (int)) f<int>(int)");
	CHECK_STR(full("_Z1fIiEDTnxfp_ET_"), "decltype(noexcept (parm(fp))) f<int>(int)");
	CHECK_STR(full("_Z1fIJiiEEDTsZfp_EDpT_"),
		  "decltype(sizeof...(parm(fp))) f<int, int>(int, int)");
	CHECK_STR(full("_Z1fIiEDTcvlfp_ET_"), "decltype((long)(parm(fp))) f<int>(int)");
	CHECK_STR(full("_Z1fIiEDTcvT__EES0_"), "decltype(int()) f<int>(int)");
	CHECK_STR(full("_Z1fIiEDTcvT__Li1ELi2EEES0_"), "decltype(int(1, 2)) f<int>(int)");
	CHECK_STR(full("_Z1fI1SEDTsrT_1sES1_"), "decltype(S::s) f<S>(S)");
	CHECK_STR(full("_Z1fI1SEDTsrT_1sIiEES1_"), "decltype(S::s<int>) f<S>(S)");
	CHECK_STR(full("_Z1fI1FEDTclfp_Li1ELi2EEET_"), "decltype(parm(fp)(1, 2)) f<F>(F)");
	CHECK_STR(full("_Z1fIiEDTntfpK_ET_"), "decltype(!(parm(fp))) f<int>(int)");
	CHECK_STR(full("_Z1fIiEDTngfL0p1_ET_"), "");
	CHECK_STR(full("_Z1fIiEDTszfpET_"), "");
	CHECK_STR(full("_Z1fIiEDTsrT_ET_"), "");
	CHECK_STR(full("_Z1fIiEDTsrNT_1sET_"), "");
	CHECK_STR(full("_Z1fIiEDTcv_ET_"), "");
	CHECK_STR(full("_Z1fI1SEDTsrT_1sIiES1_"), "");
}

TEST(builtin_types_have_their_names)
{
	CHECK_STR(full("_Z1fDF16_DF16b"), "f(_Float16, std::bfloat16_t)");
	CHECK_STR(full("_Z1fDdDeDfDh"), "f(decimal64, decimal128, decimal32, half)");
	CHECK_STR(full("_Z1fiz"), "f(int, ...)");
	CHECK_STR(full("_Z1fk"), "");
	CHECK_STR(full("_Z1fDq"), "");
}

TEST(truncated_names_are_left_unchanged)
{
	static const char name[] = "_ZN2at6native29vectorized_elementwise_kernelILi8ENS0_"
				   "15CUDAFunctor_addIN3c104HalfEEESt5arrayIPcLm3EEEEviT0_T1_";
	char part[sizeof(name)];

	CHECK(full(name)[0]);
	for (size_t length = 0; length < sizeof(name) - 1; length++) {
		memcpy(part, name, length);
		part[length] = '\0';
		full(part); /* some beginnings are names themselves; none may crash */
	}
	CHECK_STR(full("_ZN2at6native"), "");
}

TEST(depth_is_limited)
{
	size_t count = 100000;
	char *name = malloc(count + 8);

	memcpy(name, "_Z1f", 4);
	memset(name + 4, 'P', count);
	strcpy(name + 4 + count, "i");
	CHECK_STR(full(name), "");
	strcpy(name + 4 + 100, "i");
	CHECK(strlen(full(name)) > 100);
	free(name);
}

/* Each parameter is a type of two of the previous: the text doubles every few bytes. */
static const char *doubling(int times)
{
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	static char name[400];

	strcpy(name, "_Z1f1AIiiE");
	for (int i = 0; i < times; i++) {
		char id[2] = {digits[i], '\0'};

		strcat(name, "S_IS");
		strcat(name, id);
		strcat(name, "_S");
		strcat(name, id);
		strcat(name, "_E");
	}
	return name;
}

TEST(length_is_limited)
{
	CHECK_STR(full(doubling(1)), "f(A<int, int>, A<A<int, int>, A<int, int>>)");
	CHECK_LT(strlen(full(doubling(3))), 300);
	CHECK(strlen(full(doubling(8))) > 3000);
	CHECK_STR(full(doubling(30)), "");
}
