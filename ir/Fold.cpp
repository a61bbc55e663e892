//===- Fold.cpp - Folders of the dpc ops ----------------------------------===//
//
// A fold never changes the type of a value, including its encoding:
//   * An op folds to an operand only if both have the same type.
//   * An op folds to a constant of the result type. A fold returns elements
//     without an encoding, from which materializeConstant creates a ConstantOp
//     with the encoding. Partial values do not fold, because a constant is
//     never a partial sum.
//   * Operands are replaced only in ops without encodings, where no sharding
//     rule applies.
//
// Elementwise folds compute in double and round once to the element type. For
// f32 this is the exactly rounded result of + - * / and sqrt.
//
//===----------------------------------------------------------------------===//
#include "ir/ScalarSemantics.h"
#include "ir/Sharding.h"
#include "ir/StopGradient.h"
#include "ir/TensorUtils.h"

using namespace mlir;
using namespace dpc;

/// The largest constant that is computed at compile time. Splats have no limit.
static constexpr int64_t kMaxFoldedElements = 4096;

Operation *DpcDialect::materializeConstant(OpBuilder &builder, Attribute value,
                                           Type type, Location loc) {
  auto elements = dyn_cast<ElementsAttr>(value);
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!elements || !tensor || elements.getType() != withoutSharding(tensor))
    return nullptr;
  return ConstantOp::create(builder, loc, tensor, elements);
}

static bool canBeConstant(RankedTensorType type) {
  if (!type.getEncoding())
    return true;
  ShardingAttr sharding = getSharding(type);
  return sharding && sharding.getPartialAxes().empty();
}

static DenseElementsAttr foldable(Attribute attr) {
  auto dense = dyn_cast_if_present<DenseElementsAttr>(attr);
  if (!dense || dense.getNumElements() == 0 ||
      !isa<FloatType, IntegerType>(dense.getElementType()) ||
      (!dense.isSplat() && dense.getNumElements() > kMaxFoldedElements))
    return nullptr;
  return dense;
}

/// True for i1 and unsigned types. All other integers are signed.
static bool isUnsigned(Type type) {
  auto integer = cast<IntegerType>(type);
  return integer.isUnsigned() || integer.getWidth() == 1;
}

static bool isSplatOf(Attribute attr, double value) {
  auto dense = dyn_cast_if_present<DenseElementsAttr>(attr);
  if (!dense || !dense.isSplat())
    return false;
  Type type = dense.getElementType();
  if (isa<FloatType>(type))
    return dense.getSplatValue<APFloat>().convertToDouble() == value;
  return isa<IntegerType>(type) &&
         dense.getSplatValue<APInt>().roundToDouble(!isUnsigned(type)) == value;
}

static APFloat toFloat(FloatType type, APFloat value) {
  bool losesInfo;
  value.convert(type.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                &losesInfo);
  return value;
}

static APFloat toFloat(FloatType type, const APInt &value, bool isUnsigned) {
  APFloat result(type.getFloatSemantics());
  result.convertFromAPInt(value, !isUnsigned, APFloat::rmNearestTiesToEven);
  return result;
}

/// Returns nullopt for NaN and for values outside the range of `type`.
static std::optional<APInt> toInteger(IntegerType type, const APFloat &value) {
  if (type.getWidth() == 1)
    return APInt(1, !value.isZero());
  APSInt result(type.getWidth(), isUnsigned(type));
  bool isExact;
  if (value.convertToInteger(result, APFloat::rmTowardZero, &isExact) &
      APFloat::opInvalidOp)
    return std::nullopt;
  return result;
}

static APInt toInteger(IntegerType type, const APInt &value, bool isUnsigned) {
  if (type.getWidth() == 1)
    return APInt(1, !value.isZero());
  return isUnsigned ? value.zextOrTrunc(type.getWidth())
                    : value.sextOrTrunc(type.getWidth());
}

template <typename T> static T elementAt(DenseElementsAttr attr, int64_t i) {
  return attr.isSplat() ? attr.getSplatValue<T>() : attr.getValues<T>()[i];
}

/// Returns a constant whose element i is `compute(i)`. If all `operands` are
/// splats, `compute` is called only once. Returns null if an element is
/// nullopt.
template <typename T, typename Compute>
static DenseElementsAttr buildConstant(RankedTensorType type,
                                       ArrayRef<DenseElementsAttr> operands,
                                       Compute compute) {
  bool allSplat = llvm::all_of(
      operands, [](DenseElementsAttr operand) { return operand.isSplat(); });
  int64_t count = allSplat ? 1 : operands.front().getNumElements();
  SmallVector<T> values;
  values.reserve(count);
  for (int64_t i = 0; i < count; ++i) {
    std::optional<T> value = compute(i);
    if (!value)
      return nullptr;
    values.push_back(std::move(*value));
  }
  return DenseElementsAttr::get(withoutSharding(type), values);
}

/// Evaluates `op` on constant operands. Null if an operand `x` is null.
template <typename Op, typename... Operands>
static OpFoldResult foldElementwise(Op op, Operands... x) {
  if ((!x || ...) || !canBeConstant(op.getType()))
    return nullptr;
  Type element = elementTypeOf(op->getOperand(0));
  if (auto type = dyn_cast<FloatType>(element))
    return buildConstant<APFloat>(
        op.getType(), {x...}, [&](int64_t i) -> std::optional<APFloat> {
          double value = evaluate(
              op.getKind(), elementAt<APFloat>(x, i).convertToDouble()...);
          return toFloat(type, APFloat(value));
        });
  return buildConstant<APInt>(op.getType(), {x...}, [&](int64_t i) {
    return evaluate(op.getKind(), elementAt<APInt>(x, i)...,
                    isUnsigned(element));
  });
}

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }

OpFoldResult UnaryOp::fold(FoldAdaptor adaptor) {
  return foldElementwise(*this, foldable(adaptor.getX()));
}

/// Returns x for x + 0 and x * 1, else null.
static Value foldNeutral(BinaryOp op, Attribute a, Attribute b) {
  auto ifRightIs = [&](double neutral) {
    return isSplatOf(b, neutral) ? op.getA() : Value();
  };
  auto ifEitherIs = [&](double neutral) {
    return isSplatOf(b, neutral)   ? op.getA()
           : isSplatOf(a, neutral) ? op.getB()
                                   : Value();
  };
  switch (op.getKind()) {
  case BinaryKind::add: // x + 0.0 != x only for x = -0.0
  case BinaryKind::logical_or:
  case BinaryKind::logical_xor:
    return ifEitherIs(0.0);
  case BinaryKind::sub:
    return ifRightIs(0.0);
  case BinaryKind::mul:
    return ifEitherIs(1.0);
  case BinaryKind::div:
  case BinaryKind::pow:
    return ifRightIs(1.0);
  case BinaryKind::logical_and: // 1 has all bits set only in i1
    return elementTypeOf(op).isInteger(1) ? ifEitherIs(1.0) : Value();
  default:
    return Value();
  }
}

OpFoldResult BinaryOp::fold(FoldAdaptor adaptor) {
  Value neutral = foldNeutral(*this, adaptor.getA(), adaptor.getB());
  if (neutral && neutral.getType() == getType())
    return neutral;
  return foldElementwise(*this, foldable(adaptor.getA()),
                         foldable(adaptor.getB()));
}

OpFoldResult ConvertOp::fold(FoldAdaptor adaptor) {
  if (stopsGradient(*this))
    return nullptr;
  if (getX().getType() == getType())
    return getX();
  DenseElementsAttr x = foldable(adaptor.getX());
  if (!x || !canBeConstant(getType()))
    return nullptr;
  Type from = x.getElementType();
  bool fromFloat = isa<FloatType>(from);
  if (auto type = dyn_cast<FloatType>(getType().getElementType()))
    return buildConstant<APFloat>(
        getType(), {x}, [&](int64_t i) -> std::optional<APFloat> {
          if (fromFloat)
            return toFloat(type, elementAt<APFloat>(x, i));
          return toFloat(type, elementAt<APInt>(x, i), isUnsigned(from));
        });
  auto type = cast<IntegerType>(getType().getElementType());
  return buildConstant<APInt>(
      getType(), {x}, [&](int64_t i) -> std::optional<APInt> {
        if (fromFloat)
          return toInteger(type, elementAt<APFloat>(x, i));
        return toInteger(type, elementAt<APInt>(x, i), isUnsigned(from));
      });
}

/// Null if `attr` is not a splat or `type` cannot be a constant.
static DenseElementsAttr resizeSplat(Attribute attr, RankedTensorType type) {
  auto dense = dyn_cast_if_present<DenseElementsAttr>(attr);
  if (!dense || !dense.isSplat() || !canBeConstant(type))
    return nullptr;
  return dense.resizeSplat(withoutSharding(type));
}

static bool isUnencoded(Operation *op) {
  return !getSharding(op->getOperand(0).getType()) &&
         !getSharding(op->getResult(0).getType());
}

/// Folds data movement whose operand has the constant value `attr`: returns the
/// operand if its type is the result type, else a splat in the result type.
template <typename Op> static OpFoldResult foldMove(Op op, Attribute attr) {
  if (op.getX().getType() == op.getType())
    return op.getX();
  return resizeSplat(attr, op.getType());
}

// Equal types make this the identity, because the dims increase strictly.
OpFoldResult BroadcastOp::fold(FoldAdaptor adaptor) {
  return foldMove(*this, adaptor.getX());
}

// Equal types make this the identity: all offsets are 0, and strides are 1 in
// each dimension with more than one element.
OpFoldResult SliceOp::fold(FoldAdaptor adaptor) {
  return foldMove(*this, adaptor.getX());
}

OpFoldResult ReshapeOp::fold(FoldAdaptor adaptor) {
  if (getX().getType() == getType())
    return getX();
  if (auto producer = getX().getDefiningOp<ReshapeOp>()) {
    if (producer.getX().getType() == getType())
      return producer.getX();
    if (isUnencoded(*this) && isUnencoded(producer)) {
      getXMutable().assign(producer.getX());
      return getResult();
    }
  }
  if (DenseElementsAttr splat = resizeSplat(adaptor.getX(), getType()))
    return splat;
  DenseElementsAttr x = foldable(adaptor.getX());
  if (!x || !canBeConstant(getType()))
    return nullptr;
  return x.reshape(withoutSharding(getType()));
}

OpFoldResult TransposeOp::fold(FoldAdaptor adaptor) {
  auto isIdentity = [](ArrayRef<int64_t> perm) {
    return llvm::equal(perm, llvm::seq<int64_t>(0, perm.size()));
  };
  if (isIdentity(getPerm()) && getX().getType() == getType())
    return getX();
  if (auto producer = getX().getDefiningOp<TransposeOp>()) {
    auto perm = llvm::map_to_vector(
        getPerm(), [&](int64_t dim) { return producer.getPerm()[dim]; });
    if (isIdentity(perm) && producer.getX().getType() == getType())
      return producer.getX();
    if (isUnencoded(*this) && isUnencoded(producer)) {
      setPerm(perm);
      getXMutable().assign(producer.getX());
      return getResult();
    }
  }
  return resizeSplat(adaptor.getX(), getType());
}

OpFoldResult ReshardOp::fold(FoldAdaptor adaptor) {
  if (getX().getType() == getType())
    return getX();
  auto value = dyn_cast_if_present<ElementsAttr>(adaptor.getX());
  if (!value || !canBeConstant(getX().getType()) || !canBeConstant(getType()))
    return nullptr;
  return value;
}
