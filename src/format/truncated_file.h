/*
 * Working files that another program truncates. A store into a page that the file no longer has
 * raises SIGBUS. While there are working files, and if the program has no handler for that signal,
 * one of Proton's puts zeroed memory in the place of such pages, and the file counts as truncated.
 * It leaves every other SIGBUS to the default action.
 */
#ifndef FORMAT_TRUNCATED_FILE_H
#define FORMAT_TRUNCATED_FILE_H

struct profile_file;

void truncated_file_watch(struct profile_file *file);
/* Before its tables are unmapped; harmless for a file that is not watched. */
void truncated_file_forget(const struct profile_file *file);

#endif
