/* Results of gates: messages on standard error, and the "gates" of --json. */
#ifndef VIEWER_NUMBERS_GATE_REPORT_H
#define VIEWER_NUMBERS_GATE_REPORT_H

#include "format/json_write.h"
#include "viewer/numbers/gate.h"

/* Prints the frames that failed, or would have failed without noise. */
void gate_report_result(const struct gate_result *result, const struct profile *profile);

/*
 * Writes the member "gates":
 *
 *   [{"gate": "time > +5%", "metric": "time/ms", "kind": "change/%", "operator": ">", "limit": 5.0,
 *     "failed": true, "checked": 1, "failures": 1, "within_noise": 0,
 *     "frames": [{"frame": "ROOT", "failed": true, "before": 3.0, "after": 3.3, "change": 0.3,
 *                 "change/%": 10.0, "low": 0.2, "high": 0.4, "low/%": 6.7, "high/%": 13.3,
 *                 "verdict": "slower"}]}]
 *
 * "kind" is "value", "change" or "change/%". "frames" lists up to GATE_FINDINGS_MAX frames that
 * failed or are within noise; if there are none, the frame nearest to the limit. Without --diff a
 * frame has "value" in place of everything after "failed". Unknown values are null.
 */
void gate_write_json(struct json_writer *json, const struct gate_result *results, size_t count,
		     const struct profile *profile);

#endif
