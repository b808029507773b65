/* base/hash: no collisions where there should be none, bits that look random, and a secret. */
#include "unit/tap.h"

#include <limits.h>

#include "base/hash.h"

static int by_value(const void *a, const void *b)
{
	const uint64_t *x = a;
	const uint64_t *y = b;

	return (*x > *y) - (*x < *y);
}

static void check_all_differ(uint64_t *hashes, size_t count)
{
	qsort(hashes, count, sizeof(*hashes), by_value);
	for (size_t i = 1; i < count; i++)
		CHECK(hashes[i] != hashes[i - 1]);
}

/* Number of hashes in the fullest of 1024 slots; the expected number is count / 1024. */
static size_t fullest_slot(const uint64_t *hashes, size_t count)
{
	size_t slots[1024] = {0};
	size_t max = 0;

	for (size_t i = 0; i < count; i++)
		if (++slots[hashes[i] & 1023] > max)
			max = slots[hashes[i] & 1023];
	return max;
}

TEST(integers_spread_over_the_low_bits)
{
	static const uint64_t strides[] = {1, 2, 8, 64, 4096, 1ull << 32, 1ull << 48};
	static uint64_t hashes[65536];

	for (size_t s = 0; s < sizeof(strides) / sizeof(strides[0]); s++) {
		for (uint64_t i = 0; i < 65536; i++)
			hashes[i] = hash_u64(i * strides[s]);
		CHECK_LT(fullest_slot(hashes, 65536), 64 + 60); /* 64 expected, deviation 8 */
		check_all_differ(hashes, 65536);
	}
}

TEST(texts_of_one_pattern_differ)
{
	static uint64_t hashes[65536];
	char text[64];

	for (unsigned i = 0; i < 65536; i++)
		hashes[i] = hash_bytes(text, (size_t)sprintf(text, "layer_%u.weight/kernel", i));
	CHECK_LT(fullest_slot(hashes, 65536), 64 + 60);
	check_all_differ(hashes, 65536);
}

TEST(zeros_of_every_length_differ)
{
	static const char zeros[4096];
	static uint64_t hashes[4096];

	for (size_t i = 0; i < 4096; i++)
		hashes[i] = hash_bytes(zeros, i);
	check_all_differ(hashes, 4096);
}

TEST(every_bit_of_the_input_matters)
{
	unsigned char bytes[40];
	uint64_t first;
	uint64_t changed = 0;
	uint32_t samples = 0;

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (unsigned char)(i * 7);
	for (size_t length = 1; length <= sizeof(bytes); length++) {
		first = hash_bytes(bytes, length);
		for (size_t bit = 0; bit < length * 8; bit++) {
			uint64_t other;

			bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
			other = hash_bytes(bytes, length);
			bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
			CHECK(other != first);
			changed += (uint64_t)__builtin_popcountll(other ^ first);
			samples++;
		}
	}
	/* Half of 64 bits flip on average. */
	CHECK_NEAR((double)changed / samples, 32.0, 1.0);
}

TEST(position_and_alignment_do_not_matter_to_equal_bytes)
{
	char at[64 + 16];
	uint64_t expected = 0;

	for (size_t shift = 0; shift < 16; shift++) {
		memset(at, 'z', sizeof(at));
		memcpy(at + shift, "the same bytes, somewhere else", 30);
		if (shift == 0)
			expected = hash_bytes(at, 30);
		CHECK_U64(hash_bytes(at + shift, 30), expected);
	}
}

/* Names that all have the hash 0x1234567 after 16 bytes when the factor and the start are known. */
TEST(names_made_to_collide_without_the_secret_do_not)
{
	static uint64_t hashes[65536];
	const uint64_t start = 0x9e3779b97f4a7c15ULL ^ 16;

	for (uint64_t i = 0; i < 65536; i++) {
		uint64_t name[2] = {0x6161616161616161ULL + i, 0x1234567};
		__uint128_t product = (__uint128_t)(start ^ name[0]) * 0xa0761d6478bd642fULL;

		name[1] ^= (uint64_t)product ^ (uint64_t)(product >> 64);
		hashes[i] = hash_bytes(name, sizeof(name));
	}
	CHECK_LT(fullest_slot(hashes, 65536), 64 + 60);
	check_all_differ(hashes, 65536);
}

TEST(a_forked_child_hashes_as_its_parent)
{
	uint64_t expected = hash_u64(1);
	int status = -1;
	pid_t child = fork();

	if (child == 0)
		_exit(hash_u64(1) == expected ? 0 : 1);
	CHECK(child > 0 && waitpid(child, &status, 0) == child);
	CHECK_EQ(status, 0);
}

/* The hash of 1 in a new process: this test program again, which then only prints it. */
static uint64_t hash_elsewhere(void)
{
	char self[PATH_MAX], command[PATH_MAX + 100], line[256];
	unsigned long long hash = 0;
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

	skip_if_emulated("the emulator starts no further programs of its processor");
	CHECK(length > 0);
	self[length] = '\0';
	snprintf(command, sizeof(command), "PRINT_HASH=1 '%s' --no-fork every_process", self);
	FILE *output = popen(command, "r");
	CHECK(output != NULL);
	while (fgets(line, sizeof(line), output))
		sscanf(line, "# hash %llx", &hash);
	pclose(output);
	return hash;
}

TEST(every_process_has_a_different_secret)
{
	if (getenv("PRINT_HASH")) {
		printf("# hash %llx\n", (unsigned long long)hash_u64(1));
		return;
	}
	uint64_t first = hash_elsewhere();
	CHECK(first != 0);
	CHECK(first != hash_elsewhere());
	CHECK(first != hash_u64(1));
}
