/* The views of the ranks of a job that proton-viewer runs; each returns the exit status. */
#pragma once

#include "export/export_view.h"
#include "viewer/query/input.h"
#include "viewer/viewer_options.h"

/* --ranks with its tables, gates and comparisons. */
int rank_view_run(const struct options *options, struct input *input, struct input *base);

/*
 * --ranks-of: the kernel times of all ranks in a frame. They come from the column of a merged file,
 * from the profiles of the ranks, or, if there are neither, from the spread of the frame.
 */
int rank_frame_run(const struct options *options, struct input *input);

/*
 * --rank: replaces the input by the files of the rank. *has_files_out false: the input is a merged
 * file without the profiles of its ranks. E_INVALID: there is no such rank.
 */
int rank_one_select(struct input *input, uint32_t rank, bool *has_files_out,
		    struct proton_error *err);
/* --rank: the frames of a merged file with a time of that rank. */
int rank_one_run(const struct options *options, struct input *input);

/*
 * --export long: a row per rank, frame and metric, for DuckDB, Polars, Spark. Writes CSV:
 * rank,host,node,path,name,metric,value,own. Node numbers, paths and names are those of all ranks.
 * `value` is that of the tree, `own` without the frames below.
 */
int rank_long_run(const struct options *options, struct input *input);
/* Runs `python -m triton_proton.parquet`, which reads that CSV. Returns only if it cannot. */
int rank_parquet_run(const struct options *options);

/* A trace of the processes that the files of the input are of, with their clocks aligned. */
int rank_traces_run(const struct options *options, struct input *input);
/*
 * The time line of a report of several files, or of a merged file next to its ranks; else
 * writes nothing. `page`: the profile that the files are merged to.
 */
void rank_traces_report(struct input *input, const struct export_view *page, struct out *out);
