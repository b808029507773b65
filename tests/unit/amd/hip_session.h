/*
 * Support for tests of graphs and device metrics on AMD without a backend's library: the test makes
 * the callbacks and records. Captures, copies and host functions are those of the fake libamdhip64.
 */
#pragma once

#include "unit/amd/hip_controls.h"
#include "unit/recorded.h"

#include "backend/amd/hip_graphs.h"
#include "backend/gpu/captured_nodes.h"
#include "backend/gpu/launches.h"
#include "record/record.h"
#include "record/thread/captured.h"
#include "record/thread/record_launch.h"

#define STREAM 0x5010u

static _Atomic uint32_t last_correlation;

static int start(enum hip_replays_mode mode)
{
	int session = rec_start("a");

	find_hip();
	CHECK_EQ(correlate_init(NULL), PROTON_OK);
	launches_start();
	tensors_start(&hip_tensors_reader);
	hip_replays_start(mode);
	return session;
}

static void flush(void)
{
	tensors_collect();
	hip_replays_settle(last_correlation);
	tensors_settle();
	captured_nodes_forget_destroyed(UINT64_MAX);
}

/* A flush of a backend, and its stop. */
static struct profile *finish(int session)
{
	flush();
	rec_finalize(session, "proton");
	correlate_clear();
	hip_replays_clear();
	hip_graphs_clear();
	captured_nodes_clear();
	captured_clear();
	tensors_stop();
	launches_stop();
	return rec_load("a.proton");
}
