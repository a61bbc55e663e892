//===- Intervals.h - Intervals of plans in a report -------------*- C++ -*-===//
#pragma once

#include "cost-model/search/PredictionErrors.h"
#include "cost-model/search/Search.h"

#include <nlohmann/json_fwd.hpp>

#include <array>
#include <optional>
#include <string>

namespace dpc::cost {

/// Whether a plan fits, by the interval of its memory.
enum class MemoryVerdict { Fits, AtRisk, DoesNotFit };

/// The 90 % interval of a plan. The memory of a plan that dpc-run executes is
/// exact, because the plan allocates it; only the memory of other software has
/// an interval.
struct PlanInterval {
  double lowSeconds = 0, highSeconds = 0;
  struct Memory {
    double lowBytes = 0, highBytes = 0;
    MemoryVerdict verdict = MemoryVerdict::Fits;
  };
  std::optional<Memory> memory;
};

class Intervals {
public:
  explicit Intervals(const std::vector<MeasuredError> &errors)
      : time(errors, Quantity::Time), memory(errors, Quantity::Memory) {}

  bool isKnown() const { return time.isKnown(); }
  /// Returns factors of the time of `strategy`.
  ErrorInterval timeOf(const Cluster &cluster, const ModelTotals &totals,
                       const Strategy &strategy) const {
    return time.intervalAt(situationOf(cluster, totals, strategy));
  }
  /// Returns the interval of a candidate of `result`. Its memory is compared
  /// with all usable bytes, also those of the headroom.
  PlanInterval of(const Cluster &cluster, const SearchResult &result,
                  const Candidate &candidate) const;
  /// Returns the probability that the first candidate of `result` is faster
  /// than all others that fit.
  double chanceOfWinner(const Cluster &cluster,
                        const SearchResult &result) const;

private:
  ErrorDistribution time, memory;
};

/// Returns the candidate that fits, also at the upper end of its memory's
/// interval if there is one, and has the shortest step at the upper end of its
/// time's interval.
size_t mostRobust(const Intervals &intervals, const Cluster &cluster,
                  const SearchResult &result);

/// "90 % interval: 2.05 s to 3.05 s a step, 61.2 GiB to 66.0 GiB (fits); ..."
std::string intervalText(const Intervals &intervals, const Cluster &cluster,
                         const SearchResult &result);

nlohmann::ordered_json intervalToJson(const PlanInterval &interval);

} // namespace dpc::cost

namespace dpc {
template <>
inline constexpr std::array<std::string_view, 3> kNamesOf<cost::MemoryVerdict> =
    {"fits", "at risk", "does not fit"};
} // namespace dpc
