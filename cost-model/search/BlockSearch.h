//===- BlockSearch.h - Which blocks are measured ----------------*- C++ -*-===//
//
// Private to the search. A block is a set of strategies that share segments
// (Evaluator::blockOf). A few measurements of the segments of a block give the
// composed evaluations of all its strategies.
//
// The estimates of strategies are corrected by the errors of the formulas for
// measured blocks (ErrorModel.h), which also gives the deviation of the
// correction. The promise of a block is the expected improvement of its best
// strategy times the probability that it fits. Each round measures several
// blocks of one kind. Three kinds take turns:
//   * the neighbours of the best block so far,
//   * the most promising blocks of all, and
//   * the most promising blocks with layouts of Megatron-LM.
// After the first round, the values of keys that no measured block has come
// first (TriedValues.h).
// The search ends when no expected improvement is worth a measurement and, in
// its first measurements, no block is estimated to be nearly as good as the
// best plan; but not before a plan fits. Until then, of the blocks that seem
// too large, the smallest is the most promising. The result does not depend on
// the number of threads.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cost-model/search/CandidatePool.h"
#include "cost-model/search/ErrorModel.h"
#include "cost-model/search/Pending.h"

#include <functional>
#include <optional>

namespace dpc::cost {

class BlockSearch {
public:
  /// Computes composed evaluations of `pending`. `estimate` computes the
  /// estimate of an entry and stores it in the entry. The errors of the
  /// formulas are learned from `lessons`, to which this search adds. A plan
  /// must be better than the value `incumbent`.
  BlockSearch(const SearchProblem &problem, std::vector<Pending> &pending,
              std::vector<Lesson> &lessons, double incumbent,
              const std::function<void(Pending &)> &estimate);

  /// Measures blocks until `most` blocks are measured or further blocks seem
  /// useless. Unless `all`, only measures blocks with layouts of Megatron-LM.
  void run(int64_t most, bool all);
  /// Only measures blocks that differ in one change from the best plan.
  void runChanges(int64_t most);
  int64_t measured() const { return count; }
  /// Returns the seconds and bytes of `pending[i]`: composed, or estimated and
  /// corrected by the errors of the formulas.
  std::pair<double, double> expected(size_t i) const;
  /// Called after every round.
  std::function<void()> onMeasured;

private:
  /// The values of an entry that promises are computed from. Every round reads
  /// all samples, so they are contiguous.
  struct Sample {
    double seconds, boundSeconds, stateBytes, otherBytes;
    bool isAllowed, isMegatron;
  };
  struct Block {
    std::vector<size_t> members;
    Features features{};
    size_t place = 0; ///< in `corrections`
    /// The range of the block in `samples`. Of interleaved strategies, only the
    /// ones with the most virtual stages have samples: they have the smallest
    /// bubbles.
    size_t begin = 0, end = 0;
    bool isMeasured = false;
  };
  /// Smaller is better. While no plan fits: whether the block seems too large,
  /// and the bytes or the value of its best strategy. Then: false, and the
  /// negative gain.
  using Promise = std::pair<bool, double>;
  enum class Turn { Near, Any, Megatron };

  void findBlocks();
  void addBlock(size_t first);
  void takeSamples(const std::function<void(Pending &)> &estimate);
  double gainOf(const Sample &sample, size_t place, double least) const;
  std::optional<Promise> promiseOf(const Block &block, Turn turn,
                                   const Pending *near, double least) const;
  std::vector<size_t> choose(Turn turn, size_t wanted) const;
  void measure(const std::vector<size_t> &chosen);
  void measurePromising(int64_t most, bool all);
  void learn(const Block &block);
  void learnFromBounds(const Block &block);
  /// The best plan so far, of those with several stages or without if
  /// `hasStages` is given; null if there is none.
  const Pending *best(std::optional<bool> hasStages = std::nullopt) const;
  double leastValue() const;
  double estimateOf(const Block &block, double factor) const;
  bool isNear(const Block &block, double least, double factor) const;
  std::vector<size_t> untriedValues(size_t most) const;
  std::vector<size_t> unmeasuredChanges(size_t most) const;
  bool mayImprove(size_t block) const;
  Promise rankOf(const Pending &entry) const;
  double limit() const;

  const SearchProblem &problem;
  std::vector<Pending> &pending;
  std::vector<Lesson> &lessons;
  double incumbent;
  std::vector<Block> blocks;
  Corrections corrections{kErrorsOfFormulas};
  std::vector<size_t> sampled;
  std::vector<Sample> samples;
  std::vector<size_t> known; ///< The entries with composed evaluations.
  int64_t count = 0;         ///< Measured blocks.
};

} // namespace dpc::cost
