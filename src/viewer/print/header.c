/* Header line above a tree or table: command, duration and devices of the run. */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "model/ranks.h"
#include "viewer/print/printable_text.h"
#include "viewer/print/printers.h"

static void separate(struct out *out, bool has_utf8)
{
	if (out->length)
		out_text(out, has_utf8 ? " · " : "; ");
}

static void write_seconds(struct out *out, double seconds)
{
	if (seconds < 1e-4) /* "%.3g" would print an exponent */
		out_printf(out, "%.3g us", seconds * 1e6);
	else if (seconds < 120)
		out_printf(out, "%.3g s", seconds);
	else
		out_printf(out, "%d:%02d:%02d h", (int)(seconds / 3600), (int)(seconds / 60) % 60,
			   (int)seconds % 60);
}

/* Devices of the same type and name are combined: "CUDA 0-3 NVIDIA H200". */
static void write_devices(struct out *out, const struct profile *profile, bool has_utf8)
{
	for (size_t i = 0; i < profile->device_count; i++) {
		const struct row_device *device = &profile->devices[i];
		const char *name = profile_text(profile, device->name);
		const char *arch = profile_text(profile, device->arch);
		size_t last = i;

		while (last + 1 < profile->device_count &&
		       profile->devices[last + 1].type == device->type &&
		       profile->devices[last + 1].name == device->name &&
		       profile->devices[last + 1].arch == device->arch &&
		       profile->devices[last + 1].id == profile->devices[last].id + 1)
			last++;
		separate(out, has_utf8);
		text_clean(out, profile_text(profile, device->type),
			   strlen(profile_text(profile, device->type)));
		out_printf(out, " %" PRIu32, device->id);
		if (last > i)
			out_printf(out, "-%" PRIu32, profile->devices[last].id);
		if (*name || *arch) {
			out_byte(out, ' ');
			text_clean(out, *name ? name : arch, strlen(*name ? name : arch));
		}
		i = last;
	}
}

static void write_start(struct out *out, uint64_t start_ns)
{
	time_t seconds = (time_t)(start_ns / 1000000000u);
	struct tm local;
	char text[32];

	if (!localtime_r(&seconds, &local) ||
	    strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &local) == 0)
		return;
	out_text(out, text);
}

/* 0: there is none. */
static double info_number(const struct profile *profile, const char *key)
{
	return strtod(profile_info_text(profile, key), NULL);
}

/* A part of the line, if there is a text. */
static void write_text(struct out *out, bool has_utf8, const char *before, const char *text)
{
	if (!*text)
		return;
	separate(out, has_utf8);
	out_text(out, before);
	text_clean(out, text, strlen(text));
}

void header_write(struct out *out, const struct profile *profile, bool has_utf8)
{
	const char *command = profile_info_text(profile, "command");
	double ranges = info_number(profile, "counters_ranges");
	double expected = info_number(profile, "pc_sampling_expected");

	/* Files of other programs contain only devices, which are not worth a header line. */
	if (!*command && !profile->start_ns)
		return;
	write_text(out, has_utf8, "", command);
	if (profile->start_ns && profile->end_ns > profile->start_ns) {
		separate(out, has_utf8);
		write_seconds(out, (double)(profile->end_ns - profile->start_ns) / 1e9);
	}
	write_devices(out, profile, has_utf8);
	write_text(out, has_utf8, "", profile_info_text(profile, "host"));
	write_text(out, has_utf8, "estimates from windows of ",
		   profile_info_text(profile, "windows"));
	if (ranges > 0) {
		separate(out, has_utf8);
		out_printf(out, "work estimated from %.0f measured launches", ranges);
	}
	if (expected > 0) {
		separate(out, has_utf8);
		out_printf(out, "%.1f %% of the expected PC samples",
			   100 * info_number(profile, "pc_sampling_received") / expected);
	}
	if (profile->start_ns) {
		separate(out, has_utf8);
		write_start(out, profile->start_ns);
	}
}
