//===- Profile.h - predicted against measured -------------------*- C++ -*-===//
//
// Compares two traces of one plan (Trace.h): the simulated step that dpc-opt
// wrote, and the steps that ran. Their events have the same names in the same
// order, so that nothing has to be guessed; what is compared are sums over
// events of one name, and over layers: numbers of layers are taken out of names
// ("blocks.3/Add" and "blocks.4/Add" are "blocks.*/Add").
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

/// Events of one name, of one rank and step: the mean over those that have any.
struct ProfileRow {
  std::string name, op, queue, phase;
  double times = 0; ///< in a step
  std::optional<double> predictedSeconds = std::nullopt;
  double measuredSeconds = 0;

  /// Measured less predicted, which is 0 where nothing is.
  double difference() const {
    return measuredSeconds - predictedSeconds.value_or(0);
  }
};

struct Profile {
  int64_t steps = 0; ///< measured, without the first where there are several
  int64_t ranks = 0; ///< compared: those that both traces have
  bool isPredicted = false;
  ProfileRow step;                ///< from its first event to its last
  std::vector<ProfileRow> queues; ///< what all rows of a queue add up to
  std::vector<ProfileRow> rows;   ///< by falling size of the difference
};

/// `predicted` and `measured` are files' texts, the first may be "". The first
/// measured step is left out where there are several: it touches memory and
/// reads weights for the first time.
Expected<Profile> compareTraces(const std::string &predicted,
                                const std::string &measured);

/// profile.json: {"version", "steps", "ranks", "predicted", "step", "queues",
/// "rows"}, seconds of one rank and step.
std::string profileJson(const Profile &profile);

/// A table for a terminal, with the first `mostRows` rows.
std::string profileText(const Profile &profile, size_t mostRows);

} // namespace dpc::rt

#endif // DPC_RUNTIME_OBSERVE_PROFILE_H
