/* Instrumentation mode: every key and every error. */
#include "intra/mode.h"

#include "unit/tap.h"

static struct instrument_mode mode;
static struct proton_error err;

static void refused(const char *text, const char *why)
{
	CHECK_EQ(instrument_mode_read(text, &mode, &err), PROTON_E_INVALID);
	CHECK_HAS(err.text, why);
}

static void check_key(const char *text, const char *expected)
{
	struct out out;

	CHECK_OK(instrument_mode_read(text, &mode, &err), err);
	out_init(&out, -1);
	instrument_mode_key(&mode, &out);
	out_byte(&out, '\0');
	CHECK_STR(out.bytes, expected);
	out_fini(&out);
}

TEST(defaults)
{
	const char *texts[] = {NULL, "", "default", "default:"};

	for (size_t i = 0; i < 4; i++) {
		CHECK_OK(instrument_mode_read(texts[i], &mode, &err), err);
		CHECK_EQ(mode.warps_per_unit, 1);
		CHECK_U64(mode.warps, 0);
		CHECK_EQ(mode.buffer, INSTRUMENT_BUFFER_SHARED);
		CHECK_EQ(mode.buffer_bytes, 0);
		CHECK_EQ(mode.cta_stride, 1);
		CHECK_EQ(mode.launches, 8);
		CHECK_EQ(mode.autos, 0);
		CHECK(!mode.time_shift && !mode.autos);
		CHECK_EQ(mode.tree, INSTRUMENT_TREE_AUTO);
	}
}

TEST(mode_printed_by_python)
{
	const char *text = "default:metric_type=cycle:sampling_strategy=selective:"
			   "granularity=warp_group:buffer_strategy=circular:buffer_type=global:"
			   "sampling_options=7, 0,3,0:buffer_size=4096:"
			   "optimizations=clock32,time_shift, sched_stores,sched_barriers";

	CHECK_OK(instrument_mode_read(text, &mode, &err), err);
	CHECK_U64(mode.warps, 1u << 7 | 1u << 3 | 1u);
	CHECK(mode.time_shift && mode.sched_barriers);
	CHECK_EQ(mode.warps_per_unit, 4);
	CHECK_EQ(mode.buffer, INSTRUMENT_BUFFER_GLOBAL);
	CHECK_EQ(mode.buffer_bytes, 4096);
	CHECK_EQ(mode.cta_stride, 1);
	/* Empty values, as an object without options prints them. */
	CHECK_OK(instrument_mode_read("default:sampling_options=:optimizations=", &mode, &err),
		 err);
}

TEST(automatic_scopes)
{
	CHECK_OK(instrument_mode_read("default:auto=loads,dots", &mode, &err), err);
	CHECK_EQ(mode.autos, INSTRUMENT_AUTO_LOADS | INSTRUMENT_AUTO_DOTS);
	CHECK_OK(instrument_mode_read("default:auto=all", &mode, &err), err);
	CHECK_EQ(mode.autos, INSTRUMENT_AUTO_ALL);
	CHECK_OK(instrument_mode_read("mma", &mode, &err), err);
	CHECK_EQ(mode.autos, INSTRUMENT_AUTO_DOTS);
	CHECK_OK(instrument_mode_read("mma:auto=waits", &mode, &err), err);
	CHECK_EQ(mode.autos, INSTRUMENT_AUTO_DOTS | INSTRUMENT_AUTO_WAITS);
	CHECK_OK(instrument_mode_read("default:auto=reduce,scan,convert,local,tmem,atomic,call",
				      &mode, &err),
		 err);
	CHECK_EQ(mode.autos, 127 << 6);
	refused("default:auto=branches",
		"unknown automatic scope \"branches\"; expected one of loads, dots, stores, waits, "
		"loops, partitions, reduce, scan, convert, local, tmem, atomic, call, asm, "
		"math, all");
}

TEST(budgets)
{
	CHECK_OK(instrument_mode_read("default:auto=all:budget=5", &mode, &err), err);
	CHECK_EQ(mode.budget, 5);
	CHECK_OK(instrument_mode_read("mma:budget=100", &mode, &err), err);
	CHECK_EQ(mode.budget, 100);
	CHECK_OK(instrument_mode_read("default:auto=loads:budget=off", &mode, &err), err);
	CHECK_EQ(mode.budget, 0);
	CHECK_OK(instrument_mode_read("default:budget=off:auto=loads", &mode, &err), err);
	CHECK_EQ(mode.budget, 0);
	CHECK_OK(instrument_mode_read("default:budget=off", &mode, &err), err);
	refused("default:auto=all:budget=0",
		"mode: budget must be a percentage from 1 to 100 or \"off\", not \"0\"");
	refused("default:auto=all:budget=101", "not \"101\"");
	refused("default:auto=all:budget=5%", "not \"5%\"");
	refused("default:auto=all:budget=", "not \"\"");
	refused("default:auto=all:budget=5:budget=6", "mode: budget is given twice");
	refused("default:budget=5", "mode: budget limits automatic scopes; select them with auto=");
}

TEST(automatic_scopes_have_a_budget_by_default)
{
	static const struct {
		const char *text;
		uint32_t budget;
	} cases[] = {
		{"default:auto=all", 5},
		{"default:auto=loads,dots", 5},
		{"mma:auto=loops", 5},
		{"default:auto=all:budget=30", 30},
		{"default:budget=3:auto=all", 3},
		{"default", 0},
		{"", 0},
		{"default:auto=", 0},
		{"mma", 0},
		{"mma:cta=2", 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CHECK_OK(instrument_mode_read(cases[i].text, &mode, &err), err);
		CHECK_EQ(mode.budget, cases[i].budget);
	}
}

TEST(launches_and_ctas)
{
	CHECK_OK(instrument_mode_read("default:launches=all:cta=16", &mode, &err), err);
	CHECK_U64(mode.launches, INSTRUMENT_LAUNCHES_ALL);
	CHECK_EQ(mode.cta_stride, 16);
	CHECK_OK(instrument_mode_read("default:launches=1", &mode, &err), err);
	CHECK_EQ(mode.launches, 1);
	refused("default:launches=0", "launches must be a positive number or \"all\", not \"0\"");
	refused("default:launches=4294967296", "launches");
	refused("default:cta=0", "cta must be a number from 1 to");
	refused("default:cta=18446744073709551617", "cta");
}

TEST(granularities)
{
	static const struct {
		const char *text;
		uint32_t warps;
	} cases[] = {
		{"warp", 1},          {"warp_2", 2},        {"warp_4", 4},
		{"warp_8", 8},        {"warp_group", 4},    {"warp_group_2", 8},
		{"warp_group_4", 16}, {"warp_group_8", 32}, {"cta", 32},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[64];

		snprintf(text, sizeof(text), "default:granularity=%s", cases[i].text);
		CHECK_OK(instrument_mode_read(text, &mode, &err), err);
		CHECK_EQ(mode.warps_per_unit, cases[i].warps);
	}
	refused("default:granularity=thread",
		"unknown granularity \"thread\"; expected one of warp, ");
}

TEST(invalid_modes_are_rejected)
{
	refused("pcsampling:interval=1000", "unsupported mode: pcsampling; ");
	refused("defaults", "unsupported mode: defaults; ");
	refused("default:fast", "\"fast\" is not of the form key=value");
	refused("default:speed=1",
		"unknown key \"speed\"; expected one of metric_type, sampling_strategy, ");
	refused("default:speed=1", ", cta, launches");
	refused("default:=1", "unknown key \"\"");
	refused("default:cta=1:cta=2", "cta is given twice");
	refused("default:metric_type=joule",
		"unknown metric_type \"joule\"; expected one of cycle");
	refused("default:buffer_strategy=flush", "\"flush\" is not supported");
	refused("default:buffer_strategy=ring",
		"unknown buffer_strategy \"ring\"; expected one of circular");
	refused("auto=all", "\"auto=all\" is not a mode name; start with \"default:\" or");
	refused("default,cta=2:auto=all", "\"default,cta=2\" is not a mode name");
	refused("default:buffer_type=heap",
		"unknown buffer_type \"heap\"; expected one of shared, g");
	CHECK_OK(instrument_mode_read("default:buffer_type=shared_mem", &mode, &err), err);
	CHECK_EQ(mode.buffer, INSTRUMENT_BUFFER_SHARED);
	refused("default:buffer_size=1k", "buffer_size (bytes) must be a number from 0 to");
	refused("default:buffer_size=", "buffer_size (bytes) must be a number");
	refused("default:buffer_size=67108865", "buffer_size");
	refused("default:optimizations=fast",
		"unknown optimization \"fast\"; expected one of clock32, ");
	refused("default:sampling_strategy=selective", "requires the warps to sample");
	refused("default:sampling_options=1", "requires sampling_strategy=selective");
	refused("default:sampling_strategy=selective:sampling_options=32",
		"a warp of sampling_options must be a number from 0 to 31, not \"32\"");
	refused("default:sampling_strategy=selective:sampling_options=0,,1", "not \"\"");
	refused("default:sampling_strategy=random", "unknown sampling_strategy \"random\"");
}

TEST(modes_with_different_code_have_different_keys)
{
	check_key("default", "unit1-warps0-shared0-cta1");
	/* Keys that affect only the decoder make no difference. */
	check_key("default:launches=all:optimizations=time_shift,clock32,sched_stores",
		  "unit1-warps0-shared0-cta1");
	check_key("default:sampling_strategy=selective:sampling_options=2,0:cta=4:granularity=cta",
		  "unit32-warps5-shared0-cta4");
	check_key("default:buffer_type=global:buffer_size=64:auto=dots:"
		  "optimizations=sched_barriers",
		  "unit1-warps0-global64-cta1-barriers-auto2-budget5");
	check_key("default:auto=all:budget=12", "unit1-warps0-shared0-cta1-auto3fff-budget12");
	check_key("default:auto=all", "unit1-warps0-shared0-cta1-auto3fff-budget5");
	check_key("mma", "unit1-warps0-shared0-cta1-auto2");
	check_key("default:auto=all:budget=off", "unit1-warps0-shared0-cta1-auto3fff");
	check_key("default:tree=auto", "unit1-warps0-shared0-cta1");
	check_key("default:tree=records", "unit1-warps0-shared0-cta1-records");
	check_key("default:tree=sums", "unit1-warps0-shared0-cta1-sums");
}
