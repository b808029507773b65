/* NVTX ranges as scopes, with a fake NVTX: its tables, and a program that calls it. */
#include "unit/recorded.h"

#include "record/nvtx/nvtx.h"
#include "unit/fake_nvtx.h"

static void start(void)
{
	CHECK_EQ(InitializeInjectionNvtx2(get_table), 1);
	rec_start("a");
}

/* Finalizes and checks that `path` and nothing else below it had one kernel. */
static void check_kernel_at(const char *path)
{
	EXPECT(rec_finish(), {path, 1});
}

static struct nvtx_attributes attributes_of(int32_t type, union nvtx_message message)
{
	return (struct nvtx_attributes){
		.version = 2,
		.size = sizeof(struct nvtx_attributes),
		.category = 7,
		.payload = 42,
		.message_type = type,
		.message = message,
	};
}

static int push_in(const void *domain, const char *text)
{
	struct nvtx_attributes attributes =
		attributes_of(NVTX_TEXT_ASCII, (union nvtx_message){.ascii = text});

	return nvtx.domain_push_ex(domain, &attributes);
}

TEST(a_range_is_a_scope)
{
	start();
	CHECK_EQ(nvtx.push_a("outer"), 0);
	CHECK_EQ(nvtx.push_a("inner"), 1);
	rec_kernel("k");
	CHECK_EQ(nvtx.pop(), 1);
	CHECK_EQ(nvtx.pop(), 0);
	check_kernel_at("outer/inner/k");
}

/* As NCCL does: the payload has the rank, which is known at the end of the range. */
TEST(a_range_is_popped_with_a_payload)
{
	int (*push)(const void *, const void *, size_t);

	start();
	load_payload_extension();
	push = (int (*)(const void *, const void *, size_t))payload_slots[NVTX_PAYLOAD_PUSH];
	const void *domain = nvtx.create_a("NCCL");
	CHECK_EQ(push_in(domain, "ncclCommInitRank"), 0);
	CHECK_EQ(pop_payload(domain, NULL, 0), 0);
	CHECK_EQ(pop_payload(domain, NULL, 0), NVTX_E_NOT_TRACKED);
	CHECK_EQ(push_in(domain, "ncclAllReduce"), 0);
	CHECK_EQ(push(domain, NULL, 0), 1);
	rec_kernel("k");
	CHECK_EQ(pop_payload(domain, NULL, 0), 1);
	CHECK_EQ(nvtx.domain_pop(domain), 0);
	check_kernel_at("ncclAllReduce/(unnamed range)/k");
}

TEST(other_extensions_are_left_to_themselves)
{
	intptr_t slots[NVTX_PAYLOAD_POP] = {0};
	struct nvtx_segment segment = {.slot_count = ARRAY_LENGTH(slots), .slots = slots};
	struct nvtx_extension extension = {
		.struct_size = sizeof(extension),
		.module = NVTX_EXTENSION_PAYLOAD + 1,
		.segment_count = 1,
		.segments = &segment,
	};

	CHECK_EQ(InitializeInjectionNvtxExtension(NULL), 0);
	CHECK_EQ(InitializeInjectionNvtxExtension(&extension), 0);
	CHECK(!slots[NVTX_PAYLOAD_PUSH]);
	extension.module = NVTX_EXTENSION_PAYLOAD;
	extension.struct_size--;
	CHECK_EQ(InitializeInjectionNvtxExtension(&extension), 0);
	extension.struct_size++;
	CHECK_EQ(InitializeInjectionNvtxExtension(&extension), 1); /* with too few slots for pop */
	CHECK(slots[NVTX_PAYLOAD_PUSH]);
}

TEST(messages_of_every_kind_are_copied)
{
	char ascii[] = "ascii";
	wchar_t wide[] = L"\u00fc\u4e2d\U0001f600";

	start();
	nvtx.push_a(ascii);
	nvtx.push_w(wide);
	struct nvtx_attributes attributes =
		attributes_of(NVTX_TEXT_ASCII, (union nvtx_message){.ascii = "ex"});
	nvtx.push_ex(&attributes);
	attributes = attributes_of(NVTX_TEXT_WIDE, (union nvtx_message){.wide = L"wide ex"});
	nvtx.push_ex(&attributes);
	attributes = attributes_of(NVTX_TEXT_REGISTERED,
				   (union nvtx_message){.registered = nvtx.register_a(NULL, "r")});
	nvtx.push_ex(&attributes);
	attributes = attributes_of(NVTX_TEXT_REGISTERED,
				   (union nvtx_message){.registered = nvtx.register_w(NULL, L"w")});
	nvtx.push_ex(&attributes);
	memset(ascii, 'x', sizeof(ascii) - 1);
	wmemset(wide, L'x', 3);
	rec_kernel("k");
	check_kernel_at("ascii/\u00fc\u4e2d\U0001f600/ex/wide ex/r/w/k");
}

TEST(a_range_without_a_message_is_a_range)
{
	struct nvtx_attributes attributes = attributes_of(NVTX_TEXT_NONE, (union nvtx_message){0});

	start();
	nvtx.push_a(NULL);
	nvtx.push_w(NULL);
	nvtx.push_ex(NULL);
	nvtx.push_ex(&attributes);
	attributes = attributes_of(99, (union nvtx_message){.ascii = (const char *)1});
	nvtx.push_ex(&attributes);
	attributes = attributes_of(NVTX_TEXT_REGISTERED, (union nvtx_message){.registered = NULL});
	nvtx.push_ex(&attributes);
	attributes.message.registered = &attributes; /* unknown */
	nvtx.push_ex(&attributes);
	attributes.size = 8; /* of another version: nothing after it may be read */
	nvtx.push_ex(&attributes);
	rec_kernel("k");
	for (int i = 7; i >= 0; i--)
		CHECK_EQ(nvtx.pop(), i);
	check_kernel_at("(unnamed range)/(unnamed range)/(unnamed range)/(unnamed range)/"
			"(unnamed range)/(unnamed range)/(unnamed range)/(unnamed range)/k");
}

TEST(an_invalid_wide_character_is_replaced)
{
	const wchar_t wide[] = {'a', 0xd800, 0xdfff, 0x110000, -1, 'z', 0};

	start();
	nvtx.push_w(wide);
	rec_kernel("k");
	check_kernel_at("a\ufffd\ufffd\ufffd\ufffdz/k");
}

TEST(a_long_message_is_kept_whole)
{
	static wchar_t wide[400];
	char path[410];

	wmemset(wide, L'w', ARRAY_LENGTH(wide) - 1);
	memset(path, 'w', ARRAY_LENGTH(wide) - 1);
	strcpy(path + ARRAY_LENGTH(wide) - 1, "/k");
	start();
	nvtx.push_w(wide);
	rec_kernel("k");
	check_kernel_at(path);
}

TEST(a_pop_without_a_push_changes_nothing)
{
	start();
	CHECK_LT(nvtx.pop(), 0);
	uint64_t token = proton_scope_enter("mine");
	CHECK_LT(nvtx.pop(), 0);
	nvtx.push_a("r");
	CHECK_EQ(nvtx.pop(), 0);
	CHECK_LT(nvtx.pop(), 0);
	CHECK_LT(nvtx.domain_pop(&token), 0);
	rec_kernel("k");
	CHECK_EQ(proton_scope_exit(token, NULL), PROTON_OK);
	check_kernel_at("mine/k");
}

TEST(a_range_pushed_before_the_session_is_not_popped_out_of_it)
{
	CHECK_EQ(InitializeInjectionNvtx2(get_table), 1);
	CHECK_LT(nvtx.push_a("before"), 0);
	rec_start("a");
	uint64_t token = proton_scope_enter("mine");
	CHECK_LT(nvtx.pop(), 0);
	rec_kernel("k");
	CHECK_EQ(proton_scope_exit(token, NULL), PROTON_OK);
	check_kernel_at("mine/k");
}

TEST(ranges_that_are_never_popped_end_with_the_session)
{
	start();
	nvtx.push_a("leaked");
	nvtx.push_a("leaked too");
	rec_finalize(PROTON_ALL_SESSIONS, "none");
	CHECK_LT(nvtx.pop(), 0);
	rec_start("a");
	CHECK_EQ(nvtx.push_a("r"), 0);
	rec_kernel("k");
	CHECK_EQ(nvtx.pop(), 0);
	CHECK_LT(nvtx.pop(), 0);
	check_kernel_at("r/k");
}

TEST(domains_are_popped_separately)
{
	const void *first, *second;

	start();
	first = nvtx.create_a("first");
	second = nvtx.create_w(L"second");
	CHECK(first && second && first != second);
	CHECK_EQ(push_in(first, "a"), 0);
	CHECK_EQ(push_in(second, "b"), 0);
	CHECK_EQ(push_in(first, "c"), 1);
	rec_kernel("abc");
	CHECK_EQ(nvtx.domain_pop(first), 1);
	rec_kernel("ab");
	CHECK_EQ(nvtx.domain_pop(first), 0); /* takes b with it: one stack of scopes */
	rec_kernel("none");
	CHECK_EQ(push_in(first, "d"), 0);
	CHECK_EQ(push_in(first, "e"), 1);
	CHECK_EQ(nvtx.domain_pop(second), 0); /* b's own pop comes late and ends nothing else */
	rec_kernel("de");
	CHECK_EQ(nvtx.domain_pop(first), 1);
	CHECK_EQ(nvtx.domain_pop(first), 0);
	EXPECT(rec_finish(), {"a/b/c/abc", 1}, {"a/b/ab", 1}, {"none", 1}, {"d/e/de", 1});
}

TEST(popping_a_range_that_was_already_left_does_not_end_a_later_one)
{
	uint64_t outer, later;

	start();
	outer = proton_scope_enter("outer");
	nvtx.push_a("leaked"); /* an exception passes over its pop */
	CHECK_EQ(proton_scope_exit(outer, NULL), PROTON_OK);
	outer = proton_scope_enter("next");
	later = proton_scope_enter("later"); /* takes the position of "leaked" */
	CHECK_EQ(nvtx.pop(), 0);
	rec_kernel("k");
	CHECK_EQ(proton_scope_exit(later, NULL), PROTON_OK);
	CHECK_EQ(proton_scope_exit(outer, NULL), PROTON_OK);
	EXPECT(rec_finish(), {"next/later/k", 1});
}

static void *work(void *name)
{
	for (int i = 0; i < 1000; i++) {
		nvtx.push_a(name);
		nvtx.push_a("below");
		rec_kernel("k");
		nvtx.pop();
		nvtx.pop();
		nvtx.pop();
	}
	nvtx.push_a("never popped");
	return NULL;
}

TEST(each_thread_has_its_own_ranges)
{
	static char names[4][4] = {"t0", "t1", "t2", "t3"};
	pthread_t threads[4];

	start();
	for (size_t i = 0; i < ARRAY_LENGTH(threads); i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, work, names[i]), 0);
	for (size_t i = 0; i < ARRAY_LENGTH(threads); i++)
		pthread_join(threads[i], NULL);
	struct profile *profile = rec_finish();
	for (size_t i = 0; i < ARRAY_LENGTH(threads); i++) {
		char path[32];

		snprintf(path, sizeof(path), "%s/below/k", names[i]);
		CHECK_U64(rec_count(profile, path), 1000);
	}
}

TEST(ranges_can_be_switched_off)
{
	start();
	nvtx.push_a("on");
	proton_nvtx_enable(false);
	CHECK_LT(nvtx.push_a("off"), 0);
	rec_kernel("k");
	CHECK_EQ(nvtx.pop(), 0); /* the range that was recorded */
	proton_nvtx_enable(true);
	CHECK_EQ(nvtx.push_a("on again"), 0);
	check_kernel_at("on/k");
}

TEST(the_variable_of_triton_switches_ranges_off)
{
	static const char *const words[] = {"0", "false", "OFF", "n", "No"};

	for (size_t i = 0; i < ARRAY_LENGTH(words); i++) {
		setenv("TRITON_ENABLE_NVTX", words[i], 1);
		start();
		CHECK_LT(nvtx.push_a("off"), 0);
		rec_finalize(PROTON_ALL_SESSIONS, "none");
		nvtx_attach();
		CHECK_PTR(getenv("NVTX_INJECTION64_PATH"), NULL);
	}
	setenv("TRITON_ENABLE_NVTX", "1", 1);
	start();
	CHECK_EQ(nvtx.push_a("on"), 0);
	rec_finalize(PROTON_ALL_SESSIONS, "none");
}

TEST(an_nvtx_without_some_functions_does_no_harm)
{
	CHECK_EQ(InitializeInjectionNvtx2(get_no_table), 0);
	core2_size = 5; /* an older, shorter one */
	CHECK_EQ(InitializeInjectionNvtx2(get_table), 1);
	CHECK(nvtx.domain_push_ex);
	CHECK(!nvtx.domain_pop);
}

static size_t count_named(const char *name)
{
	size_t length = strlen(name);
	size_t count = 0;

	for (char **entry = environ; *entry; entry++)
		count += strncmp(*entry, name, length) == 0 && (*entry)[length] == '=';
	return count;
}

TEST(the_environment_names_the_tool_while_it_is_attached)
{
	size_t before = 0;

	while (environ[before])
		before++;
	unsetenv("NVTX_INJECTION64_PATH");
	for (int i = 0; i < 3; i++) {
		nvtx_attach();
		CHECK(getenv("NVTX_INJECTION64_PATH"));
		CHECK_U64(count_named("NVTX_INJECTION64_PATH"), 1);
		nvtx_attach(); /* again: nothing more */
		CHECK_U64(count_named("NVTX_INJECTION64_PATH"), 1);
		setenv("SOMETHING_ELSE", "x", 1); /* may move the array */
		nvtx_detach();
		CHECK_PTR(getenv("NVTX_INJECTION64_PATH"), NULL);
		CHECK_STR(getenv("SOMETHING_ELSE"), "x");
		CHECK(getenv("PATH"));
		unsetenv("SOMETHING_ELSE");
	}
	for (size_t i = 0; i < before; i++)
		CHECK(environ[i]);
	CHECK(!environ[before]);
}

TEST(another_tool_in_the_environment_is_left_unchanged)
{
	setenv("NVTX_INJECTION64_PATH", "/their/tool.so", 1);
	nvtx_attach();
	CHECK_STR(getenv("NVTX_INJECTION64_PATH"), "/their/tool.so");
	nvtx_detach();
	CHECK_STR(getenv("NVTX_INJECTION64_PATH"), "/their/tool.so");
	unsetenv("NVTX_INJECTION64_PATH");
	nvtx_attach();
	setenv("NVTX_INJECTION64_PATH", "/later.so", 1); /* the program changes its mind */
	nvtx_detach();
	CHECK_STR(getenv("NVTX_INJECTION64_PATH"), "/later.so");
}

static _Atomic bool must_end;

static void *read_environment(void *unused)
{
	(void)unused;
	while (!must_end)
		if (!getenv("PATH"))
			return (void *)1;
	return NULL;
}

TEST(threads_may_read_the_environment_while_nvtx_is_attached)
{
	pthread_t threads[2];
	void *result;

	for (size_t i = 0; i < ARRAY_LENGTH(threads); i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, read_environment, NULL), 0);
	for (int i = 0; i < 2000; i++) {
		nvtx_attach();
		nvtx_detach();
	}
	must_end = true;
	for (size_t i = 0; i < ARRAY_LENGTH(threads); i++) {
		pthread_join(threads[i], &result);
		CHECK_PTR(result, NULL);
	}
}
