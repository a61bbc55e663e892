//===- BlockSearch.h - Which blocks are measured ----------------*- C++ -*-===//
//
// Private to the search. A block is a set of strategies that share segments
// (Evaluator::blockOf). A few measurements of the segments of a block give the
// composed evaluations of all its strategies.
//
// The promise of a block is the best estimate of its strategies, corrected by
// the errors of the formulas for measured blocks. The more similar a measured
// block is, the more its error counts. Each round measures several blocks of
// one kind. Three kinds take turns:
//   * the neighbours of the best block so far,
//   * the most promising blocks of all, and
//   * the most promising blocks with layouts of Megatron-LM.
// The search ends when no other block seems to be about as good as the best
// plan, but not before a plan fits. Until then, of the blocks that seem too
// large, the smallest is the most promising. The result does not depend on the
// number of threads.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cost-model/search/CandidatePool.h"
#include "cost-model/search/Pending.h"

#include <array>
#include <functional>
#include <string_view>
#include <unordered_map>

namespace dpc::cost {

class BlockSearch {
public:
  /// Similar blocks have similar coordinates.
  using Features = std::array<double, 12>;
  /// The logarithms of the formulas' errors for a measured block.
  struct Lesson {
    Features features{};
    std::optional<double> seconds, bytes;
  };

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
  int64_t measured() const { return count; }
  /// Returns the seconds and bytes of `pending[i]`: composed, or estimated and
  /// corrected by the errors of the formulas.
  std::pair<double, double> expected(size_t i) const;
  /// Called after every round.
  std::function<void()> onMeasured;

private:
  struct HashFeatures {
    size_t operator()(const Features &features) const {
      return std::hash<std::string_view>()(
          {reinterpret_cast<const char *>(features.data()), sizeof features});
    }
  };
  using PlaceNumbers = std::unordered_map<Features, size_t, HashFeatures>;
  /// The weighted mean of the logarithms of the formulas' errors. Without
  /// similar blocks, the formulas are trusted.
  struct Factor {
    static constexpr double kPrior = 0.03;
    double weight = kPrior, sum = 0;
    double get() const { return std::exp(sum / weight); }
    /// The factor of an estimate that is not too high, because few similar
    /// blocks are measured.
    double hopeful() const {
      constexpr double kError = 0.1;
      return get() * (1 - kError * kPrior / weight);
    }
  };
  /// Blocks with the same coordinates.
  struct Place {
    Features features{};
    Factor seconds, bytes;
  };
  /// The values of an entry that promises are computed from. Every round reads
  /// all samples, so they are contiguous.
  struct Sample {
    double seconds, boundSeconds, stateBytes, otherBytes;
    bool isAllowed, isMegatron;
  };
  struct Block {
    std::vector<size_t> members;
    size_t place = 0;
    /// The range of the block in `samples`. Of interleaved strategies, only the
    /// ones with the most virtual stages have samples: they have the smallest
    /// bubbles.
    size_t begin = 0, end = 0;
    bool isMeasured = false;
  };
  /// Whether the block seems too large, and the value of its best strategy.
  using Promise = std::pair<bool, double>;
  enum class Turn { Near, Any, Megatron };

  void findBlocks();
  void addBlock(size_t first, PlaceNumbers &placeNumbers);
  void takeSamples(const std::function<void(Pending &)> &estimate);
  static Features featuresOf(const Strategy &strategy);
  std::optional<Promise> promiseOf(const Block &block, Turn turn,
                                   const Pending *near, bool fits) const;
  std::vector<size_t> choose(Turn turn, size_t wanted) const;
  void measure(const std::vector<size_t> &chosen);
  void learn(const Block &block);
  void learnFromBounds(const Block &block);
  void teach(const Lesson &lesson);
  const Pending *best() const;
  bool mayImprove(size_t block) const;
  Promise rankOf(const Pending &entry) const;
  double limit() const;

  const SearchProblem &problem;
  std::vector<Pending> &pending;
  std::vector<Lesson> &lessons;
  double incumbent;
  std::vector<Block> blocks;
  std::vector<Place> places;
  std::vector<size_t> sampled;
  std::vector<Sample> samples;
  std::vector<size_t> known; ///< The entries with composed evaluations.
  int64_t count = 0;         ///< Measured blocks.
};

} // namespace dpc::cost
