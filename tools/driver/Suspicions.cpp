//===- Suspicions.cpp - Graph patterns that are probably mistakes ---------===//
#include "tools/driver/Suspicions.h"

#include "ir/NodeName.h"
#include "ir/StopGradient.h"
#include "passes/graph/Match.h"
#include "passes/shard/BatchSums.h"
#include "runtime/base/NameList.h"
#include "tools/driver/Comparisons.h"
#include "tools/driver/WeightFacts.h"

#include <cmath>
#include <set>

using namespace mlir;

namespace dpc {

static Detail when(bool matches) {
  return matches ? Detail(std::string()) : std::nullopt;
}

/// A cross entropy of probabilities.
static Detail getsProbabilities(Operation *op, const SuspectModel &) {
  auto loss = dyn_cast<CrossEntropyOp>(op);
  if (!loss)
    return std::nullopt;
  Value scores = skipMoves(loss.getLogits());
  StringRef kind = scores.getDefiningOp<SoftmaxOp>()     ? "softmax"
                   : unaryOf(scores, UnaryKind::sigmoid) ? "sigmoid"
                                                         : "";
  return kind.empty()
             ? Detail()
             : nodeOf(scores.getDefiningOp()) + ", which is a " + kind.str();
}

/// A cross entropy of scores that are never negative.
static Detail getsCutScores(Operation *op, const SuspectModel &) {
  auto loss = dyn_cast<CrossEntropyOp>(op);
  if (!loss)
    return std::nullopt;
  Value scores = skipMoves(loss.getLogits());
  return unaryOf(scores, UnaryKind::relu)
             ? Detail(nodeOf(scores.getDefiningOp()))
             : std::nullopt;
}

static Detail hasOneClass(Operation *op, const SuspectModel &) {
  auto loss = dyn_cast<CrossEntropyOp>(op);
  return when(loss && shapeOf(loss.getLogits())[1] == 1);
}

/// A cross entropy between samples, such as pairs of images and texts, whose
/// labels all are one number.
static Detail hasOneLabel(Operation *op, const SuspectModel &model) {
  auto loss = dyn_cast<CrossEntropyOp>(op);
  if (!loss || !model.betweenSamples.contains(op))
    return std::nullopt;
  std::optional<double> label = splatValue(skipMoves(loss.getLabels()));
  return label ? Detail(std::to_string(static_cast<int64_t>(*label)))
               : std::nullopt;
}

/// A product with a weight of zeros that is not trained.
static Detail closesGate(Operation *op, const SuspectModel &) {
  auto product = dyn_cast<BinaryOp>(op);
  if (!product || product.getKind() != BinaryKind::mul)
    return std::nullopt;
  for (Value factor : {product.getA(), product.getB()}) {
    auto gate = dyn_cast<BlockArgument>(skipMoves(factor));
    if (!gate || !isFrozen(gate)) // a running mean is a buffer of zeros
      continue;
    std::vector<float> values = valuesInFile(gate);
    if (!values.empty() && llvm::all_of(values, [](float v) { return v == 0; }))
      return nameOf(gate);
  }
  return std::nullopt;
}

static bool isTimesZero(Operation *op) {
  auto product = dyn_cast<BinaryOp>(op);
  return product && product.getKind() == BinaryKind::mul &&
         (splatValue(product.getA()) == 0.0 ||
          splatValue(product.getB()) == 0.0);
}

/// A cross entropy with label_smoothing=1.
static Detail ignoresLabels(Operation *op, const SuspectModel &) {
  auto loss = dyn_cast<CrossEntropyOp>(op);
  return when(loss && !loss.getLoss().use_empty() &&
              llvm::all_of(loss.getLoss().getUsers(), isTimesZero));
}

static Detail zeroesLoss(Operation *op, const SuspectModel &model) {
  return when(isTimesZero(op) && model.factors.contains(op->getResult(0)));
}

bool isSquaredOrAbsolute(Value value) {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    auto unary = dyn_cast<UnaryOp>(user);
    auto product = dyn_cast<BinaryOp>(user);
    return (unary && unary.getKind() == UnaryKind::abs) ||
           (product && product.getKind() == BinaryKind::mul &&
            product.getA() == product.getB());
  });
}

static Value skipStops(Value value) {
  while (stopsGradient(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value;
}

/// A squared or absolute error of a value and itself.
static Detail comparesWithItself(Operation *op, const SuspectModel &) {
  auto difference = dyn_cast<BinaryOp>(op);
  return when(difference && difference.getKind() == BinaryKind::sub &&
              isFloatTensor(difference.getType()) &&
              skipStops(difference.getA()) == skipStops(difference.getB()) &&
              isSquaredOrAbsolute(difference.getResult()));
}

/// A softmax that is not in an attention, which may have one key.
static Detail isOverOneElement(Operation *op, const SuspectModel &) {
  auto softmax = dyn_cast<SoftmaxOp>(op);
  return when(softmax && shapeOf(softmax.getX()).back() == 1 &&
              llvm::none_of(op->getUsers(), llvm::IsaPred<MatmulOp>));
}

static Detail normalizesOneElement(Operation *op, const SuspectModel &) {
  if (auto norm = dyn_cast<NormOp>(op))
    return when(norm.getKind() == NormKind::layer &&
                shapeOf(norm.getX()).back() == 1);
  auto norm = dyn_cast<BatchNormOp>(op);
  return when(norm && tensorType(norm.getX()).getNumElements() ==
                          shapeOf(norm.getX())[1]);
}

static Detail scalesOneElement(Operation *op, const SuspectModel &) {
  auto norm = dyn_cast<NormOp>(op);
  return when(norm && norm.getKind() == NormKind::rms &&
              shapeOf(norm.getX()).back() == 1);
}

static Detail isNegated(Operation *op, const SuspectModel &model) {
  return when(model.negated.contains(op));
}

/// Whether `value` has the results of a softmax over a square matrix, of which
/// `dim` is the other dimension.
static bool isBesideSoftmax(Value value, int64_t dim) {
  while (auto move = value.getDefiningOp<TransposeOp>()) {
    dim = move.getPerm()[dim];
    value = move.getX();
  }
  auto softmax = value.getDefiningOp<SoftmaxOp>();
  if (!softmax)
    return false;
  llvm::ArrayRef<int64_t> shape = shapeOf(value);
  const auto last = static_cast<int64_t>(shape.size()) - 1;
  return dim == last - 1 && shape[dim] == shape[last] && shape[last] > 1;
}

/// A product that sums over the queries of attention. Clusters are pooled so on
/// purpose, but they are fewer than what they cluster.
static Detail sumsQueries(Operation *op, const SuspectModel &) {
  auto product = dyn_cast<MatmulOp>(op);
  if (!product)
    return std::nullopt;
  const auto last = static_cast<int64_t>(shapeOf(product.getA()).size()) - 1;
  const auto lastOfB = static_cast<int64_t>(shapeOf(product.getB()).size()) - 1;
  return when(
      isBesideSoftmax(product.getA(), product.getTa() ? last - 1 : last) ||
      isBesideSoftmax(product.getB(), product.getTb() ? lastOfB : lastOfB - 1));
}

/// Returns the probability of a dropout: a select by random numbers, which
/// depend on the step.
static std::optional<double> dropoutOf(Operation *op) {
  auto select = dyn_cast_or_null<SelectOp>(op);
  if (!select)
    return std::nullopt;
  double scale = 1;
  const bool isRandom = llvm::any_of(
      dependencies({select.getCondition()}, [](Operation *) { return true; }),
      [](Value value) {
        return isa<BlockArgument>(value) && roleOf(value) == role::kScalar;
      });
  if (!isRandom || !scaledValue(select.getOnTrue(), scale) || scale <= 1)
    return std::nullopt;
  return 1 - 1 / scale;
}

/// A dropout that keeps less than a quarter of the elements.
static Detail dropsMost(Operation *op, const SuspectModel &) {
  constexpr double kMost = 0.75;
  const double p = dropoutOf(op).value_or(0);
  return p > kMost ? Detail(std::to_string(std::lround(100 * p)))
                   : std::nullopt;
}

/// A cross entropy or an error of scores of which a dropout removes some.
static Detail getsDropped(Operation *op, const SuspectModel &model) {
  Value scores = model.scores.lookup(op);
  return when(scores && dropoutOf(skipMoves(scores).getDefiningOp()));
}

/// Returns the factor with which `next` contains `buffer` if it also contains
/// a statistic of `norm`, or nullopt.
static std::optional<double> shareKept(Value next, Value buffer,
                                       Operation *norm) {
  BinaryOp sum = binaryOf(next, BinaryKind::add);
  if (!sum)
    return std::nullopt;
  for (auto [old, added] : operandOrders(sum)) {
    double share = 1;
    if (scaledValue(old, share) == buffer &&
        llvm::any_of(
            dependencies({added}, llvm::IsaPred<UnaryOp, BinaryOp, ReshapeOp,
                                                ConvertOp, BroadcastOp>),
            [&](Value value) { return value.getDefiningOp() == norm; }))
      return share;
  }
  return std::nullopt;
}

/// Returns which share of its running statistics a batch norm keeps in each
/// step, or nullopt if `op` is no batch norm that moves some.
static std::optional<double> keptInEachStep(Operation *op) {
  if (!isa<BatchNormOp>(op))
    return std::nullopt;
  auto forward = op->getParentOfType<func::FuncOp>();
  for (OpOperand &next : forward.front().getTerminator()->getOpOperands()) {
    auto buffer = forward.getResultAttrOfType<IntegerAttr>(
        next.getOperandNumber(), attr::kTies);
    std::optional<double> kept =
        buffer ? shareKept(next.get(), forward.getArgument(buffer.getInt()), op)
               : std::nullopt;
    if (kept)
      return kept;
  }
  return std::nullopt;
}

/// A batch norm whose running statistics keep almost nothing of those before.
static Detail forgetsBatches(Operation *op, const SuspectModel &) {
  // Keeping nothing is no confusion of the two conventions.
  constexpr double kLittle = 0.1, kNothing = 1e-6;
  std::optional<double> kept = keptInEachStep(op);
  return kept && *kept > kNothing && *kept <= kLittle + kNothing
             ? Detail(std::to_string(std::lround(100 * *kept)))
             : std::nullopt;
}

/// A batch norm of which no weight is trained, but whose running statistics
/// move.
static Detail movesFrozenNorm(Operation *op, const SuspectModel &) {
  auto norm = dyn_cast<BatchNormOp>(op);
  if (!norm || !keptInEachStep(op))
    return std::nullopt;
  for (Value weight : {norm.getScale(), norm.getBias()})
    if (auto argument = dyn_cast_or_null<BlockArgument>(weight);
        !argument || !isFrozen(argument))
      return std::nullopt;
  return nameOf(cast<BlockArgument>(norm.getScale()));
}

static Detail sumsSamples(Operation *op, const SuspectModel &model) {
  return when(model.totals.contains(op));
}

namespace {
/// The remark is the node, and then `text` with the detail in the place of {}.
struct Pattern {
  Detail (*match)(Operation *op, const SuspectModel &model);
  const char *text;
  bool ruins;
};
} // namespace

static const Pattern kPatterns[] = {
    {zeroesLoss, "multiplies the loss by 0: it trains nothing", true},
    {comparesWithItself,
     "compares a value with itself: the error is always 0 and trains nothing",
     true},
    {hasOneClass,
     "gets scores of one class: the loss is always 0 and trains nothing", true},
    {ignoresLabels,
     "gives its labels the weight 0 (label_smoothing=1): the loss does not "
     "depend on them",
     true},
    {keepsNext,
     "has a mask that keeps the keys up to t + 1 for position t: each position "
     "reads the next one; a causal mask keeps the keys up to t, as with "
     "torch.triu(diagonal=1) of -inf",
     true},
    {hidesItself,
     "has a mask that hides the keys from t on for position t: the first "
     "position has no key; a causal mask hides those from t + 1 on, as with "
     "torch.triu(diagonal=1) of -inf",
     true},
    {addsZeroOne,
     "adds {} to the scores, which hides nothing; add 0 and -inf, or use a "
     "mask of type bool",
     true},
    {hasOneLabel,
     "compares samples with each other, but the label of each one is {}; row i "
     "usually has the label i",
     true},
    {closesGate,
     "multiplies by '{}', a weight of zeros that is not trained: what it "
     "multiplies has no effect",
     false},
    {getsProbabilities, "applies a softmax to the result of {} already", false},
    {getsCutScores,
     "gets scores that {} cuts off at 0 (relu): classes below 0 get no "
     "gradient",
     false},
    {isOverOneElement, "is a softmax of one element: its result is always 1",
     false},
    {normalizesOneElement,
     "normalizes groups of one element: its result is its bias, whatever its "
     "input is",
     false},
    {sumsQueries,
     "sums the results of a softmax over another dimension than that of the "
     "softmax: the softmax of attention is over the keys, as its sum",
     false},
    {cutsHeads,
     "has heads of positions instead of features: the reshape of {} it lacks a "
     "transpose",
     false},
    {scalesTwice,
     "divides its scores by the root of the {} features of a head, which "
     "its queries or keys are divided by already",
     false},
    {rotatesOne,
     "has a table of positions as a factor of its {}: the scores of rotary "
     "embeddings depend on distances only if both are rotated",
     false},
    {getsDropped, "gets scores of which a dropout sets some to 0", false},
    {dropsMost, "drops {} % of its elements: were p and 1 - p swapped?", false},
    {sumsOverSamples,
     "is a cosine of two results over the batch: the loss of a sample depends "
     "on the others; sum over the features (dim=-1)",
     false},
    {forgetsBatches,
     "keeps {} % of its running statistics in each step, so that they are "
     "those of the last batch; PyTorch's momentum is the share of the new "
     "batch: 0.01 for what other frameworks call 0.99",
     false},
    {movesFrozenNorm,
     "has the frozen weight '{}', but each step moves its running statistics; "
     "they stay as they are if the module is exported after .eval()",
     false},
    {isLineOfLine,
     "multiplies the result of {} again, without a nonlinear op between: the "
     "two are one linear map",
     false},
    {picksUnnormalized,
     "picks one of {}: the probabilities of the classes do not add up to 1",
     false},
    {comparesWithHalf,
     "compares scores with 0.5, of which the loss takes the sigmoid: that is "
     "0.5 where they are 0",
     false},
    {isNegated,
     "has a negative factor in the loss: training makes the labels less likely",
     false},
    {getsBounded, "gets scores of {}", false},
    {smoothsMost,
     "gives its labels the weight {}: were 1 - label_smoothing and "
     "label_smoothing swapped?",
     false},
    {sumsSamples,
     "sums the loss over the batch and divides by no number of samples: the "
     "loss and its gradients grow with the batch, and losses of other batches "
     "do not compare; reduction='mean' divides",
     false},
    {scalesOneElement,
     "normalizes groups of one element: its result has only the sign of its "
     "input",
     false}};

/// Whether the result of `op` is 0 if its operand `index` is.
static bool keepsZero(Operation *op, unsigned index) {
  if (auto unary = dyn_cast<UnaryOp>(op))
    return unary.getKind() == UnaryKind::neg ||
           unary.getKind() == UnaryKind::abs;
  if (auto binary = dyn_cast<BinaryOp>(op))
    return binary.getKind() == BinaryKind::mul ||
           (binary.getKind() == BinaryKind::div && index == 0);
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return reduce.getKind() == ReduceKind::sum;
  return isa<ConvertOp, ReshapeOp, TransposeOp, BroadcastOp>(op);
}

static llvm::DenseSet<Value> factorsOf(Value loss) {
  llvm::DenseSet<Value> factors = {loss};
  SmallVector<Value> work = {loss};
  while (!work.empty())
    if (Operation *op = work.pop_back_val().getDefiningOp())
      for (OpOperand &operand : op->getOpOperands())
        if (keepsZero(op, operand.getOperandNumber()) &&
            factors.insert(operand.get()).second)
          work.push_back(operand.get());
  return factors;
}

/// Whether a sum over the batch, times `factor`, grows with the batch: it is
/// the whole sum, or a mean over all other dimensions. A smaller factor may
/// divide by the number of samples.
static bool growsWithBatch(ReduceOp sum, double factor, int64_t samples) {
  const int64_t elements = tensorType(sum.getX()).getNumElements() /
                           tensorType(sum.getResult()).getNumElements();
  const int64_t perSample = elements / samples;
  const double scale = std::abs(factor);
  return scale > 1 - 1e-6 ||
         (std::abs(scale * perSample - 1) < 1e-6 && perSample % samples != 0);
}

/// Sets `totals` and `negated`.
static void followTerms(func::FuncOp forward, Value loss, SuspectModel &model) {
  const BatchSums sums = sumsOverBatch(forward);
  model.betweenSamples = sums.comparisons;
  model.batchSums = sums.ops;
  SmallVector<std::pair<Value, double>> work = {{loss, 1.0}};
  std::set<std::pair<const void *, double>> seen;
  llvm::DenseSet<Operation *> positive;
  while (!work.empty()) {
    auto [value, factor] = work.pop_back_val();
    if (!seen.insert({value.getAsOpaquePointer(), factor}).second)
      continue;
    double scale = 1;
    Operation *op = value.getDefiningOp();
    auto binary = dyn_cast_or_null<BinaryOp>(op);
    if (Value scaled = scaledValue(value, scale)) {
      work.emplace_back(scaled, factor * scale);
    } else if (unaryOf(value, UnaryKind::neg)) {
      work.emplace_back(op->getOperand(0), -factor);
    } else if (isa_and_present<ReshapeOp, ConvertOp>(op)) {
      work.emplace_back(op->getOperand(0), factor);
    } else if (binary && (binary.getKind() == BinaryKind::add ||
                          binary.getKind() == BinaryKind::sub)) {
      bool subtracts = binary.getKind() == BinaryKind::sub;
      work.emplace_back(binary.getA(), factor);
      work.emplace_back(binary.getB(), subtracts ? -factor : factor);
    } else if (binary && binary.getKind() == BinaryKind::div) {
      // By a count. The sum does not grow with the batch any more.
      work.emplace_back(binary.getA(), factor < 0 ? -0.0 : 0.0);
    } else if (auto reduce = dyn_cast_or_null<ReduceOp>(op)) {
      if (sums.ops.contains(op) && growsWithBatch(reduce, factor, sums.samples))
        model.totals.insert(op);
      if (reduce.getKind() == ReduceKind::sum)
        work.emplace_back(reduce.getX(), factor);
    } else if (isa_and_present<CrossEntropyOp>(op)) {
      (std::signbit(factor) ? model.negated : positive).insert(op);
    }
  }
  // Such as the difference of a loss and the same loss without gradient.
  for (Operation *op : positive)
    model.negated.erase(op);
}

static std::string textOf(const Pattern &pattern, Operation *op,
                          StringRef detail) {
  StringRef text = pattern.text;
  auto [before, after] = text.split("{}");
  return nodeOf(op) + " " + before.str() + detail.str() + after.str();
}

/// Says which trained weights reach the loss only through factors of 0, or
/// returns "". If all do, zeroesLoss() says so.
static std::string textOnZeroGradients(func::FuncOp forward) {
  auto weightsOf = [&](llvm::function_ref<bool(Operation *)> follows) {
    std::set<std::string> names;
    for (Value value : dependencies({lossOf(forward)}, follows))
      if (auto weight = dyn_cast<BlockArgument>(value);
          weight && isTrained(weight))
        names.insert(nameOf(weight));
    return names;
  };
  const std::set<std::string> changed =
      weightsOf([](Operation *op) { return !isTimesZero(op); });
  std::vector<std::string> kept;
  for (const std::string &name : weightsOf([](Operation *) { return true; }))
    if (!changed.contains(name))
      kept.push_back(name);
  return kept.empty() || changed.empty()
             ? ""
             : "the gradients of " + rt::listed(rt::quoted(kept)) +
                   " are always 0: the loss multiplies what they compute by 0";
}

std::vector<Suspicion> suspicionsOf(func::FuncOp forward) {
  SuspectModel model(forward);
  if (Value loss = lossOf(forward)) {
    model.factors = factorsOf(loss);
    followTerms(forward, loss, model);
    for (BinaryOp product : forward.getOps<BinaryOp>())
      if (auto targets = product->getAttrOfType<IntegerAttr>(attr::kTargets))
        model.binaryScores.insert(
            skipMoves(product->getOperand(1 - targets.getInt())));
    for (const Comparison &comparison : comparisonsOf(forward))
      model.scores.insert({comparison.op, comparison.scores});
  }
  std::vector<Suspicion> suspicions;
  for (const Pattern &pattern : kPatterns)
    forward.walk([&](Operation *op) {
      if (Detail detail = pattern.match(op, model))
        suspicions.push_back({textOf(pattern, op, *detail), pattern.ruins});
    });
  for (const std::string &text :
       {textOnZeroGradients(forward), textOnOtherLabels(forward),
        textOnOtherShift(forward), textOnIgnoredLabels(forward),
        textOnClassAxis(forward), textOnFreeTargets(forward, model),
        textOnNoise(forward, model.reach), textOnTrainedFactors(forward)})
    if (!text.empty())
      suspicions.push_back({text, false});
  return suspicions;
}

} // namespace dpc
