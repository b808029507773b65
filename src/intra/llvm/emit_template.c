/* Writing templates: replaces named placeholders by texts and numbers. */
#include "intra/llvm/emit_template.h"

#include <inttypes.h>
#include <string.h>

static const struct emit_value *find_value(struct slice name, const struct emit_value *values,
					   size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (slice_is(name, values[i].name))
			return &values[i];
	return NULL;
}

/* The name of the placeholder at `at`, which is a "<"; empty if it is not a placeholder. */
static struct slice name_at(const char *at)
{
	struct slice name = {at + 1, 0};

	while (name.at[name.length] >= 'a' && name.at[name.length] <= 'z')
		name.length++;
	if (name.at[name.length] != '>')
		name.length = 0;
	return name;
}

void emit_template(struct out *out, const char *text, const struct emit_value *values, size_t count)
{
	const char *at;

	for (; (at = strchr(text, '<')) != NULL; text = at) {
		struct slice name = name_at(at);
		const struct emit_value *value = find_value(name, values, count);

		out_bytes(out, text, (size_t)(at - text));
		if (!value) {
			out_byte(out, *at++);
			continue;
		}
		if (value->text.at)
			out_bytes(out, value->text.at, value->text.length);
		else
			out_printf(out, "%" PRId64, value->number);
		at = name.at + name.length + 1;
	}
	out_text(out, text);
}
