//===- ScoreSuspicions.cpp - Scores of classes that are mistakes ----------===//
#include "ir/NodeName.h"
#include "passes/graph/Match.h"
#include "tools/driver/Comparisons.h"
#include "tools/driver/Suspicions.h"
#include "tools/driver/WeightFacts.h"

#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace mlir;

namespace dpc {

/// Returns the values of which `norm` is the root of the sum of squares over
/// `dim`, where small numbers may be added or kept away; or null.
static Value normedBy(Value norm, int64_t &dim) {
  bool hasRoot = false;
  for (Value value = skipMoves(norm); Operation *op = value.getDefiningOp();) {
    auto binary = dyn_cast<BinaryOp>(op);
    auto select = dyn_cast<SelectOp>(op);
    auto sum = dyn_cast<ReduceOp>(op);
    if (sum && hasRoot) {
      BinaryOp square = binaryOf(sum.getX(), BinaryKind::mul);
      dim = sum.getDims().front();
      return sum.getKind() == ReduceKind::sum && sum.getDims().size() == 1 &&
                     square && square.getA() == square.getB()
                 ? square.getA()
                 : Value();
    }
    if (unaryOf(value, UnaryKind::sqrt)) {
      hasRoot = true;
      value = op->getOperand(0);
    } else if (binary && (binary.getKind() == BinaryKind::maximum ||
                          binary.getKind() == BinaryKind::add)) {
      value = otherOperand(binary, splatValue);
    } else if (select) {
      value = splatValue(select.getOnTrue()) ? select.getOnFalse()
                                             : select.getOnTrue();
    } else {
      return nullptr;
    }
    if (!value)
      return nullptr;
    value = skipMoves(value);
  }
  return nullptr;
}

/// Whether `value` is divided by its norm over `dim`, or over any dimension if
/// that is -1.
static bool isUnit(Value value, int64_t dim) {
  BinaryOp share = binaryOf(value, BinaryKind::div);
  int64_t own = -1;
  return share && normedBy(share.getB(), own) == share.getA() &&
         (dim < 0 || own == dim);
}

/// Whether the elements of `value` are cosines, or those of unit vectors.
static bool areCosines(Value value) {
  auto product = value.getDefiningOp<MatmulOp>();
  if (!product)
    return isUnit(value, -1);
  auto last = [](Value operand) {
    return static_cast<int64_t>(shapeOf(operand).size()) - 1;
  };
  Value a = product.getA(), b = product.getB();
  return isUnit(a, product.getTa() ? last(a) - 1 : last(a)) &&
         isUnit(b, product.getTb() ? last(b) : last(b) - 1);
}

Detail getsBounded(Operation *op, const SuspectModel &) {
  constexpr double kSmallScale = 3, kHighLoss = 0.1;
  auto loss = dyn_cast<CrossEntropyOp>(op);
  if (!loss)
    return std::nullopt;
  Value scores = skipMoves(loss.getLogits());
  double factor = 1;
  if (Value scaled = scaledValue(scores, factor))
    scores = skipMoves(scaled);
  const double most = std::abs(factor);
  // Contrastive losses divide cosines by a temperature, such as 0.5.
  const bool isBounded = unaryOf(scores, UnaryKind::tanh)
                             ? most <= kSmallScale
                             : most == 1 && areCosines(scores);
  const int64_t classes = shapeOf(loss.getLogits())[1];
  const double least =
      std::log1p(static_cast<double>(classes - 1) * std::exp(-2 * most));
  if (!isBounded || least < kHighLoss)
    return std::nullopt;
  return llvm::formatv("{0}, which are between -{1:f1} and {1:f1}: with {2} "
                       "classes, the loss cannot fall below {3:f2}",
                       nodeOf(scores.getDefiningOp()), most, classes, least)
      .str();
}

/// Whether ops compute `value` from elements of the scores and the labels of
/// `loss` alone.
static bool isOfScores(Value value, CrossEntropyOp loss) {
  return llvm::all_of(
      dependencies({value},
                   [&](Operation *op) {
                     return worksOnElements(op) &&
                            op->getResult(0) != loss.getLogits();
                   }),
      [&](Value one) {
        Operation *op = one.getDefiningOp();
        return one == loss.getLogits() ||
               (op ? worksOnElements(op) || isa<ConstantOp, IotaOp>(op)
                   : one == skipMoves(loss.getLabels()));
      });
}

Detail smoothsMost(Operation *op, const SuspectModel &) {
  constexpr double kEqual = 1e-4, kLeast = 0.5 - kEqual;
  auto loss = dyn_cast<CrossEntropyOp>(op);
  if (!loss)
    return std::nullopt;
  for (Operation *user : loss.getLoss().getUsers()) {
    double own = 1, other = 1;
    if (!isa<BinaryOp>(user) ||
        scaledValue(user->getResult(0), own) != loss.getLoss() || own <= 0 ||
        own >= kLeast || !user->hasOneUse())
      continue;
    BinaryOp sum = dyn_cast<BinaryOp>(*user->user_begin());
    if (!sum || sum.getKind() != BinaryKind::add)
      continue;
    Value rest = sum.getA() == user->getResult(0) ? sum.getB() : sum.getA();
    if (scaledValue(rest, other) && std::abs(own + other - 1) < kEqual &&
        isOfScores(rest, loss))
      return llvm::formatv("{0:f2} (label_smoothing={1:f2})", own, other).str();
  }
  return std::nullopt;
}

/// Returns the log-probabilities from which `op` picks one for each index of an
/// input, and sets `dim` to the dimension of what the index counts.
static Value pickedFrom(Operation *op, int64_t &dim) {
  auto pick = dyn_cast<SelectOp>(op);
  auto hit =
      pick ? pick.getCondition().getDefiningOp<CompareOp>() : CompareOp();
  if (!hit || !hit->hasAttr(attr::kBounded) || !pick->hasOneUse())
    return nullptr;
  auto sum = dyn_cast<ReduceOp>(*pick->user_begin());
  const bool readsInput = llvm::any_of(
      dependencies({hit.getA(), hit.getB()}, [](Operation *) { return true; }),
      [](Value value) { return roleOf(value) == role::kInput; });
  if (!sum || sum.getKind() != ReduceKind::sum || sum.getDims().size() != 1 ||
      !readsInput)
    return nullptr;
  dim = sum.getDims().front();
  return pick.getOnTrue();
}

/// Returns the dimension of the operand of `op`, which moves elements, whose
/// elements are those of dimension `dim` of its result; or -1.
static int64_t dimBefore(Operation *op, int64_t dim) {
  if (auto move = dyn_cast<TransposeOp>(op))
    return move.getPerm()[dim];
  if (auto repeat = dyn_cast<BroadcastOp>(op)) {
    const auto *found = llvm::find(repeat.getDims(), dim);
    return found == repeat.getDims().end() ? -1
                                           : found - repeat.getDims().begin();
  }
  auto unary = dyn_cast<UnaryOp>(op);
  if (isa<ConvertOp>(op) || (unary && unary.getKind() == UnaryKind::neg))
    return dim;
  auto reshape = dyn_cast<ReshapeOp>(op);
  if (!reshape)
    return -1;
  ArrayRef<int64_t> from = shapeOf(reshape.getX()),
                    to = shapeOf(reshape.getResult());
  auto after = [](ArrayRef<int64_t> shape, int64_t dim) {
    return llvm::product_of(shape.drop_front(dim + 1));
  };
  for (int64_t i : llvm::seq<int64_t>(from.size()))
    if (from[i] == to[dim] && after(from, i) == after(to, dim))
      return i;
  return -1;
}

/// Returns the dimension over which `value`, log-probabilities, is normalized,
/// or -1.
static int64_t normalizedDim(Value value) {
  if (UnaryOp log = unaryOf(value, UnaryKind::log))
    return log.getX().getDefiningOp<SoftmaxOp>()
               ? static_cast<int64_t>(shapeOf(value).size()) - 1
               : -1;
  BinaryOp difference = binaryOf(value, BinaryKind::sub);
  UnaryOp log = difference
                    ? unaryOf(skipMoves(difference.getB()), UnaryKind::log)
                    : UnaryOp();
  auto sum =
      log ? skipConverts(log.getX()).getDefiningOp<ReduceOp>() : ReduceOp();
  return sum && sum.getKind() == ReduceKind::sum && sum.getDims().size() == 1 &&
                 unaryOf(sum.getX(), UnaryKind::exp) &&
                 shapeOf(sum.getX()) == shapeOf(value)
             ? sum.getDims().front()
             : -1;
}

/// Whether another choice picks from elements that `op` has picked, as from the
/// scores of some positions.
static bool isPickedFurther(Operation *op) {
  return llvm::any_of(
      op->getParentOfType<func::FuncOp>().getOps<SelectOp>(),
      [&](SelectOp other) {
        int64_t dim = 0;
        Value from = other == op ? Value() : pickedFrom(other, dim);
        return from &&
               dependencies({from}, worksOnElements).contains(op->getResult(0));
      });
}

Detail picksUnnormalized(Operation *op, const SuspectModel &) {
  int64_t dim = 0;
  Value value = pickedFrom(op, dim);
  const int64_t classes = value ? shapeOf(value)[dim] : 0;
  for (; value && dim >= 0; value = value.getDefiningOp()->getOperand(0)) {
    const int64_t other = normalizedDim(value);
    // Of a square, such as all pairs of two batches, either is right.
    if (other >= 0)
      return other != dim && shapeOf(value)[other] != classes &&
                     !isPickedFurther(op)
                 ? Detail(std::to_string(classes) + " classes, but " +
                          nodeOf(value.getDefiningOp()) +
                          " normalizes another dimension, of " +
                          std::to_string(shapeOf(value)[other]) + " elements")
                 : std::nullopt;
    if (!value.getDefiningOp())
      break;
    dim = dimBefore(value.getDefiningOp(), dim);
  }
  return std::nullopt;
}

} // namespace dpc
