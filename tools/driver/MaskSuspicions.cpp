//===- MaskSuspicions.cpp - Masks of attention that are mistakes ----------===//
#include "ir/NodeName.h"
#include "passes/graph/Match.h"
#include "tools/driver/Suspicions.h"
#include "tools/driver/WeightFacts.h"

using namespace mlir;

namespace dpc {

/// Adding this number or less to a score hides the key.
static constexpr double kHidden = -1e3;
/// The longest chain of ops of a mask that is followed.
static constexpr int kMaxDepth = 16;

static std::optional<bool> isKept(Value mask, int64_t t, int64_t s) {
  ArrayRef<int64_t> shape = shapeOf(mask);
  std::optional<double> element =
      elementAt(mask, {0, 0, std::min(t, shape[2] - 1), s});
  return element ? std::optional(*element > kHidden) : std::nullopt;
}

/// Returns d if `mask` keeps exactly the keys s < t + d. Looks at some rows.
static std::optional<int64_t> bandOf(Value mask) {
  ArrayRef<int64_t> shape = shapeOf(mask);
  int64_t size = shape[3];
  if (shape[2] != size || size < 4)
    return std::nullopt;
  std::optional<int64_t> band;
  for (int64_t t : {int64_t(0), int64_t(1), size / 2}) {
    int64_t count = 0;
    for (int64_t s = 0; s < size; ++s) {
      std::optional<bool> kept = isKept(mask, t, s);
      if (!kept || (*kept && count != s))
        return std::nullopt;
      count += *kept ? 1 : 0;
    }
    if (count == size || (band && band != count - t))
      return std::nullopt;
    band = count - t;
  }
  return band;
}

static std::optional<int64_t> bandOf(Operation *op) {
  auto attention = dyn_cast<AttentionOp>(op);
  return attention && attention.getMask() && !attention.getCausal()
             ? bandOf(attention.getMask())
             : std::nullopt;
}

Detail keepsNext(Operation *op, const SuspectModel &) {
  return bandOf(op) == 2 ? Detail("") : std::nullopt;
}

Detail hidesItself(Operation *op, const SuspectModel &) {
  return bandOf(op) == 0 ? Detail("") : std::nullopt;
}

/// Whether the elements are 0 and 1, and both occur.
static bool isZeroOne(DenseElementsAttr values) {
  if (!isa<FloatType>(values.getElementType()) || values.isSplat())
    return false;
  return llvm::all_of(values.getValues<APFloat>(), [](const APFloat &value) {
    return value.isZero() || value.isExactlyValue(1.0);
  });
}

/// Whether the file of a buffer has only 0 and 1 as its values, and both.
static bool isZeroOneBuffer(BlockArgument argument) {
  if (roleOf(argument) != role::kBuffer)
    return false;
  std::vector<float> values = valuesInFile(argument);
  auto zeros = llvm::count(values, 0.0F), ones = llvm::count(values, 1.0F);
  return zeros > 0 && ones > 0 &&
         static_cast<size_t>(zeros + ones) == values.size();
}

static bool isZeroOne(Value value, int depth = 0) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return isZeroOneBuffer(argument);
  Operation *op = value.getDefiningOp();
  if (depth > kMaxDepth)
    return false;
  if (isa<ReshapeOp, TransposeOp, BroadcastOp, SliceOp>(op))
    return isZeroOne(op->getOperand(0), depth + 1);
  if (auto constant = dyn_cast<ConstantOp>(op)) {
    auto values = dyn_cast<DenseElementsAttr>(constant.getValue());
    return values && isZeroOne(values);
  }
  if (auto convert = dyn_cast<ConvertOp>(op)) {
    Type from = elementTypeOf(convert.getX());
    return from.isInteger(1) ||
           (isa<FloatType>(from) && isZeroOne(convert.getX(), depth + 1));
  }
  if (auto select = dyn_cast<SelectOp>(op)) {
    std::optional<double> a = splatValue(select.getOnTrue()),
                          b = splatValue(select.getOnFalse());
    return (a == 0.0 && b == 1.0) || (a == 1.0 && b == 0.0);
  }
  auto binary = dyn_cast<BinaryOp>(op);
  return binary && binary.getKind() == BinaryKind::sub &&
         splatValue(binary.getA()) == 1.0 &&
         isZeroOne(binary.getB(), depth + 1);
}

/// Returns what is added to the scores of an attention, or null. An attention
/// that is not fused is a softmax before a matmul.
static SmallVector<Value> addends(Operation *op) {
  if (auto attention = dyn_cast<AttentionOp>(op))
    return attention.getMask() ? SmallVector<Value>{attention.getMask()}
                               : SmallVector<Value>();
  auto softmax = dyn_cast<SoftmaxOp>(op);
  if (!softmax || llvm::none_of(op->getUsers(), llvm::IsaPred<MatmulOp>))
    return {};
  BinaryOp sum = binaryOf(skipConverts(softmax.getX()), BinaryKind::add);
  return sum ? SmallVector<Value>{sum.getA(), sum.getB()}
             : SmallVector<Value>();
}

/// Whether `value` has the integers of an input as floats.
static bool isIntegerInput(Value value) {
  bool converts = false;
  while (
      isa_and_present<ReshapeOp, TransposeOp, BroadcastOp, SliceOp, ConvertOp>(
          value.getDefiningOp())) {
    Value from = value.getDefiningOp()->getOperand(0);
    converts |=
        elementTypeOf(from).isInteger() && isFloatTensor(value.getType());
    value = from;
  }
  return converts && roleOf(value) == role::kInput;
}

Detail addsZeroOne(Operation *op, const SuspectModel &) {
  for (Value value : addends(op))
    if (bool isInput = isIntegerInput(value); isInput || isZeroOne(value))
      return isInput ? "the integers of an input" : "a mask of 0 and 1";
  return std::nullopt;
}

} // namespace dpc
