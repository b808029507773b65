/* Clearing device buffers with copies from pinned zeros. */
#include "backend/intra/buffer_clear.h"

#include <pthread.h>
#include <string.h>

#include "driver/driver.h"

/* Pinned zeros as copy source; copies of more rows are split. */
#define ZEROS_BYTES ((size_t)256 << 10)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *zeros;

static const void *get_zeros(void)
{
	const void *found;

	pthread_mutex_lock(&lock);
	if (!zeros) {
		if (driver.cuMemHostAlloc(&zeros, ZEROS_BYTES, DRIVER_HOST_PORTABLE) == 0)
			memset(zeros, 0, ZEROS_BYTES);
		else
			zeros = NULL;
	}
	found = zeros;
	pthread_mutex_unlock(&lock);
	return found;
}

/* Zeroes `width` bytes at `address` and at every `pitch` bytes after it. */
static bool zero_rows(uint64_t address, size_t pitch, size_t width, size_t rows, void *stream)
{
	struct driver_copy copy = {
		.from_kind = DRIVER_MEMORY_HOST,
		.from_host = get_zeros(),
		.from_pitch = width,
		.to_kind = DRIVER_MEMORY_DEVICE,
		.to_pitch = pitch,
		.width_bytes = width,
	};

	if (!copy.from_host || width > ZEROS_BYTES)
		return false;
	for (size_t row = 0; row < rows; row += copy.rows) {
		copy.rows = rows - row < ZEROS_BYTES / width ? rows - row : ZEROS_BYTES / width;
		copy.to_device = address + row * pitch;
		if (driver.cuMemcpy2DAsync(&copy, stream) != 0)
			return false;
	}
	return true;
}

static size_t rows_of(const struct buffer *buffer, const struct instrument_layout *layout)
{
	return buffer->launch.used_bytes / layout->cta_bytes;
}

bool buffer_clear_headers(const struct buffer *buffer, const struct instrument_layout *layout,
			  void *stream)
{
	return zero_rows(buffer->address, layout->cta_bytes, layout_ring_at(layout, 0),
			 rows_of(buffer, layout), stream) ||
	       buffer_clear_all(buffer, stream);
}

bool buffer_clear_slack(const struct buffer *buffer, const struct instrument_layout *layout,
			void *stream)
{
	bool is_ok = true;

	for (uint32_t unit = 0; is_ok && layout->slack_bytes && unit < layout->unit_count; unit++)
		is_ok = zero_rows(
			buffer->address + layout_ring_at(layout, unit) + layout->ring_bytes,
			layout->cta_bytes, layout->slack_bytes, rows_of(buffer, layout), stream);
	return is_ok || buffer_clear_all(buffer, stream);
}

bool buffer_clear_all(const struct buffer *buffer, void *stream)
{
	return driver.cuMemsetD8Async(buffer->address, 0, buffer->bytes, stream) == 0;
}

struct shape buffer_clear_shape(const struct instrument_layout *layout)
{
	return (struct shape){layout->unit_count, layout->ring_bytes, layout->slack_bytes,
			      layout->cta_bytes};
}

bool buffer_clear_is_for(const struct buffer *buffer, const struct instrument_layout *layout)
{
	struct shape shape = buffer_clear_shape(layout);

	return !buffer->shape.cta_bytes || memcmp(&buffer->shape, &shape, sizeof(shape)) == 0;
}

void buffer_clear_fini(void)
{
	pthread_mutex_lock(&lock);
	if (zeros)
		driver.cuMemFreeHost(zeros);
	zeros = NULL;
	pthread_mutex_unlock(&lock);
}

void buffer_clear_forget(void)
{
	pthread_mutex_init(&lock, NULL);
	zeros = NULL;
}
