//===- Profile.h - comparison of predicted and measured times ---*- C++ -*-===//
//
// Compares two traces of a plan (Trace.h): the step that dpc-opt has simulated,
// and the steps that have run. Events with equal names are summed in each
// trace. The number of a layer in a name is replaced by "*", so that the sum
// includes all layers: "blocks.3/Add" and "blocks.4/Add" become "blocks.*/Add".
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dpc::rt {

/// The events with equal names. Values are means over the ranks and steps that
/// have such events.
struct ProfileRow {
  std::string name, op, queue, phase;
  double times = 0; ///< per step
  std::optional<double> predictedSeconds = std::nullopt;
  double measuredSeconds = 0;

  /// Measured minus predicted seconds; a missing prediction counts as 0.
  double difference() const {
    return measuredSeconds - predictedSeconds.value_or(0);
  }
};

struct Profile {
  int64_t steps = 0; ///< measured
  int64_t ranks = 0; ///< in both traces
  bool isPredicted = false;
  ProfileRow step;                ///< from its first to its last event
  std::vector<ProfileRow> queues; ///< sums over the rows of each queue
  std::vector<ProfileRow> rows;   ///< sorted by falling |difference|
};

/// Compares the texts of two traces; `predicted` may be "". If there are
/// several measured steps, the first is omitted, because it touches memory and
/// reads weights for the first time.
Expected<Profile> compareTraces(const std::string &predicted,
                                const std::string &measured);

/// Returns the text of profile.json: {"version", "steps", "ranks", "predicted",
/// "step", "queues", "rows"}. Times are seconds per rank and step.
std::string profileJson(const Profile &profile);

/// Compares the measured `events` (traceEventsJson()) with trace.json in the
/// plan folder. Prints the comparison, writes it to profile.json in that
/// folder, and adds it to report.html if this file exists. Without trace.json,
/// there are only measured times.
Status writeProfile(const std::string &plan, const std::string &events);

/// Returns a table for a terminal with the first `mostRows` rows.
std::string profileText(const Profile &profile, size_t mostRows);

} // namespace dpc::rt
