//===- BlockSearch.h - Which blocks are measured ----------------*- C++ -*-===//
//
// Private to Search.cpp. Strategies are grouped into blocks that share what is
// measured (Evaluator::blockOf). What a block promises is the least of what its
// strategies do by formula, times the factors that formulas were off by for
// measured blocks, the more alike these are the more they count. Blocks are
// measured, several at a time,
//   * the neighbours of the best one so far,
//   * the most promising one of all, and
//   * the most promising one of the plain layouts that baselines are, in turn.
// After that all strategies of a block are known, so that few measurements tell
// about many strategies. It ends when rounds of all kinds have found nothing
// better. While nothing fits, of what seems too large the smallest is the most
// promising, and it does not end. Deterministic, whatever runs at once.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_COST_MODEL_SEARCH_BLOCKSEARCH_H
#define DPC_COST_MODEL_SEARCH_BLOCKSEARCH_H

#include "cost-model/search/SearchParts.h"

#include <array>
#include <functional>
#include <string_view>
#include <unordered_map>

namespace dpc::cost {

class BlockSearch {
public:
  /// `estimate` fills in what the formulas say.
  BlockSearch(Evaluator &evaluator, std::vector<Pending> &pending,
              const std::function<void(Pending &)> &estimate,
              Objective objective, double memoryLimitBytes, int64_t top);

  /// Measures up to `most` blocks; of plain layouts only where not `all`.
  void run(int64_t most, bool all);
  int64_t measured() const { return count; }
  /// Called after every measurement.
  std::function<void()> onMeasured;

private:
  /// Coordinates in which blocks are alike that are near.
  using Features = std::array<double, 12>;
  struct HashFeatures {
    size_t operator()(const Features &features) const {
      return std::hash<std::string_view>()(
          {reinterpret_cast<const char *>(features.data()), sizeof features});
    }
  };
  using PlaceNumbers = std::unordered_map<Features, size_t, HashFeatures>;
  /// What formulas are off by: a mean of logs.
  struct Factor {
    double weight = 1e-9, sum = 0;
    double get() const { return std::exp(sum / weight); }
  };
  /// Blocks at the same coordinates.
  struct Place {
    Features features{};
    Factor seconds, bytes;
  };
  /// What a promise is made of, side by side: all are asked in every round.
  struct Sample {
    double seconds, boundSeconds, stateBytes, otherBytes;
    bool isPlain;
  };
  struct Block {
    std::vector<size_t> members;
    size_t place = 0;
    /// Of `samples`: of these formulas are asked, for chunks change little.
    size_t begin = 0, end = 0;
    bool isMeasured = false;
  };
  /// Does not seem to fit, value.
  using Promise = std::pair<bool, double>;
  enum class Turn { Near, Any, Plain };

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
  void teach(const Block &block, std::optional<double> seconds,
             std::optional<double> bytes);
  const Pending *best() const;
  Promise rankOf(const Pending &entry) const;
  double limit() const;
  double value(double seconds, double bytes) const {
    return objective == Objective::Memory ? bytes : seconds;
  }

  Evaluator &evaluator;
  std::vector<Pending> &pending;
  Objective objective;
  double memoryLimitBytes;
  int64_t top;
  std::vector<Block> blocks;
  std::vector<Place> places;
  std::vector<size_t> sampled; ///< Of `pending`: those of `samples`.
  std::vector<Sample> samples;
  std::vector<size_t> known; ///< Of `pending`: made of measured pieces.
  int64_t count = 0;         ///< Of measured ones.
};

} // namespace dpc::cost

#endif // DPC_COST_MODEL_SEARCH_BLOCKSEARCH_H
