/* Jobs as input of the viewer: merged files, and the profiles of ranks. */
#include "viewer/ranks/rank_job_input.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "viewer/print/xalloc.h"
#include "viewer/ranks/rank_merge.h"

int rank_input_load(struct input *input, struct profile **out, bool *is_merged_out,
		    struct proton_error *err)
{
	struct profile *profile = input->count == 1 ? input_load(input, 0) : NULL;

	err->text[0] = '\0';
	if (input->count == 1 && !profile)
		return PROTON_E_INVALID;
	*is_merged_out = profile && profile->ranks;
	if (*is_merged_out) {
		*out = profile;
		return PROTON_OK;
	}
	profile_free(profile);
	return rank_merge_all(input->paths, input->count, RANK_NODES_MAX, out, err);
}

/* NAME.ranks of NAME.ranks.proton, malloc'd; NULL: the file has another name. */
static char *directory_of(const char *path)
{
	static const char suffix[] = ".ranks.proton";
	size_t length = strlen(path);
	size_t end = sizeof(suffix) - 1;

	if (length <= end || strcmp(path + length - end, suffix) != 0)
		return NULL;
	return xstrndup(path, length - strlen(".proton"));
}

int rank_input_files(const struct input *input, bool is_merged, const char *what,
		     struct input *files_out, struct proton_error *err)
{
	char *directory = is_merged ? directory_of(input->paths[0]) : NULL;
	struct stat status;
	bool is_there = directory && stat(directory, &status) == 0 && S_ISDIR(status.st_mode);

	*files_out = (struct input){0};
	if (!is_merged)
		input_init(files_out, input->paths, input->count);
	else if (is_there)
		input_init(files_out, &directory, 1);
	if (is_merged && !files_out->count)
		err_set(err, PROTON_E_INVALID,
			"%.100s needs the profiles of the ranks: %.200s is a merged file%s%.200s; "
			"name the directory of the profiles",
			what, input->paths[0], directory ? ", and there is no directory " : "",
			directory ? directory : "");
	free(directory);
	return files_out->count ? PROTON_OK : PROTON_E_INVALID;
}
