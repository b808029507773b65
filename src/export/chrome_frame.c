/* Frames and call stacks of nodes as JSON, for Chrome traces. */
#include "export/chrome_frame.h"

#include "format/json_write.h"

#define CALL_STACK_MAX 1024u

void chrome_quote_frame(const struct profile *profile, struct out *out, uint32_t frame)
{
	char text[1024];
	size_t length = profile_frame_text(profile, frame, text, sizeof(text));

	if (length >= sizeof(text))
		length = sizeof(text) - 1;
	json_quote(out, text, length);
}

void chrome_call_stack(const struct profile *profile, struct out *out, uint32_t node)
{
	uint32_t path[CALL_STACK_MAX];
	uint32_t depth = 0;

	for (uint32_t at = node; at && depth < CALL_STACK_MAX; at = profile->nodes[at].parent)
		path[depth++] = at;
	out_text(out, "[\"ROOT\"");
	while (depth) {
		out_byte(out, ',');
		chrome_quote_frame(profile, out, profile->nodes[path[--depth]].frame);
	}
	out_byte(out, ']');
}
