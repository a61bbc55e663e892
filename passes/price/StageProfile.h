//===- StageProfile.h - A stage by its number of layers ---------*- C++ -*-===//
//
// Private to passes/price. A stage with n layers costs, in everything that the
// estimates consist of, a fixed part and n times a part of a layer: seconds of
// phases, bytes sent, bytes live at an op. Two measurements with n0 and n0 + 1
// layers give both parts. Only the largest of many such lines, the peak of live
// bytes, is no line, so that every op's bytes are extrapolated, not their peak:
// ops in front of the layers and in the first of them are found by counting
// from a phase's begin, the others from its end.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_PRICE_STAGEPROFILE_H
#define DPC_PASSES_PRICE_STAGEPROFILE_H

#include "passes/price/PipelineParts.h"

namespace dpc {

/// What was measured of a stage of one chunk.
struct StageProfile {
  StageParts parts;
  MemoryProfiles memory;
  OffloadedBytes away;
};

/// Live bytes of a stage with a certain number of layers.
struct StageBytes {
  std::vector<std::pair<Phase, cost::MemoryBreakdown>> moments;
  cost::MemoryBreakdown slot;
  std::set<Phase> framePhases;
};

class StageLine {
public:
  /// `fewer` has `layers`, `more` has `step` more; without `more` all stages
  /// are like `fewer`.
  StageLine(int64_t layers, const StageProfile &fewer,
            const StageProfile *more = nullptr, int64_t step = 1);

  StageParts parts(int64_t layers) const;
  StageBytes bytes(int64_t layers, bool framed) const;
  OffloadedBytes away(int64_t layers) const;
  /// Whether `more` is `fewer` and some layers; else, as where buckets fill up
  /// otherwise, there is no line.
  bool isLine() const { return isRegular; }
  /// What does not count layers: of a stage without any.
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

/// `a`, and `times` what `b` has more; not below 0.
inline double along(double a, double b, double times) {
  return std::max(0.0, a + times * (b - a));
}
/// The same of all that is a number: traffic is left out.
StageParts along(const StageParts &a, const StageParts &b, double times);
/// Of that, the seconds of all chunks.
cost::PhaseSeconds phasesAlong(const StageParts &a, const StageParts &b,
                               double times);

/// Adds what a part of a rank stage does to what the others do, phases apart.
void addTo(StageParts &sum, const StageParts &part);

/// Bytes at the fullest moment of a rank stage that holds chunks. `slots`
/// counts every chunk's micro-batches alive.
cost::MemoryBreakdown peakOfChunks(const std::vector<StageBytes> &chunks,
                                   const std::vector<int64_t> &slots);

} // namespace dpc

#endif // DPC_PASSES_PRICE_STAGEPROFILE_H
