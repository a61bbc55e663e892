//===- StageProfile.h - The cost of a stage with n layers -------*- C++ -*-===//
//
// Private to passes/price. Each quantity of a stage with n layers (seconds of a
// phase, bytes sent, bytes live at an op) is a linear function of n.
// Measurements of two stages with different n give its two coefficients. The
// peak of live bytes is a maximum of many linear functions, so it is not
// linear. Therefore the bytes at each op are extrapolated instead of the peak.
// Ops up to the first layer are matched by their distance from the begin of a
// phase; ops from the last layer on, by their distance from the end.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_PRICE_STAGEPROFILE_H
#define DPC_PASSES_PRICE_STAGEPROFILE_H

#include "passes/price/PipelineParts.h"

namespace dpc {

/// The measurements of a stage of one chunk.
struct StageProfile {
  StageParts parts;
  MemoryProfiles memory;
  OffloadedBytes away;
};

/// Live bytes of a stage with a given number of layers.
struct StageBytes {
  std::vector<std::pair<Phase, cost::MemoryBreakdown>> moments;
  cost::MemoryBreakdown slot;
  std::set<Phase> framePhases;
};

class StageLine {
public:
  /// `fewer` has `layers` layers, and `more` has `layers + step`. Without
  /// `more`, the cost is that of `fewer` for any number of layers.
  StageLine(int64_t layers, const StageProfile &fewer,
            const StageProfile *more = nullptr, int64_t step = 1);

  StageParts parts(int64_t layers) const;
  StageBytes bytes(int64_t layers, bool framed) const;
  OffloadedBytes away(int64_t layers) const;
  /// Whether `more` differs from `fewer` only in layers. If there are other
  /// differences, for example buckets with other gradients, extrapolation is
  /// not valid.
  bool isLine() const { return isRegular; }
  /// The parts of a stage that do not depend on layers.
  StageParts fixedParts() const { return parts(0); }

private:
  struct Moment {
    Phase phase;
    cost::MemoryBreakdown bytes, perLayer;
  };
  struct Memory {
    std::vector<Moment> moments;
    cost::MemoryBreakdown slot, slotPerLayer;
    std::set<Phase> framePhases;
  };
  int64_t layers, step;
  StageProfile fewer, more;
  bool isRegular = true;
  Memory inLine, framed;

  double stepsTo(int64_t wanted) const {
    return static_cast<double>(wanted - layers) / static_cast<double>(step);
  }
  static std::vector<Moment> besideFrame(const MemoryProfile &fewer,
                                         const MemoryProfile &more);
  Memory align(const MemoryProfile &fewer, const MemoryProfile &more);
};

/// a + times * (b - a), but at least 0.
inline double along(double a, double b, double times) {
  return std::max(0.0, a + times * (b - a));
}
/// `along` for each number, except traffic.
StageParts along(const StageParts &a, const StageParts &b, double times);
/// The sum of the seconds of all chunks.
cost::PhaseSeconds phasesAlong(const StageParts &a, const StageParts &b,
                               double times);

/// Adds the cost of a part of a stage, except the cost of its chunks.
void addTo(StageParts &sum, const StageParts &part);

/// The peak of live bytes of a stage with several chunks. `slots` holds the
/// number of live micro-batches of each chunk.
cost::MemoryBreakdown peakOfChunks(const std::vector<StageBytes> &chunks,
                                   const std::vector<int64_t> &slots);

} // namespace dpc

#endif // DPC_PASSES_PRICE_STAGEPROFILE_H
