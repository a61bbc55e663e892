//===- StageProfile.h - The cost of a stage with n layers -------*- C++ -*-===//
//
// Private to passes/price. The seconds of a phase, the bytes sent, and the live
// bytes at an op are linear functions of the number of layers of a stage.
// Measurements of two stages with different numbers of layers determine the
// coefficients. The peak of live bytes is a maximum of many linear functions
// and therefore not linear, so the bytes are extrapolated at each op. Equal ops
// of the two stages are paired, from the begin and from the end of each phase.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/price/PipelineParts.h"

namespace dpc {

struct StageProfile {
  StageParts parts;
  MemoryProfiles memory;
  OffloadedBytes away;
};

struct StageBytes {
  std::vector<std::pair<Phase, cost::MemoryBreakdown>> moments;
  cost::MemoryBreakdown slot;
  std::set<Phase> framePhases;
};

/// Returns the peak of a program that differs from `fewer` by `times` the
/// blocks by which `more` differs from it. In each phase, the blocks follow
/// each other, and their ops are equal. The peak is in the first or the last
/// blocks, which both profiles have; their bytes are extrapolated.
cost::MemoryBreakdown peakAlong(const MemoryProfile &fewer,
                                const MemoryProfile &more, double times);

class StageLine {
public:
  /// `fewer` has `layers` layers, and `more` has `layers + step`. Without
  /// `more`, the costs are those of `fewer` for any number of layers.
  StageLine(int64_t layers, const StageProfile &fewer,
            const StageProfile *more = nullptr, int64_t step = 1);

  StageParts parts(int64_t layers) const;
  /// `layers` may be fractional, because a cut may be inside a layer.
  StageBytes bytes(double layers, bool framed) const;
  OffloadedBytes away(double layers) const;
  /// Returns false if the stages also differ in other ways than in layers, for
  /// example in buckets, so that they cannot be extrapolated.
  bool isLine() const { return isRegular; }
  /// Returns the costs that do not depend on layers.
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

  double stepsTo(double wanted) const {
    return (wanted - static_cast<double>(layers)) / static_cast<double>(step);
  }
  static std::vector<Moment> besideFrame(const MemoryProfile &fewer,
                                         const MemoryProfile &more);
  Memory align(const MemoryProfile &fewer, const MemoryProfile &more);
};

/// Returns a + times * (b - a), or 0 if this is negative.
inline double along(double a, double b, double times) {
  return std::max(0.0, a + times * (b - a));
}
/// Extrapolates each number except traffic.
StageParts along(const StageParts &a, const StageParts &b, double times);
/// Extrapolates the phases, summed over all chunks.
cost::PhaseSeconds phasesAlong(const StageParts &a, const StageParts &b,
                               double times);

/// Adds all costs of `part` except its chunks.
void addTo(StageParts &sum, const StageParts &part);

/// Returns the peak of live bytes of a stage with several chunks. `slots` has
/// the number of live micro-batches of each chunk.
cost::MemoryBreakdown peakOfChunks(const std::vector<StageBytes> &chunks,
                                   const std::vector<int64_t> &slots);

} // namespace dpc
