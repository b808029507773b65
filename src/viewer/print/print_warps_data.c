/*
 * --warps as data for programs: the stored sums. CSV has one line per kernel, role, scope of a
 * role, and asynchronous work; JSON one object per kernel with the same rows as lists.
 */
#include <math.h>

#include "viewer/print/print_warps.h"

enum name {
	KERNEL,
	ROLE,
	SCOPE,
	NAMES
};

struct data {
	const struct warps_report *warps;
	struct report *report;
	struct report_field fields[NAMES + WARPS_NUMBERS];
	struct report_value values[NAMES + WARPS_NUMBERS];
	struct out names[NAMES];
};

/* Stored names, unless --names is given. */
static void read_name(struct data *data, enum name which, uint32_t frame)
{
	const struct style_options *style = &data->report->options->style;
	struct out *name = &data->names[which];

	name->length = 0;
	if (frame != WARPS_NO_FRAME)
		name_write_styled(name, data->warps->profile, frame, style->format,
				  style_stored_names(style));
	data->values[which] = report_string(name->bytes, name->length);
}

/* Sums of cycles are integers, but a file may contain anything. */
static void read_numbers(struct data *data, const struct warps_row *row)
{
	for (size_t n = 0; n < WARPS_NUMBERS; n++) {
		double value = row->number[n];
		bool is_whole = value >= -0x1p53 && value <= 0x1p53 && value == floor(value);

		data->values[NAMES + n] = isnan(value) ? VALUE_NONE
					  : is_whole   ? VALUE_INTEGER((int64_t)value)
						       : VALUE_NUMBER(value);
	}
}

static void csv_kernel(struct data *data, const struct warps_kernel *kernel)
{
	for (size_t i = 0; i < kernel->count; i++) {
		read_name(data, KERNEL, kernel->rows[i].kernel);
		read_name(data, ROLE, kernel->rows[i].role);
		read_name(data, SCOPE, kernel->rows[i].scope);
		read_numbers(data, &kernel->rows[i]);
		report_row(data->report, data->values);
	}
}

/* ------------------------------------------------------------------ JSON */

/* The members of a row, which is named by one of its frames. */
static void json_row(struct data *data, enum name which, const struct warps_row *row)
{
	const uint32_t frames[NAMES] = {row->kernel, row->role, row->scope};

	for (int i = 0; i < NAMES; i++)
		data->values[i] = VALUE_NONE;
	read_name(data, which, frames[which]);
	read_numbers(data, row);
	report_members(data->report, data->values);
}

static void json_scope(struct data *data, const struct warps_row *row)
{
	json_begin_object(&data->report->json);
	json_row(data, SCOPE, row);
	json_end_object(&data->report->json);
}

/* Writes a role until the end of its object; returns the row after it. */
static size_t json_role(struct data *data, const struct warps_kernel *kernel, size_t at)
{
	struct json_writer *json = &data->report->json;
	const struct warps_row *role = &kernel->rows[at];

	json_line_break(json);
	json_begin_object(json);
	json_row(data, ROLE, role);
	json_key_array(json, "scopes");
	for (at++; at < kernel->count && kernel->rows[at].role == role->role; at++)
		json_scope(data, &kernel->rows[at]);
	json_end_array(json);
	json_end_object(json);
	return at;
}

static void json_kernel(struct data *data, const struct warps_kernel *kernel)
{
	struct json_writer *json = &data->report->json;
	size_t at = 1;

	json_line_break(json);
	json_begin_object(json);
	json_row(data, KERNEL, &kernel->rows[0]);
	json_key_array(json, "roles");
	while (at < kernel->count) {
		if (kernel->rows[at].is_async)
			at++;
		else
			at = json_role(data, kernel, at);
	}
	json_end_array(json);
	json_key_array(json, "asynchronous");
	for (size_t i = 1; i < kernel->count; i++)
		if (kernel->rows[i].is_async)
			json_scope(data, &kernel->rows[i]);
	json_end_array(json);
	json_end_object(json);
}

void warps_data(const struct warps_report *warps, struct report *report)
{
	struct data data = {
		.warps = warps,
		.report = report,
		.fields = {{.name = "kernel", .is_quoted = true},
			   {.name = "role", .is_quoted = true},
			   {.name = "scope", .is_quoted = true}},
	};

	for (size_t n = 0; n < WARPS_NUMBERS; n++)
		data.fields[NAMES + n].name = warps_metrics[n];
	for (int i = 0; i < NAMES; i++)
		out_init(&data.names[i], -1);
	report->is_partial = profile_is_partial(warps->profile);
	if (report->format == REPORT_JSON)
		json_key_bool(&report->json, "partial", report->is_partial);
	report_begin(report, "kernels", data.fields, NAMES + WARPS_NUMBERS);
	for (size_t k = 0; k < warps->kernel_count; k++)
		(report->format == REPORT_JSON ? json_kernel : csv_kernel)(&data,
									   &warps->kernels[k]);
	report_end(report);
	for (int i = 0; i < NAMES; i++)
		out_fini(&data.names[i]);
}
