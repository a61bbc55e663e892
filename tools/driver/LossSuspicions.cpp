//===- LossSuspicions.cpp - Losses that compare the wrong values ----------===//
#include "ir/NodeName.h"
#include "passes/graph/Match.h"
#include "passes/shard/BatchSums.h"
#include "passes/shard/Factors.h"
#include "tools/driver/Comparisons.h"
#include "tools/driver/Suspicions.h"
#include "tools/driver/WeightFacts.h"

#include "mlir/IR/OwningOpRef.h"

#include <algorithm>

using namespace mlir;

namespace dpc {

namespace {

using Classes = llvm::DenseSet<int64_t>;

/// Which dimensions of the scores of a cross entropy come from positions.
class AxisOrigins {
public:
  explicit AxisOrigins(func::FuncOp copy) : factors(copy) {
    for (BlockArgument argument : copy.getArguments()) {
      if (!isa<RankedTensorType>(argument.getType()))
        continue;
      if (roleOf(argument) == role::kParameter)
        add(argument, weights);
      else if (roleOf(argument) == role::kInput && !isLabel(copy, argument))
        addPositions(copy, argument);
    }
  }

  /// Returns an input whose positions are the classes of `loss` if the features
  /// of a weight are its positions, or null.
  BlockArgument positionsAsClasses(CrossEntropyOp loss) const;

private:
  FactorAnalysis factors;
  Classes weights, positions;
  llvm::DenseMap<int64_t, BlockArgument> inputs; ///< of each of `positions`

  static bool isLabel(func::FuncOp copy, BlockArgument argument) {
    return llvm::any_of(copy.getOps<CrossEntropyOp>(), [&](CrossEntropyOp op) {
      return skipMoves(op.getLabels()) == argument;
    });
  }

  void add(Value value, Classes &classes) const {
    for (int64_t i : llvm::seq(factors.numFactors(value)))
      classes.insert(factors.classOf(value, i));
  }

  void addPositions(func::FuncOp copy, BlockArgument argument);
};

void AxisOrigins::addPositions(func::FuncOp copy, BlockArgument argument) {
  auto batch = copy.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(),
                                                  attr::kBatchDim);
  for (int64_t dim : llvm::seq(tensorType(argument).getRank())) {
    if (dim == (batch ? batch.getInt() : 0))
      continue;
    for (int64_t i : llvm::seq(factors.numFactors(argument, dim),
                               factors.numFactors(argument, dim + 1))) {
      positions.insert(factors.classOf(argument, i));
      inputs.insert({factors.classOf(argument, i), argument});
    }
  }
}

BlockArgument AxisOrigins::positionsAsClasses(CrossEntropyOp loss) const {
  Value scores = loss.getLogits();
  const int64_t rows = factors.numFactors(scores, 1),
                all = factors.numFactors(scores);
  BlockArgument found;
  for (int64_t i : llvm::seq(rows, all)) {
    found = inputs.lookup(factors.classOf(scores, i));
    if (!found)
      return nullptr;
  }
  int64_t features = 1;
  for (int64_t i : llvm::seq(int64_t(0), rows)) {
    const int64_t factorClass = factors.classOf(scores, i);
    if (positions.contains(factorClass))
      return nullptr;
    if (weights.contains(factorClass))
      features *= factors.factorSize(scores, i);
  }
  return features == shapeOf(scores)[1] ? found : nullptr;
}

} // namespace

/// Whether the loss moves the dimension of the classes to the end, and has as
/// many classes as may be positions. Scores of learned queries for positions
/// are not moved.
static bool mayMix(CrossEntropyOp op) {
  ArrayRef<int64_t> shape = shapeOf(op.getLogits());
  Value scores = op.getLogits();
  while (isa_and_present<ReshapeOp, ConvertOp>(scores.getDefiningOp()))
    scores = scores.getDefiningOp()->getOperand(0);
  return scores.getDefiningOp<TransposeOp>() && shape[1] > 1 &&
         shape[0] > shape[1] && shape[0] % shape[1] == 0;
}

std::string textOnClassAxis(func::FuncOp forward) {
  auto losses = forward.getOps<CrossEntropyOp>();
  if (llvm::none_of(losses, mayMix))
    return "";
  OwningOpRef<func::FuncOp> copy(forward.clone());
  separateConstants(*copy);
  const AxisOrigins origins(*copy);
  for (auto [own, copied] :
       llvm::zip_equal(losses, copy->front().getOps<CrossEntropyOp>())) {
    if (!mayMix(own))
      continue;
    if (BlockArgument input = origins.positionsAsClasses(copied))
      return nodeOf(own) + " takes the positions of '" +
             nameOf(forward.getArgument(input.getArgNumber())) +
             "' as classes, and features as positions: do the scores need "
             "transpose(1, 2) before it?";
  }
  return "";
}

/// Whether the values of `op` are made of elements of its operands.
static bool movesOrWorks(Operation *op) {
  return worksOnElements(op) || isa<ConcatOp>(op);
}

/// Whether `op` multiplies two results, such as those of samples with each
/// other.
static bool multipliesResults(Operation *op, const Reach &reach) {
  auto product = dyn_cast_or_null<MatmulOp>(op);
  return product && reach.readsInput(product.getA()) &&
         reach.readsInput(product.getB());
}

namespace {

/// The two values that a term of a loss compares.
struct ResultPair {
  Operation *op = nullptr;
  Value a, b;
};

/// Finds losses that constants minimize.
class FreeTargets {
public:
  FreeTargets(func::FuncOp forward, const Reach &reach)
      : forward(forward), reach(reach) {}

  /// Returns a comparison of two results if all terms of the loss are some.
  std::optional<ResultPair> find();

private:
  func::FuncOp forward;
  const Reach &reach;
  SmallVector<std::pair<Value, double>> terms; ///< values and their factors

  bool follow(Value value, double factor);
  bool isFree(Value side, const BatchSums &sums) const;
};

/// Returns the difference of which `value` is the square or the absolute value.
BinaryOp differenceIn(Value value) {
  if (BinaryOp square = binaryOf(value, BinaryKind::mul);
      square && square.getA() == square.getB())
    value = square.getA();
  else if (!unaryOf(value, UnaryKind::abs))
    return {};
  if (UnaryOp absolute = unaryOf(value, UnaryKind::abs))
    value = absolute.getX();
  return binaryOf(value, BinaryKind::sub);
}

/// Whether `divisor` is computed from elements of all `values`, as a norm is.
bool isNormOf(Value divisor, ArrayRef<Value> values) {
  const llvm::SetVector<Value> all = dependencies({divisor}, movesOrWorks);
  return llvm::all_of(values, [&](Value value) { return all.contains(value); });
}

/// Returns the operands of a cosine: a product of values that are each divided
/// by their norm, or a sum of products that is divided by the norms.
std::optional<ResultPair> cosineIn(Value value) {
  if (BinaryOp product = binaryOf(value, BinaryKind::mul)) {
    BinaryOp a = binaryOf(product.getA(), BinaryKind::div),
             b = binaryOf(product.getB(), BinaryKind::div);
    if (a && b && isNormOf(a.getB(), {a.getA()}) &&
        isNormOf(b.getB(), {b.getA()}))
      return ResultPair{product, a.getA(), b.getA()};
  }
  BinaryOp share = binaryOf(value, BinaryKind::div);
  auto sum = share ? share.getA().getDefiningOp<ReduceOp>() : ReduceOp();
  BinaryOp product = sum ? binaryOf(sum.getX(), BinaryKind::mul) : BinaryOp();
  if (product && isNormOf(share.getB(), {product.getA(), product.getB()}))
    return ResultPair{share, product.getA(), product.getB()};
  return std::nullopt;
}

/// Returns the comparison that `value`, a term with this factor, is.
std::optional<ResultPair> pairIn(Value value, double factor) {
  if (factor < 0)
    return cosineIn(value);
  BinaryOp difference = differenceIn(value);
  return difference ? std::optional(ResultPair{difference, difference.getA(),
                                               difference.getB()})
                    : std::nullopt;
}

/// Adds the terms of which `value` is a sum; false if it is none.
bool FreeTargets::follow(Value value, double factor) {
  double scale = 1;
  Operation *op = value.getDefiningOp();
  auto binary = dyn_cast_or_null<BinaryOp>(op);
  auto reduce = dyn_cast_or_null<ReduceOp>(op);
  if (Value scaled = scaledValue(value, scale)) {
    terms.emplace_back(scaled, factor * scale);
  } else if (binary && (binary.getKind() == BinaryKind::add ||
                        binary.getKind() == BinaryKind::sub)) {
    const bool adds = binary.getKind() == BinaryKind::add;
    terms.emplace_back(binary.getA(), factor);
    terms.emplace_back(binary.getB(), adds ? factor : -factor);
  } else if (auto select = dyn_cast_or_null<SelectOp>(op)) {
    terms.emplace_back(select.getOnTrue(), factor);
    terms.emplace_back(select.getOnFalse(), factor);
  } else if (unaryOf(value, UnaryKind::neg)) {
    terms.emplace_back(op->getOperand(0), -factor);
  } else if (isa_and_present<ReshapeOp, ConvertOp, BroadcastOp, TransposeOp>(
                 op) ||
             (reduce && reduce.getKind() == ReduceKind::sum) ||
             unaryOf(value, UnaryKind::sqrt)) {
    terms.emplace_back(op->getOperand(0), factor);
  } else {
    return false;
  }
  return true;
}

/// Whether `side` can become constant: it depends on trained weights, and not
/// directly on an input, a normalization over the batch or a comparison of
/// samples with each other.
bool FreeTargets::isFree(Value side, const BatchSums &sums) const {
  return reach.reachesWeights(side) && reach.readsInput(side) &&
         llvm::none_of(dependencies({side}, movesOrWorks), [&](Value value) {
           Operation *op = value.getDefiningOp();
           return roleOf(value) == role::kInput ||
                  isa_and_present<BatchNormOp>(op) || sums.ops.contains(op) ||
                  multipliesResults(op, reach);
         });
}

std::optional<ResultPair> FreeTargets::find() {
  SmallVector<ResultPair> pairs;
  terms = {{lossOf(forward), 1.0}};
  llvm::DenseSet<Value> seen;
  while (!terms.empty()) {
    auto [value, factor] = terms.pop_back_val();
    if (!seen.insert(value).second || !reach.reachesWeights(value))
      continue;
    if (std::optional<ResultPair> pair = pairIn(value, factor))
      pairs.push_back(*pair);
    else if (!follow(value, factor))
      return std::nullopt;
  }
  if (pairs.empty())
    return std::nullopt;
  const BatchSums sums = sumsOverBatch(forward);
  for (const ResultPair &pair : pairs)
    if (pair.a == pair.b || !isFree(pair.a, sums) || !isFree(pair.b, sums))
      return std::nullopt;
  return pairs.front();
}

} // namespace

std::string textOnFreeTargets(func::FuncOp forward, const SuspectModel &model) {
  if (!lossOf(forward))
    return "";
  std::optional<ResultPair> pair = FreeTargets(forward, model.reach).find();
  return pair ? nodeOf(pair->op) +
                    " compares two results that are both trained, and the loss "
                    "compares nothing with data: equal constants minimize it; "
                    "compute a target without gradient (torch.no_grad or "
                    "detach)"
              : "";
}

/// Whether the squares of `value` are summed over the batch to more than one
/// number.
static bool isNormedOverBatch(Value value, const SuspectModel &model) {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    auto square = dyn_cast<BinaryOp>(user);
    return square && square.getKind() == BinaryKind::mul &&
           square.getA() == square.getB() &&
           llvm::any_of(square->getUsers(), [&](Operation *sum) {
             return model.batchSums.contains(sum) &&
                    !tensorType(sum->getResult(0)).getShape().empty();
           });
  });
}

/// Whether ops after the last layer subtract a mean over the batch, or may.
static bool mayBeCentered(Value value, const SuspectModel &model) {
  return llvm::any_of(dependencies({value}, movesOrWorks), [&](Value one) {
    Operation *op = one.getDefiningOp();
    return isa_and_present<BatchNormOp>(op) || model.batchSums.contains(op);
  });
}

Detail sumsOverSamples(Operation *op, const SuspectModel &model) {
  auto binary = dyn_cast<BinaryOp>(op);
  std::optional<ResultPair> pair =
      binary ? cosineIn(binary.getResult()) : std::nullopt;
  if (!pair || pair->a == pair->b)
    return std::nullopt;
  for (Value side : {pair->a, pair->b})
    if (!model.reach.reachesWeights(side) || !isNormedOverBatch(side, model) ||
        mayBeCentered(side, model))
      return std::nullopt;
  return "";
}

/// Whether `value` repeats a weight that is trained.
static bool repeatsTrained(Value value) {
  auto weight = dyn_cast<BlockArgument>(skipMoves(value));
  return weight && isTrained(weight);
}

/// Returns the product with a weight of which `value` is the result, perhaps
/// with a bias, and which nothing else reads; or null.
static MatmulOp layerBefore(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!value.hasOneUse())
      return {};
    auto sum = dyn_cast<BinaryOp>(op);
    if (auto product = dyn_cast<MatmulOp>(op))
      return repeatsTrained(product.getB()) ? product : MatmulOp();
    if (sum && sum.getKind() == BinaryKind::add && repeatsTrained(sum.getB()))
      value = sum.getA();
    else if (sum && sum.getKind() == BinaryKind::add &&
             repeatsTrained(sum.getA()))
      value = sum.getB();
    else if (isa<ReshapeOp, ConvertOp>(op))
      value = op->getOperand(0);
    else
      break;
  }
  return {};
}

/// Whether `value` is the result of attention, whose last product is often
/// followed by another layer.
static bool isOfAttention(Value value) {
  Operation *op = skipMoves(value).getDefiningOp();
  auto product = dyn_cast_or_null<MatmulOp>(op);
  return isa_and_present<AttentionOp>(op) ||
         (product && !repeatsTrained(product.getB()));
}

Detail isLineOfLine(Operation *op, const SuspectModel &) {
  auto last = dyn_cast<MatmulOp>(op);
  MatmulOp first = last && repeatsTrained(last.getB())
                       ? layerBefore(last.getA())
                       : MatmulOp();
  if (!first || isOfAttention(first.getA()))
    return std::nullopt;
  const int64_t before = shapeOf(first.getA()).back(),
                between = shapeOf(first.getResult()).back(),
                after = shapeOf(last.getResult()).back();
  return between < std::min(before, after) ? Detail() : Detail(nodeOf(first));
}

Detail comparesWithHalf(Operation *op, const SuspectModel &model) {
  auto compare = dyn_cast<CompareOp>(op);
  if (!compare)
    return std::nullopt;
  for (auto [scores, limit] : {std::pair(compare.getA(), compare.getB()),
                               std::pair(compare.getB(), compare.getA())})
    if (splatValue(limit) == 0.5 &&
        model.binaryScores.contains(skipMoves(scores)))
      return "";
  return std::nullopt;
}

std::string textOnTrainedFactors(func::FuncOp forward) {
  for (CrossEntropyOp loss : forward.getOps<CrossEntropyOp>()) {
    Value labels = skipMoves(loss.getLabels());
    EmbeddingOp rows = classWeightsOf(forward, labels);
    auto weight = rows ? dyn_cast<BlockArgument>(skipMoves(rows.getTable()))
                       : BlockArgument();
    if (weight && isTrained(weight))
      return "'" + nameOf(weight) +
             "' is a factor of the loss for each class, and is trained: the "
             "loss becomes small if it does; a buffer, or --frozen=" +
             nameOf(weight) + ", keeps it";
  }
  return "";
}

} // namespace dpc
