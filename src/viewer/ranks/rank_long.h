/*
 * --export long and --export parquet: a row per rank, frame and metric, for DuckDB, Polars, Spark.
 */
#ifndef VIEWER_RANKS_RANK_LONG_H
#define VIEWER_RANKS_RANK_LONG_H

#include "viewer/query/input.h"
#include "viewer/viewer_options.h"

/*
 * Writes CSV: rank,host,node,path,name,metric,value,own. Node numbers, paths and names are those of
 * all ranks. `value` is that of the tree, `own` without the frames below. Returns the exit status.
 */
int rank_long_run(const struct options *options, struct input *input);

/* Runs `python -m triton_proton.parquet`, which reads that CSV. Returns only if it cannot. */
int rank_parquet_run(const struct options *options);

#endif
