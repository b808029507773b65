/*
 * Fake libcuda, the part that runs src/backend/intra/calibrate_kernel.h: an SM with a clock that
 * advances when it is read and when a record is stored. The first launches take three times as
 * long, as with cold caches, and every eighth writes no records.
 */
#include "fake/cuda_calibrate.h"

#include <stdatomic.h>
#include <string.h>

#include "backend/intra/calibrate_kernel.h"
#include "fake/fake_cupti.h"
#include "intra/layout.h"

#define SLOW_LAUNCHES 5
#define HEADER_BYTES sizeof(struct instrument_unit_header)

/* As the kernel's layout numbers them. */
enum code {
	EMPTY = 1,
	FEW,
	MANY
};

struct processor {
	double clock;
	double reading;
	double record;
	struct instrument_record *records;
	uint32_t count;
};

static char the_module;
static _Atomic uint32_t launches;
static double reading_cycles = 2;
static double record_cycles = 10;

FAKE_EXPORT void fake_set_record_cost(double reading, double record)
{
	reading_cycles = reading;
	record_cycles = record;
}

FAKE_EXPORT uint32_t fake_calibrations(void)
{
	return atomic_load(&launches);
}

void *fake_calibrate_module(const char *image)
{
	return strcmp(image, calibrate_kernel) == 0 && *calibrate_layout ? &the_module : NULL;
}

static uint32_t read_clock(struct processor *processor)
{
	processor->clock += processor->reading;
	return (uint32_t)processor->clock;
}

static void store(struct processor *processor, enum code code, uint32_t start, uint32_t end)
{
	processor->records[processor->count++] =
		(struct instrument_record){start, (uint32_t)code << 24 | (end - start)};
	processor->clock += processor->record;
}

static void outer(struct processor *processor, enum code code, uint32_t empties)
{
	uint32_t start = read_clock(processor);

	for (uint32_t i = 0; i < empties; i++) {
		uint32_t inner = read_clock(processor);

		store(processor, EMPTY, inner, read_clock(processor));
	}
	store(processor, code, start, read_clock(processor));
}

void fake_calibrate_launch(uint64_t buffer)
{
	uint32_t number = atomic_fetch_add(&launches, 1);
	double slowness = number < SLOW_LAUNCHES ? 3 : 1;
	struct instrument_record records[CALIBRATE_FEW + CALIBRATE_MANY + 2];
	struct processor processor = {
		.clock = 1e6 + number * 0.3,
		.reading = reading_cycles * slowness,
		.record = record_cycles * slowness,
		.records = records,
	};
	struct instrument_unit_header header = {
		.magic = INSTRUMENT_MAGIC,
		.start_clock = (uint64_t)processor.clock,
		.count = CALIBRATE_FEW + CALIBRATE_MANY + 2,
	};

	if (number % 8 == 7 || (reading_cycles == 0 && record_cycles == 0))
		return;
	outer(&processor, FEW, CALIBRATE_FEW);
	outer(&processor, MANY, CALIBRATE_MANY);
	header.end_clock = (uint64_t)processor.clock + 1;
	memcpy((void *)(uintptr_t)buffer, &header, sizeof(header));
	memcpy((void *)(uintptr_t)(buffer + HEADER_BYTES), records, sizeof(records));
}
