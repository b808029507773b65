/* viewer/numbers/why: causes that a hatchet file cannot hold. Others: tests/python/test_why.py. */
#include "unit/tap.h"

#include "viewer/numbers/why.h"

/* A kernel with this time, and the CRC of its machine code. */
static struct profile *make(uint64_t ns, uint64_t crc)
{
	struct profile *profile = profile_new();
	uint32_t name = profile_string(profile, "matmul", 6);
	uint32_t frame = profile_frame(profile, (struct row_frame){.name = name});
	uint32_t device = profile_device(profile, profile_string(profile, "CUDA", 4), 0);
	struct profile_kernel *kernel =
		profile_kernel(profile, profile_node(profile, 0, frame), device);

	kernel->count = 1;
	kernel->total_ns = ns;
	profile->samples = calloc(1, sizeof(*profile->samples));
	profile->samples->functions = calloc(1, sizeof(struct profile_function));
	profile->samples->function_count = 1;
	profile->samples->functions[0] = (struct profile_function){.name = name, .crc = crc};
	return profile;
}

static char *sentence_of(uint64_t before_crc, uint64_t after_crc)
{
	struct why why = {0};
	struct profile *runs[] = {make(100, before_crc), make(101, before_crc),
				  make(200, after_crc)};

	why_add(&why, WHY_BEFORE, runs[0]);
	why_add(&why, WHY_BEFORE, runs[1]);
	why_add(&why, WHY_AFTER, runs[2]);
	char *sentence = why_sentence(&why, WHY_NOISE_NOT);
	why_fini(&why);
	for (size_t i = 0; i < 3; i++)
		profile_free(runs[i]);
	return sentence;
}

TEST(other_machine_code_is_a_cause)
{
	char *sentence = sentence_of(1, 2);

	CHECK_STR(sentence, "Why: the machine code of matmul differs");
	free(sentence);
}

TEST(machine_code_without_a_crc_or_with_the_same_one_is_not_a_cause)
{
	static const uint64_t pairs[][2] = {{7, 7}, {0, 7}, {7, 0}, {0, 0}};

	for (size_t i = 0; i < 4; i++) {
		char *sentence = sentence_of(pairs[i][0], pairs[i][1]);

		CHECK_HAS(sentence, "Why: not known: ");
		free(sentence);
	}
}

TEST(profiles_without_kernels_have_no_cause)
{
	struct profile *profile = profile_new();
	struct why why = {0};

	why_add(&why, WHY_BEFORE, profile);
	CHECK(!why_sentence(&why, WHY_NOISE_NOT));
	why_add(&why, WHY_AFTER, profile);
	CHECK(!why_sentence(&why, WHY_NOISE_NOT));
	why_fini(&why);
	profile_free(profile);
}
