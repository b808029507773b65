/* symbol/debug_info: ranges of DWARF 5 by entry. test_amd_lines.py reads LLVM's. */
#include "unit/tap.h"

#include "symbol/debug_info.h"

#define FORM_ADDR 0x01
#define FORM_SEC_OFFSET 0x17

static char ranges_text[512];
static size_t ranges_length;

static bool add_range(void *user, uint64_t begin, uint64_t end)
{
	(void)user;
	ranges_length +=
		(size_t)snprintf(ranges_text + ranges_length, sizeof(ranges_text) - ranges_length,
				 "%s%" PRIx64 "-%" PRIx64, ranges_length ? " " : "", begin, end);
	return true;
}

/* "BEGIN-END ..." of a list in a unit at 0x1000 with the addresses 0x2000 and 0x3000. */
static const char *ranges_of(const char *list, size_t length)
{
	static const uint64_t addresses[] = {0x2000, 0x3000};
	struct debug_info debug = {
		.addresses = {(const uint8_t *)addresses, sizeof(addresses)},
		.ranges = {(const uint8_t *)list, length},
		.version = 5,
		.offset_size = 4,
		.address_size = 8,
		.budget = 100,
	};
	struct debug_entry entry = {0};

	debug.root.values[ATTRIBUTE_LOW_PC] = (struct debug_value){FORM_ADDR, 0x1000, NULL};
	entry.values[ATTRIBUTE_RANGES] = (struct debug_value){FORM_SEC_OFFSET, 0, NULL};
	ranges_text[0] = '\0';
	ranges_length = 0;
	debug_info_ranges(&debug, &entry, add_range, NULL);
	return ranges_text;
}

#define RANGES(list) ranges_of(list, sizeof(list) - 1)

TEST(each_kind_of_entry_has_its_range)
{
	CHECK_STR(RANGES("\4\x10\x20\0"), "1010-1020"); /* offsets from the unit */
	CHECK_STR(RANGES("\1\1\4\x10\x20\0"), "3010-3020");
	CHECK_STR(RANGES("\2\0\1\0"), "2000-3000");
	CHECK_STR(RANGES("\3\1\x40\0"), "3000-3040");
	CHECK_STR(RANGES("\5\0\x50\0\0\0\0\0\0\4\1\2\0"), "5001-5002");
	CHECK_STR(RANGES("\6\0\x50\0\0\0\0\0\0\0\x60\0\0\0\0\0\0\0"), "5000-6000");
	CHECK_STR(RANGES("\7\0\x50\0\0\0\0\0\0\x8\0"), "5000-5008");
	CHECK_STR(RANGES("\4\1\1\4\2\3\0"), "1002-1003"); /* an empty range is left out */
	CHECK_STR(RANGES("\4\1\2\0\4\3\4\0"), "1001-1002");
}

TEST(list_ends_at_an_address_that_the_unit_does_not_have)
{
	CHECK_STR(RANGES("\4\1\2\3\2\x40\4\3\4\0"), "1001-1002"); /* a length from address 2 */
	CHECK_STR(RANGES("\4\1\2\2\2\1\4\3\4\0"), "1001-1002");   /* from address 2 */
	CHECK_STR(RANGES("\4\1\2\2\0\2\4\3\4\0"), "1001-1002");   /* to address 2 */
	CHECK_STR(RANGES("\4\1\2\1\2\4\3\4\0"), "1001-1002");     /* a base */
	CHECK_STR(RANGES("\4\1\2\x8\4\3\4\0"), "1001-1002");      /* an unknown kind */
}

TEST(entry_that_the_section_cuts_off_has_no_range)
{
	CHECK_STR(RANGES("\4\1\2\4\x10"), "1001-1002");
	CHECK_STR(RANGES("\4\1\2\3\1"), "1001-1002");
	CHECK_STR(RANGES("\4\1\2\6\0\x50\0\0\0\0\0\0\0\x60\0"), "1001-1002");
	CHECK_STR(RANGES("\4\1\2\7\0\x50\0\0\0\0\0\0"), "1001-1002");
}
