//===- Profile.h - comparison of predicted and measured times ---*- C++ -*-===//
//
// Compares two traces of one plan (Trace.h): the step that dpc-opt has
// simulated, and the steps that have run. Their events have the same names. The
// comparison sums all events with the same name. To sum over layers, too, it
// removes the numbers of layers from names ("blocks.3/Add" and "blocks.4/Add"
// become "blocks.*/Add").
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_OBSERVE_PROFILE_H
#define DPC_RUNTIME_OBSERVE_PROFILE_H

#include "runtime/base/Status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dpc::rt {

/// The events with one name: the mean over the ranks and steps that have such
/// events.
struct ProfileRow {
  std::string name, op, queue, phase;
  double times = 0; ///< per step
  std::optional<double> predictedSeconds = std::nullopt;
  double measuredSeconds = 0;

  /// Measured minus predicted time. A missing prediction counts as 0.
  double difference() const {
    return measuredSeconds - predictedSeconds.value_or(0);
  }
};

struct Profile {
  int64_t steps = 0; ///< measured steps, without the first if there are several
  int64_t ranks = 0; ///< ranks that both traces contain
  bool isPredicted = false;
  ProfileRow step; ///< the whole step, from its first to its last event
  std::vector<ProfileRow> queues; ///< the sum of all rows of a queue
  std::vector<ProfileRow> rows;   ///< in descending order of |difference|
};

/// Compares the texts of two traces; `predicted` may be "". The first of
/// several measured steps is left out, because it touches memory and reads
/// weights for the first time.
Expected<Profile> compareTraces(const std::string &predicted,
                                const std::string &measured);

/// profile.json: {"version", "steps", "ranks", "predicted", "step", "queues",
/// "rows"}. Times are seconds per rank and step.
std::string profileJson(const Profile &profile);

/// Compares the measured `events` (traceEventsJson()) with trace.json of the
/// plan folder. Prints the comparison, writes it to profile.json of that
/// folder, and adds it to report.html if there is one. Without trace.json, the
/// comparison has only measured times.
Status writeProfile(const std::string &plan, const std::string &events);

/// A table for a terminal, with the first `mostRows` rows.
std::string profileText(const Profile &profile, size_t mostRows);

} // namespace dpc::rt

#endif // DPC_RUNTIME_OBSERVE_PROFILE_H
