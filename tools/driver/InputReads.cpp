//===- InputReads.cpp - What the ops of a model do with its inputs --------===//
#include "tools/driver/InputReads.h"

#include "codegen/kernel/DTypes.h"
#include "ir/Dialect.h"
#include "ir/TensorUtils.h"
#include "passes/graph/Match.h"
#include "tools/driver/Comparisons.h"
#include "tools/driver/Suspicions.h"
#include "tools/driver/WeightFacts.h"

#include <algorithm>
#include <numeric>
#include <set>

using namespace mlir;

namespace dpc {

namespace {

/// Returns the values of a constant or of a weight that is not trained, or
/// nothing.
std::vector<double> knownValues(Value value) {
  if (std::optional<double> splat = splatValue(value))
    return {*splat};
  Value source = skipMoves(value);
  if (auto weight = dyn_cast<BlockArgument>(source)) {
    if (roleOf(weight) != role::kBuffer && !isFrozen(weight))
      return {};
    std::vector<float> values = valuesInFile(weight);
    return {values.begin(), values.end()};
  }
  auto constant = source.getDefiningOp<ConstantOp>();
  return constant ? numbersOf(constant) : std::vector<double>();
}

/// Returns the mean of a constant. Those of `isFactor` must be of one
/// magnitude, as the deviations of channels are.
std::optional<double> knownMean(Value value, bool isFactor) {
  constexpr double kOneMagnitude = 4;
  const std::vector<double> values = knownValues(value);
  if (values.empty())
    return std::nullopt;
  const auto [least, most] = std::ranges::minmax_element(values);
  if (isFactor && !(*least > 0 && *most <= kOneMagnitude * *least))
    return std::nullopt;
  return std::accumulate(values.begin(), values.end(), 0.0) /
         static_cast<double>(values.size());
}

/// Returns the only id with which the model compares `ids`.
std::optional<int64_t> paddingOf(func::FuncOp forward, BlockArgument ids) {
  std::set<int64_t> marks;
  for (CompareOp compare : forward.getOps<CompareOp>()) {
    if (compare.getKind() != CompareKind::eq &&
        compare.getKind() != CompareKind::ne)
      continue;
    for (auto [side, other] : {std::pair(compare.getA(), compare.getB()),
                               {compare.getB(), compare.getA()}})
      if (std::optional<double> mark = splatValue(other);
          mark && *mark >= 0 && skipMoves(side) == ids)
        marks.insert(static_cast<int64_t>(*mark));
  }
  return marks.size() == 1 ? std::optional(*marks.begin()) : std::nullopt;
}

/// Whether `op` keeps the last of `positions` rows [B, T, D] or [T, B, D].
bool takesLast(Operation *op, int64_t positions) {
  auto slice = dyn_cast<SliceOp>(op);
  if (!slice || shapeOf(slice.getX()).size() != 3)
    return false;
  const int64_t dim = shapeOf(slice.getX())[1] == positions ? 1 : 0;
  return shapeOf(slice.getX())[dim] == positions &&
         shapeOf(slice.getResult())[dim] == 1 &&
         slice.getOffsets()[dim] == positions - 1;
}

/// Whether the loss depends on rows of tables that `ids` choose, but only
/// through the last position.
bool readsLast(func::FuncOp forward, BlockArgument ids) {
  const int64_t positions = shapeOf(ids).back();
  auto readsRows = [&](llvm::function_ref<bool(Operation *)> follows) {
    return llvm::any_of(dependencies({lossOf(forward)}, follows),
                        [&](Value value) {
                          auto rows = value.getDefiningOp<EmbeddingOp>();
                          return rows && skipMoves(rows.getIds()) == ids;
                        });
  };
  return readsRows([](Operation *) { return true; }) &&
         !readsRows([&](Operation *op) { return !takesLast(op, positions); });
}

/// Returns the type of the numbers into which all ops convert an input of
/// integers.
std::optional<rt::DType> convertedTo(Value input) {
  std::optional<rt::DType> type;
  for (Operation *user : input.getUsers()) {
    std::optional<rt::DType> found;
    if (isa<ReshapeOp, TransposeOp, SliceOp, BroadcastOp>(user))
      found = convertedTo(user->getResult(0));
    else if (isa<ConvertOp>(user) &&
             isFloatTensor(user->getResult(0).getType()))
      found = codegen::dtypeOf(elementTypeOf(user->getResult(0)));
    if (!found || (type && found != type))
      return std::nullopt;
    type = found;
  }
  return type;
}

/// Sets `shift` and `scale` if the model begins with a line (x - shift) * scale
/// over the input, of constants or weights that are not trained.
void addLine(Value input, rt::Dependence &found) {
  double factor = 1, added = 0; // of factor * x + added
  Value value = input;
  while (value.hasOneUse()) {
    Operation *user = *value.getUsers().begin();
    if (auto binary = dyn_cast<BinaryOp>(user)) {
      const bool isFirst = binary.getA() == value;
      const BinaryKind kind = binary.getKind();
      const std::optional<double> other =
          knownMean(isFirst ? binary.getB() : binary.getA(),
                    kind == BinaryKind::mul || kind == BinaryKind::div);
      if (!other || (kind == BinaryKind::div && (!isFirst || *other == 0)))
        break;
      if (kind == BinaryKind::mul || kind == BinaryKind::div) {
        const double by = kind == BinaryKind::mul ? *other : 1 / *other;
        factor *= by;
        added *= by;
      } else if (kind == BinaryKind::add) {
        added += *other;
      } else if (kind == BinaryKind::sub && isFirst) {
        added -= *other;
      } else {
        break;
      }
    } else if (!isa<ConvertOp, ReshapeOp, TransposeOp, BroadcastOp>(user)) {
      break;
    }
    value = user->getResult(0);
  }
  if (factor == 1 || factor == 0)
    return;
  found.scale = factor;
  found.shift = -added / factor;
}

/// Returns the weights that the loss looks up for the labels of an input.
std::vector<double> classWeights(func::FuncOp forward, BlockArgument labels) {
  EmbeddingOp rows = classWeightsOf(forward, labels);
  if (!rows)
    return {};
  std::vector<double> weights = knownValues(rows.getTable());
  return static_cast<int64_t>(weights.size()) == shapeOf(rows.getTable())[0]
             ? weights
             : std::vector<double>();
}

/// Returns the weight 1 of negative targets and the one of positive targets, of
/// a binary cross entropy that multiplies them by that weight minus 1.
std::vector<double> weightsOfPositives(BlockArgument targets) {
  for (Operation *user : targets.getUsers()) {
    auto product = dyn_cast<BinaryOp>(user);
    if (!product || product.getKind() != BinaryKind::mul)
      continue;
    for (auto [target, factor] : operandOrders(product)) {
      auto less =
          repeatedSource(skipMoves(factor)).source.getDefiningOp<BinaryOp>();
      if (target != targets || !less || less.getKind() != BinaryKind::sub ||
          !isSplatNear(less.getB(), 1))
        continue;
      std::vector<double> weights = knownValues(less.getA());
      if (weights.size() == 1)
        return {1, weights.front()};
    }
  }
  return {};
}

/// Returns the dimension of the classes if `value` is the logarithm of a
/// softmax: x - log(sum(exp(x))).
std::optional<int64_t> classesOf(Value value) {
  auto difference = binaryOf(value, BinaryKind::sub);
  if (!difference)
    return std::nullopt;
  Value normalizer = repeatedSource(difference.getB()).source;
  auto logarithm = unaryOf(normalizer, UnaryKind::log);
  auto sum = logarithm ? skipMoves(logarithm.getX()).getDefiningOp<ReduceOp>()
                       : nullptr;
  if (!sum || sum.getKind() != ReduceKind::sum || sum.getDims().size() != 1)
    return std::nullopt;
  auto exponential = unaryOf(sum.getX(), UnaryKind::exp);
  if (!exponential || exponential.getX() != difference.getA())
    return std::nullopt;
  return sum.getDims().front();
}

/// Returns the dimension of the classes of targets that the loss multiplies by
/// the logarithms of a softmax.
std::optional<int64_t> classDimOf(Value targets) {
  for (Operation *user : targets.getUsers()) {
    if (isa<ConvertOp>(user))
      if (std::optional<int64_t> dim = classDimOf(user->getResult(0)))
        return dim;
    auto product = dyn_cast<BinaryOp>(user);
    if (!product || product.getKind() != BinaryKind::mul)
      continue;
    for (auto [target, scores] : operandOrders(product))
      if (target == targets)
        if (std::optional<int64_t> dim = classesOf(scores))
          return dim;
  }
  return std::nullopt;
}

void addReadsOf(func::FuncOp forward, BlockArgument input,
                rt::Dependence &found) {
  if (isFloatTensor(input.getType())) {
    addLine(input, found);
    found.classWeights = weightsOfPositives(input);
    found.classDim = classDimOf(input);
    return;
  }
  found.convertedTo = convertedTo(input);
  found.classWeights = classWeights(forward, input);
  if (shapeOf(input).size() == 2) {
    found.padding = paddingOf(forward, input);
    found.readsLast = readsLast(forward, input);
  }
}

} // namespace

void addReads(func::FuncOp forward,
              std::map<std::string, rt::Dependence> &inputs) {
  for (BlockArgument argument : forward.getArguments())
    if (roleOf(argument) == role::kInput && !nameOf(argument).empty() &&
        isa<RankedTensorType>(argument.getType()))
      addReadsOf(forward, argument, inputs[nameOf(argument)]);
  if (std::optional<MeanOfLabels> mean = meanOfAllLabels(forward))
    inputs[nameOf(mean->labels)].countedBy = mean->output;
}

} // namespace dpc
