//===- MetricSuspicions.cpp - Outputs beside a loss that are mistakes -----===//
#include "ir/StopGradient.h"
#include "passes/graph/Match.h"
#include "tools/driver/Comparisons.h"
#include "tools/driver/Inputs.h"
#include "tools/driver/Suspicions.h"
#include "tools/driver/WeightFacts.h"

#include <cmath>
#include <set>

using namespace mlir;

namespace dpc {

static std::string nameOfResult(func::FuncOp forward, unsigned result) {
  auto name = forward.getResultAttrOfType<StringAttr>(result, attr::kName);
  return name ? name.str() : std::to_string(result);
}

/// Returns the indices of the results of one number that are not trained.
static SmallVector<unsigned> metricsOf(func::FuncOp forward) {
  return llvm::filter_to_vector(
      llvm::seq(forward.getNumResults()), [&](unsigned i) {
        auto type = dyn_cast<RankedTensorType>(forward.getResultTypes()[i]);
        return type && type.getNumElements() == 1 &&
               !forward.getResultAttr(i, attr::kLoss);
      });
}

static Value resultOf(func::FuncOp forward, unsigned result) {
  return forward.front().getTerminator()->getOperand(result);
}

/// Returns the integer inputs that `value` depends on and `among` accepts.
static std::set<std::string>
inputsOf(Value value, llvm::function_ref<bool(StringRef)> among) {
  std::set<std::string> names;
  for (Value one : dependencies({value}, [](Operation *) { return true; }))
    if (auto input = dyn_cast<BlockArgument>(one);
        input && roleOf(input) == role::kInput && among(nameOf(input)))
      names.insert(nameOf(input));
  return names;
}

std::string textOnOtherLabels(func::FuncOp forward) {
  std::set<std::string> labels;
  for (CrossEntropyOp loss : forward.getOps<CrossEntropyOp>())
    for (const std::string &name :
         inputsOf(loss.getLabels(), [](StringRef) { return true; }))
      labels.insert(name);
  if (labels.empty())
    return "";
  for (unsigned i : metricsOf(forward)) {
    Value result = resultOf(forward, i);
    if (!inputsOf(result, [&](StringRef name) {
           return labels.contains(name.str());
         }).empty())
      continue;
    for (Value value : dependencies({result}, [](Operation *) { return true; }))
      if (auto compare = value.getDefiningOp<CompareOp>();
          compare && compare.getKind() == CompareKind::eq)
        for (Value side : {compare.getA(), compare.getB()})
          if (auto input = dyn_cast<BlockArgument>(skipMoves(side));
              input && roleOf(input) == role::kInput)
            return "output '" + nameOfResult(forward, i) +
                   "' compares numbers with '" + nameOf(input) +
                   "', but the loss with '" + *labels.begin() +
                   "': is it a metric of the same labels?";
  }
  return "";
}

/// Returns how many positions a slice removes at the front, or nullopt if it
/// takes a part of another dimension than the positions [batch, positions, ..].
static std::optional<int64_t> positionsRemoved(SliceOp slice) {
  ArrayRef<int64_t> from = shapeOf(slice.getX()),
                    to = shapeOf(slice.getResult());
  if (from.size() < 2)
    return std::nullopt;
  for (auto [dim, size] : llvm::enumerate(from))
    if (dim != 1 && to[dim] != size)
      return std::nullopt;
  return slice.getStrides()[1] == 1 ? std::optional(slice.getOffsets()[1])
                                    : std::nullopt;
}

/// Returns how many positions ops remove at the front of `source` until `value`
/// has its elements, or nullopt if this is not known.
static std::optional<int64_t> removedBetween(Value source, Value value) {
  int64_t removed = 0;
  bool isKnown = true;
  const llvm::SetVector<Value> values =
      dependencies({value}, [&](Operation *op) {
        if (source.getDefiningOp() == op)
          return false;
        isKnown &= worksOnElements(op) || isa<TopKOp, IotaOp, ConstantOp>(op);
        return true;
      });
  int slices = 0;
  for (Value one : values)
    if (auto slice = one.getDefiningOp<SliceOp>(); slice && one != source) {
      std::optional<int64_t> here = positionsRemoved(slice);
      isKnown &= here && ++slices == 1;
      removed += here.value_or(0);
    }
  return isKnown && values.contains(source) ? std::optional(removed)
                                            : std::nullopt;
}

namespace {
/// The labels of a cross entropy.
struct ShiftedLabels {
  Value scores; ///< before some are left out
  BlockArgument labels;
  int64_t ahead; ///< how many positions before its scores a label is
};
} // namespace

static std::optional<ShiftedLabels> labelsOf(CrossEntropyOp loss) {
  Value scores = loss.getLogits();
  while (isa_and_present<SliceOp, ReshapeOp, TransposeOp, ConvertOp>(
      scores.getDefiningOp()))
    scores = scores.getDefiningOp()->getOperand(0);
  for (Value value :
       dependencies({loss.getLabels()}, [](Operation *) { return true; })) {
    auto input = dyn_cast<BlockArgument>(value);
    if (!input || roleOf(input) != role::kInput ||
        tensorType(input).getRank() != 2)
      continue;
    const std::set<int64_t> ahead = tokenUses(input).labels;
    if (ahead.size() == 1)
      return ShiftedLabels{scores, input, *ahead.begin()};
  }
  return std::nullopt;
}

/// Returns how many positions before the scores the labels are that `compare`
/// compares with a choice of classes, or nullopt if it does not.
static std::optional<int64_t> aheadIn(CompareOp compare,
                                      const ShiftedLabels &loss) {
  if (compare.getKind() != CompareKind::eq)
    return std::nullopt;
  for (auto [labels, chosen] : {std::pair(compare.getA(), compare.getB()),
                                std::pair(compare.getB(), compare.getA())}) {
    if (skipMoves(labels) != loss.labels)
      continue;
    std::optional<int64_t> ahead = removedBetween(loss.labels, labels),
                           left = removedBetween(loss.scores, chosen);
    if (ahead && left)
      return *ahead - *left;
  }
  return std::nullopt;
}

static std::string positionText(int64_t ahead) {
  if (ahead == 0)
    return "at the same position";
  const int64_t count = std::abs(ahead);
  return std::to_string(count) + (count == 1 ? " position " : " positions ") +
         (ahead > 0 ? "later" : "earlier");
}

std::string textOnOtherShift(func::FuncOp forward) {
  for (CrossEntropyOp op : forward.getOps<CrossEntropyOp>()) {
    std::optional<ShiftedLabels> loss = labelsOf(op);
    if (!loss)
      continue;
    for (unsigned i : metricsOf(forward))
      for (Value value : dependencies({resultOf(forward, i)},
                                      [](Operation *) { return true; }))
        if (auto compare = value.getDefiningOp<CompareOp>())
          if (std::optional<int64_t> ahead = aheadIn(compare, *loss);
              ahead && *ahead != loss->ahead)
            return "output '" + nameOfResult(forward, i) +
                   "' compares the scores of a position with '" +
                   nameOf(loss->labels) + "' " + positionText(*ahead) +
                   ", but the loss " + positionText(loss->ahead);
  }
  return "";
}

/// Returns the comparison of which `metric` is the mean over all elements, or
/// null.
static CompareOp meanIn(Value metric) {
  double share = 1; // of an element
  while (Operation *op = metric.getDefiningOp()) {
    double factor = 1;
    auto reduce = dyn_cast<ReduceOp>(op);
    if (auto compare = dyn_cast<CompareOp>(op)) {
      const int64_t count = tensorType(compare).getNumElements();
      return std::abs(share * static_cast<double>(count) - 1) < 1e-4
                 ? compare
                 : CompareOp();
    }
    if (Value scaled = scaledValue(metric, factor)) {
      metric = scaled;
      share *= factor;
    } else if (isa<ReshapeOp, ConvertOp>(op) ||
               (reduce && reduce.getKind() == ReduceKind::sum)) {
      metric = op->getOperand(0);
    } else {
      break;
    }
  }
  return {};
}

/// Whether `compare` compares choices of classes with all labels of `loss`.
static bool comparesLabels(CompareOp compare, CrossEntropyOp loss) {
  const int64_t rows = shapeOf(loss.getLabels())[0];
  Value scores = skipMoves(loss.getLogits());
  for (auto [labels, chosen] : {std::pair(compare.getA(), compare.getB()),
                                std::pair(compare.getB(), compare.getA())})
    if (skipMoves(labels) == skipMoves(loss.getLabels()) &&
        tensorType(labels).getNumElements() == rows &&
        dependencies({chosen}, [](Operation *) {
          return true;
        }).contains(scores))
      return compare.getKind() == CompareKind::eq;
  return false;
}

std::optional<MeanOfLabels> meanOfAllLabels(func::FuncOp forward) {
  for (CrossEntropyOp loss : forward.getOps<CrossEntropyOp>()) {
    auto input = dyn_cast<BlockArgument>(skipMoves(loss.getLabels()));
    if (!input || roleOf(input) != role::kInput)
      continue;
    for (unsigned i : metricsOf(forward))
      if (CompareOp compare = meanIn(resultOf(forward, i));
          compare && comparesLabels(compare, loss))
        return MeanOfLabels{nameOfResult(forward, i), input,
                            static_cast<int64_t>(loss.getIgnoreIndex())};
  }
  return std::nullopt;
}

std::string textOnIgnoredLabels(func::FuncOp forward) {
  // The default of torch, which says nothing about the data.
  constexpr int64_t kDefault = -100;
  std::optional<MeanOfLabels> mean = meanOfAllLabels(forward);
  return mean && mean->ignored != kDefault
             ? "output '" + mean->output + "' is a mean over all of '" +
                   nameOf(mean->labels) + "', also over those that are " +
                   std::to_string(mean->ignored) + ", which the loss ignores"
             : "";
}

/// Returns x of a value that is x times a number.
static Value unscaled(Value value) {
  double factor = 1;
  while (Operation *op = value.getDefiningOp()) {
    if (Value scaled = scaledValue(value, factor); scaled && factor > 0)
      value = scaled;
    else if (isa<ReshapeOp, ConvertOp>(op) && !stopsGradient(op))
      value = op->getOperand(0);
    else
      break;
  }
  return value;
}

/// Whether `total` is a sum of a positive multiple of `loss` and a term that
/// trained weights change.
static bool addsTo(Value total, Value loss, const Reach &reach) {
  bool hasLoss = false, hasMore = false;
  SmallVector<std::pair<Value, bool>> terms = {{total, true}};
  while (!terms.empty()) {
    auto [term, isAdded] = terms.pop_back_val();
    Value value = unscaled(term);
    auto binary = value.getDefiningOp<BinaryOp>();
    if (value == loss || value == unscaled(loss)) {
      hasLoss |= isAdded;
    } else if (binary && (binary.getKind() == BinaryKind::add ||
                          binary.getKind() == BinaryKind::sub)) {
      const bool adds = binary.getKind() == BinaryKind::add;
      terms.emplace_back(binary.getA(), isAdded);
      terms.emplace_back(binary.getB(), isAdded == adds);
    } else {
      hasMore |= reach.reachesWeights(value);
    }
  }
  return hasLoss && hasMore;
}

std::string textOnTotal(func::FuncOp forward) {
  Value loss = lossOf(forward);
  if (!loss)
    return "";
  const Reach reach(forward);
  for (unsigned i : metricsOf(forward))
    if (Value total = resultOf(forward, i);
        isFloatTensor(total.getType()) && addsTo(total, loss, reach)) {
      const std::string name = nameOfResult(forward, i);
      return "output '" + name +
             "' adds terms to the loss that is trained; --loss-output=" + name +
             " trains it";
    }
  return "";
}

} // namespace dpc
