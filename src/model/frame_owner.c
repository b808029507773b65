/* Owners of source frames, by parts of their paths: the first that is found decides. */
#include "model/frame_owner.h"

#include <string.h>

#include "base/array.h"

static const struct {
	const char *part;
	enum frame_owner owner;
} parts[] = {
	/* in site-packages or dist-packages */
	{"-packages/triton/", OWNER_TRITON},
	{"-packages/triton_proton/", OWNER_TRITON},
	{"-packages/torch/", OWNER_TORCH},
	{"-packages/functorch/", OWNER_TORCH},
	{"-packages/torchgen/", OWNER_TORCH},
	{"-packages/", OWNER_PACKAGE},
	/* checkouts, and the cache of torch.compile */
	{"/python/triton/", OWNER_TRITON},
	{"/pytorch/torch/", OWNER_TORCH},
	{"/torchinductor_", OWNER_TORCH},
	{"<eval_with_key>", OWNER_TORCH},
	{"<frozen ", OWNER_PYTHON},
	{"/lib/python3.", OWNER_PYTHON},
	{"/lib64/python3.", OWNER_PYTHON},
};

enum frame_owner frame_owner(const struct profile *profile, uint32_t frame)
{
	const struct row_frame *row = &profile->frames[frame];
	size_t i = 0;

	if (row->kind != FRAME_SOURCE)
		return OWNER_USER;
	while (i < ARRAY_LENGTH(parts) && !strstr(profile_text(profile, row->file), parts[i].part))
		i++;
	return i < ARRAY_LENGTH(parts) ? parts[i].owner : OWNER_USER;
}
