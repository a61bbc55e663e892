//===- Profile.h - comparison of predicted and measured times ---*- C++ -*-===//
//
// Compares two traces of one plan (Trace.h): the simulated step that dpc-opt
// wrote, and the steps that ran. Events of both traces have the same names in
// the same order, so no matching is necessary. The comparison sums over events
// of one name, and over layers: numbers of layers are removed from names
// ("blocks.3/Add" and "blocks.4/Add" become "blocks.*/Add").
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

/// Events of one name, per rank and step: the mean over the ranks and steps
/// that have any.
struct ProfileRow {
  std::string name, op, queue, phase;
  double times = 0; ///< per step
  std::optional<double> predictedSeconds = std::nullopt;
  double measuredSeconds = 0;

  /// Measured minus predicted time; without a prediction, the predicted time is
  /// 0.
  double difference() const {
    return measuredSeconds - predictedSeconds.value_or(0);
  }
};

struct Profile {
  int64_t steps = 0; ///< measured steps, without the first if there are several
  int64_t ranks = 0; ///< compared ranks: those that both traces have
  bool isPredicted = false;
  ProfileRow step;                ///< from the first event of a step to the
                                  ///< last
  std::vector<ProfileRow> queues; ///< the sum of all rows of a queue
  std::vector<ProfileRow> rows;   ///< in descending order of |difference|
};

/// `predicted` and `measured` are the texts of files; the first may be "". If
/// there are several measured steps, the first is left out, because it touches
/// memory and reads weights for the first time.
Expected<Profile> compareTraces(const std::string &predicted,
                                const std::string &measured);

/// profile.json: {"version", "steps", "ranks", "predicted", "step", "queues",
/// "rows"}, seconds of one rank and step.
std::string profileJson(const Profile &profile);

/// Compares `events`, the measured ones (rt::traceEventsJson), with trace.json
/// of the plan folder, prints the comparison, writes profile.json there, and
/// adds it to report.html if that exists. Without trace.json, shows only the
/// measured times.
Status writeProfile(const std::string &plan, const std::string &events);

/// A table for a terminal, with the first `mostRows` rows.
std::string profileText(const Profile &profile, size_t mostRows);

} // namespace dpc::rt

#endif // DPC_RUNTIME_OBSERVE_PROFILE_H
