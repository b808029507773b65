/* Verification of generated names: finds errors on which LLVM would abort. */
#include "unit/tap.h"

#include "intra/llvm/emit.h"

static bool is_right(const char *body)
{
	struct proton_error err = {0};
	char text[512];

	snprintf(text, sizeof(text), "define void @f(i32 %%0, i32 %%proton.given) #0 {\n%s}\n%s",
		 body, "define void @g() {\n  %proton.a = add i32 0, 0\n  ret void\n}\n");
	bool is_ok = verify_names(text, strlen(text), &err) == PROTON_OK;
	if (!is_ok)
		CHECK(strstr(err.text, "proton."));
	return is_ok;
}

/* LLVM would abort the process. */
TEST(invalid_text_is_detected)
{
	CHECK(is_right("  %proton.a = add i32 %proton.given, 0\n  ret void\n"));
	CHECK(is_right("  br label %proton.b\nproton.b:\n  ret void\n"));
	CHECK(!is_right("  %proton.a = add i32 0, 0\n  %proton.a = add i32 0, 1\n  ret void\n"));
	CHECK(!is_right("  %proton.given = add i32 0, 0\n  ret void\n"));
	CHECK(!is_right("proton.b:\n  ret void\nproton.b:\n  ret void\n"));
	CHECK(!is_right("  br label %proton.b\n"));
	CHECK(!is_right("  store i32 %proton.a, ptr null\n  ret void\n"));
}
