/*
 * PC samples of real cubins: their source lines in the tree, with the inlined calls. The cubins are
 * two of tests/fuzz/corpus/line_table; one has no calls, but PTX after it.
 */
#include "unit/cuda/cuda_session.h"

#include "model/samples.h"

#define SEPARATOR "\n//PTX\n"

static uint8_t gpu0;

static char *corpus_file(const char *name, size_t *length)
{
	char path[512], *bytes;

	snprintf(path, sizeof(path), "%s/fuzz/corpus/line_table/%s", TESTS_DIR, name);
	CHECK_DONE(file_read_all(path, NULL, &bytes, length, &err));
	return bytes;
}

static void write_file(const char *path, const char *bytes, size_t length)
{
	int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);

	CHECK_EQ(write(fd, bytes, length), (ssize_t)length);
	close(fd);
}

/* Appends "FILE:LINE=SAMPLES{...}" for each source line below a node. */
static void append_lines(const struct profile *profile, uint32_t node, struct out *out)
{
	for (uint32_t i = profile->nodes[node].first_child; i; i = profile->nodes[i].next_sibling) {
		const struct row_frame *frame = &profile->frames[profile->nodes[i].frame];
		const char *file = profile_text(profile, frame->file);

		CHECK_EQ(frame->kind, FRAME_SOURCE);
		out_printf(out, " %s:%" PRIu32, strrchr(file, '/') + 1, frame->line);
		for (uint32_t v = profile->nodes[i].first_value; v; v = profile->values[v].next)
			if (strcmp(profile_text(profile,
						profile->metrics[profile->values[v].metric].name),
				   SAMPLES_ALL) == 0)
				out_printf(out, "=%" PRId64, profile->values[v].as.int64);
		out_byte(out, '{');
		append_lines(profile, i, out);
		out_text(out, " }");
	}
}

/* The lines below kernel "one", after samples at two offsets of it. */
static const char *sampled_lines(const char *cubin, size_t length, const uint32_t offsets[2])
{
	static struct out out;

	setenv("FAKE_CUDA_NO_CONTEXT", "1", 1);
	load_fake();
	int session = REC_START(.backend = "cupti", .mode = "pcsampling");
	fake.context_create(&gpu0);
	void *module = fake.module_load(cubin, length);
	fake.launch(&(struct fake_launch){
		.call = CUPTI_CALL_LAUNCH_KERNEL,
		.name = "one",
		.context = &gpu0,
		.records = 1,
		.start_ns = 1000,
		.end_ns = 2000,
		.config = {.grid = {1, 1, 1}, .block = {128, 1, 1}},
		.function = fake.module_function(module, "one"),
	});
	for (uint32_t i = 0; i < 2; i++)
		fake.pcs_take(&gpu0, &(struct fake_pc){.crc = fake.module_crc(module),
						       .function = "one",
						       .offset = offsets[i],
						       .reason = "wait",
						       .samples = 5 + i});
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	struct profile *profile = finish();
	out_init(&out, -1);
	CHECK_NE(rec_node(profile, "one"), REC_NOWHERE);
	append_lines(profile, rec_node(profile, "one"), &out);
	for (size_t i = 0; i < profile->info_count; i++)
		if (strcmp(profile_text(profile, profile->info[i].key), "pc_sampling_lines") == 0)
			out_printf(&out, "; %s", profile_text(profile, profile->info[i].value));
	out_byte(&out, '\0');
	return out.bytes;
}

TEST(lines_are_below_the_calls_that_the_cubin_has)
{
	size_t length;
	char *cubin = corpus_file("calls", &length);

	CHECK_STR(sampled_lines(cubin, length, (uint32_t[]){0x60, 0x40}),
		  " main.cu:12{ lib.cuh:20=6{ lib.cuh:30=5{ } } }; with inlined calls 100.0 %, "
		  "innermost line only 0.0 %, none 0.0 %");
	free(cubin);
}

/* Triton's cache: one of many directories has cubin and PTX. Returns the cubin's size. */
static size_t make_cache(char *bytes, size_t length)
{
	const char *ptx = memmem(bytes, length, SEPARATOR, strlen(SEPARATOR));
	size_t cubin_length = (size_t)(ptx - bytes);
	char cache[256];

	snprintf(cache, sizeof(cache), "%s", rec_path("cache"));
	setenv("TRITON_CACHE_DIR", cache, 1);
	CHECK_EQ(mkdir(cache, 0700), 0);
	CHECK_EQ(mkdir(rec_path("cache/OTHER"), 0700), 0);
	for (int i = 0; i < 20; i++) {
		char other[32];

		snprintf(other, sizeof(other), "cache/kernel %d", i);
		CHECK_EQ(mkdir(rec_path(other), 0700), 0);
	}
	CHECK_EQ(mkdir(rec_path("cache/HASH"), 0700), 0);
	ptx += strlen(SEPARATOR);
	write_file(rec_path("cache/HASH/one.cubin"), bytes, cubin_length);
	write_file(rec_path("cache/HASH/one.ptx"), ptx, length - (size_t)(ptx - bytes));
	/* A kernel of that name and size, compiled for something else. */
	bytes[0] = 'x';
	write_file(rec_path("cache/OTHER/one.cubin"), bytes, cubin_length);
	write_file(rec_path("cache/OTHER/one.ptx"), "", 0);
	bytes[0] = 0x7f;
	return cubin_length;
}

TEST(calls_of_old_cubins_come_from_the_ptx_in_the_cache)
{
	size_t length;
	char *bytes = corpus_file("ptx", &length);
	size_t cubin_length = make_cache(bytes, length);

	CHECK_STR(sampled_lines(bytes, cubin_length, (uint32_t[]){0x80, 0x50}),
		  " main.cu:12{ lib.cuh:20=6{ lib.cuh:30=5{ } } }; with inlined calls 100.0 %, "
		  "innermost line only 0.0 %, none 0.0 %");
	free(bytes);
}

TEST(without_the_ptx_only_innermost_lines_are_known)
{
	size_t length;
	char *bytes = corpus_file("ptx", &length);
	size_t cubin_length = make_cache(bytes, length);

	unlink(rec_path("cache/HASH/one.cubin"));
	CHECK_STR(sampled_lines(bytes, cubin_length, (uint32_t[]){0x80, 99999}),
		  " lib.cuh:30=5{ }; with inlined calls 0.0 %, innermost line only 45.5 %, "
		  "none 54.5 %");
	free(bytes);
}
