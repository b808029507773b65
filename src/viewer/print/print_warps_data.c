/*
 * --warps as data for programs: the stored sums. --csv prints one line per kernel, role, scope of a
 * role, and asynchronous work; --json one object per kernel with the same rows as lists.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "format/csv_write.h"
#include "format/json_write.h"
#include "viewer/print/print_warps.h"
#include "viewer/query/frame_names.h"

struct data {
	const struct warps_report *report;
	const struct options *options;
	struct out *out;
	struct json_writer json;
	struct out name;
};

/* Stored names, unless --names is given. */
static void read_name(struct data *data, uint32_t frame)
{
	data->name.length = 0;
	if (frame != WARPS_NO_FRAME)
		name_write_styled(&data->name, data->report->profile, frame,
				  data->options->style.format,
				  style_stored_names(&data->options->style));
}

static void data_init(struct data *data, const struct warps_report *report,
		      const struct options *options, struct out *out)
{
	*data = (struct data){.report = report, .options = options, .out = out};
	out_init(&data->name, -1);
	out_byte(&data->name, ' '); /* ensures that the buffer exists */
}

/* Sums of cycles are integers, but a file may contain anything. */
static bool is_whole(double value)
{
	return value >= -0x1p53 && value <= 0x1p53 && value == floor(value);
}

/* ------------------------------------------------------------------ csv */

static void write_number(struct out *out, double value)
{
	if (is_whole(value))
		out_i64(out, (int64_t)value);
	else
		csv_number(out, value);
}

static void csv_name(struct data *data, uint32_t frame)
{
	read_name(data, frame);
	csv_quoted(data->out, data->name.bytes, data->name.length);
}

void warps_csv(const struct warps_report *report, const struct options *options, struct out *out)
{
	bool is_partial = profile_is_partial(report->profile);
	struct data data;

	data_init(&data, report, options, out);
	out_text(out, "kernel,role,scope");
	for (size_t n = 0; n < WARPS_NUMBERS; n++)
		out_printf(out, ",%s", warps_metrics[n]);
	out_text(out, is_partial ? ",partial\n" : "\n");
	for (size_t k = 0; k < report->kernel_count; k++) {
		const struct warps_kernel *kernel = &report->kernels[k];

		for (size_t i = 0; i < kernel->count; i++) {
			const struct warps_row *row = &kernel->rows[i];

			csv_name(&data, row->kernel);
			out_byte(out, ',');
			csv_name(&data, row->role);
			out_byte(out, ',');
			csv_name(&data, row->scope);
			for (size_t n = 0; n < WARPS_NUMBERS; n++) {
				out_byte(out, ',');
				write_number(out, row->number[n]);
			}
			out_text(out, is_partial ? ",1\n" : "\n");
		}
	}
	out_fini(&data.name);
}

/* ------------------------------------------------------------------ json */

static void json_name(struct data *data, const char *key, uint32_t frame)
{
	read_name(data, frame);
	json_key(&data->json, key);
	json_string(&data->json, data->name.bytes, data->name.length);
}

static void json_number(struct json_writer *json, double value)
{
	if (is_whole(value))
		json_int64(json, (int64_t)value);
	else
		json_double(json, value);
}

static void json_row(struct data *data, const char *key, uint32_t frame,
		     const struct warps_row *row)
{
	json_name(data, key, frame);
	for (size_t n = 0; n < WARPS_NUMBERS; n++) {
		if (isnan(row->number[n]))
			continue;
		json_key(&data->json, warps_metrics[n]);
		json_number(&data->json, row->number[n]);
	}
}

/* Writes a role until the end of its object; returns the row after it. */
static size_t json_role(struct data *data, const struct warps_kernel *kernel, size_t at)
{
	const struct warps_row *role = &kernel->rows[at];

	json_line_break(&data->json);
	json_begin_object(&data->json);
	json_row(data, "role", role->role, role);
	json_key_array(&data->json, "scopes");
	for (at++; at < kernel->count && kernel->rows[at].role == role->role; at++) {
		json_begin_object(&data->json);
		json_row(data, "scope", kernel->rows[at].scope, &kernel->rows[at]);
		json_end_object(&data->json);
	}
	json_end_array(&data->json);
	json_end_object(&data->json);
	return at;
}

static void json_kernel(struct data *data, const struct warps_kernel *kernel)
{
	struct json_writer *json = &data->json;
	size_t at = 1;

	json_line_break(json);
	json_begin_object(json);
	json_row(data, "kernel", kernel->rows[0].kernel, &kernel->rows[0]);
	json_key_array(json, "roles");
	while (at < kernel->count) {
		if (kernel->rows[at].is_async)
			at++;
		else
			at = json_role(data, kernel, at);
	}
	json_end_array(json);
	json_key_array(json, "asynchronous");
	for (size_t i = 1; i < kernel->count; i++) {
		if (!kernel->rows[i].is_async)
			continue;
		json_begin_object(json);
		json_row(data, "scope", kernel->rows[i].scope, &kernel->rows[i]);
		json_end_object(json);
	}
	json_end_array(json);
	json_end_object(json);
}

void warps_json(const struct warps_report *report, const struct options *options, struct out *out)
{
	struct data data;

	data_init(&data, report, options, out);
	json_writer_init(&data.json, out, false);
	json_begin_object(&data.json);
	json_key_bool(&data.json, "partial", profile_is_partial(report->profile));
	json_key_array(&data.json, "kernels");
	for (size_t k = 0; k < report->kernel_count; k++)
		json_kernel(&data, &report->kernels[k]);
	json_end_array(&data.json);
	json_end_object(&data.json);
	out_byte(out, '\n');
	out_fini(&data.name);
}
