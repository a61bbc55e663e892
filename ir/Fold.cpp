//===- Fold.cpp - Folders of the dpc ops ----------------------------------===//
//
// A fold never changes the type of a value, its encoding included:
//   * folding to an operand needs the operand's type to be the result's;
//   * folding to a constant keeps the result type (materializeConstant gives
//     it an unencoded value and the result's encoding); values that are partial
//     are left alone, as a constant is never a partial sum;
//   * folds that rewire operands are for unencoded ops, where no sharding rule
//     can break.
//
// Elementwise folds compute in double and round once to the element type,
// which for f32 is the exactly rounded result of + - * / and sqrt.
//
//===----------------------------------------------------------------------===//
#include "ir/Dialect.h"
#include "ir/ScalarSemantics.h"
#include "ir/Sharding.h"
#include "ir/StopGradient.h"

#include "mlir/IR/Matchers.h"

using namespace dpc;
using llvm::APFloat;
using llvm::APInt;
using llvm::ArrayRef;
using mlir::Attribute;
using mlir::DenseElementsAttr;
using mlir::FloatType;
using mlir::IntegerType;
using mlir::OpFoldResult;
using mlir::RankedTensorType;
using mlir::Value;

/// Largest constant that is computed at compile time; splats have no limit.
static constexpr int64_t kMaxFoldedElements = 4096;

mlir::Operation *DpcDialect::materializeConstant(mlir::OpBuilder &builder,
                                                 Attribute value,
                                                 mlir::Type type,
                                                 mlir::Location loc) {
  auto elements = mlir::dyn_cast<mlir::ElementsAttr>(value);
  auto tensor = mlir::dyn_cast<RankedTensorType>(type);
  if (!elements || !tensor || elements.getType() != withoutSharding(tensor))
    return nullptr;
  return ConstantOp::create(builder, loc, tensor, elements);
}

/// True when a value of `type` may be replaced by a constant.
static bool canBeConstant(RankedTensorType type) {
  if (!type.getEncoding())
    return true;
  ShardingAttr sharding = getSharding(type);
  return sharding && sharding.getPartialAxes().empty();
}

/// `attr` when it is small or a splat, else null.
static DenseElementsAttr foldable(Attribute attr) {
  auto dense = mlir::dyn_cast_if_present<DenseElementsAttr>(attr);
  if (!dense || dense.getNumElements() == 0)
    return nullptr;
  if (!mlir::isa<FloatType, IntegerType>(dense.getElementType()))
    return nullptr;
  if (!dense.isSplat() && dense.getNumElements() > kMaxFoldedElements)
    return nullptr;
  return dense;
}

/// True when `attr` is a splat of `value`.
static bool isSplatOf(Attribute attr, double value) {
  auto dense = mlir::dyn_cast_if_present<DenseElementsAttr>(attr);
  if (!dense || !dense.isSplat())
    return false;
  if (mlir::isa<FloatType>(dense.getElementType()))
    return dense.getSplatValue<APFloat>().convertToDouble() == value;
  auto type = mlir::dyn_cast<IntegerType>(dense.getElementType());
  if (!type)
    return false;
  APInt integer = dense.getSplatValue<APInt>();
  bool isUnsigned = type.isUnsigned() || type.getWidth() == 1;
  return (isUnsigned ? integer.roundToDouble(/*isSigned=*/false)
                     : integer.roundToDouble(/*isSigned=*/true)) == value;
}

//===----------------------------------------------------------------------===//
// Scalars
//===----------------------------------------------------------------------===//

/// `value` rounded to `type`.
static APFloat roundTo(FloatType type, double value) {
  APFloat result(value);
  bool losesInfo;
  result.convert(type.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                 &losesInfo);
  return result;
}

/// i1 and unsigned types count from zero, all others are signed.
static bool isUnsigned(mlir::Type type) {
  auto integer = mlir::cast<IntegerType>(type);
  return integer.isUnsigned() || integer.getWidth() == 1;
}

//===----------------------------------------------------------------------===//
// Elementwise ops
//===----------------------------------------------------------------------===//

/// Number of values to compute for a result of `type` from `operands`: one
/// when all are splats.
static int64_t valuesToCompute(ArrayRef<DenseElementsAttr> operands) {
  bool allSplat = llvm::all_of(
      operands, [](DenseElementsAttr operand) { return operand.isSplat(); });
  return allSplat ? 1 : operands.front().getNumElements();
}

/// Element `i` of `attr`, cheap for splats.
template <typename T> static T elementAt(DenseElementsAttr attr, int64_t i) {
  return attr.isSplat() ? attr.getSplatValue<T>() : attr.getValues<T>()[i];
}

/// The constant of `type` whose element i is `compute(i)`; null when one of
/// them is nullopt.
template <typename T, typename Compute>
static DenseElementsAttr buildConstant(RankedTensorType type, int64_t count,
                                       Compute compute) {
  llvm::SmallVector<T> values;
  values.reserve(count);
  for (int64_t i = 0; i < count; ++i) {
    std::optional<T> value = compute(i);
    if (!value)
      return nullptr;
    values.push_back(std::move(*value));
  }
  return DenseElementsAttr::get(withoutSharding(type), values);
}

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }

OpFoldResult UnaryOp::fold(FoldAdaptor adaptor) {
  DenseElementsAttr x = foldable(adaptor.getX());
  if (!x || !canBeConstant(getType()))
    return nullptr;
  int64_t count = valuesToCompute({x});
  mlir::Type element = x.getElementType();
  if (auto type = mlir::dyn_cast<FloatType>(element))
    return buildConstant<APFloat>(
        getType(), count, [&](int64_t i) -> std::optional<APFloat> {
          double value = elementAt<APFloat>(x, i).convertToDouble();
          return roundTo(type, evaluate(getKind(), value));
        });
  return buildConstant<APInt>(getType(), count, [&](int64_t i) {
    return evaluate(getKind(), elementAt<APInt>(x, i), isUnsigned(element));
  });
}

/// The operand that `op` returns unchanged because the other one is neutral,
/// or null.
static Value foldNeutral(BinaryOp op, Attribute a, Attribute b) {
  switch (op.getKind()) {
  case BinaryKind::add: // x + 0.0 differs from x only for x = -0.0
    return isSplatOf(b, 0.0)   ? op.getA()
           : isSplatOf(a, 0.0) ? op.getB()
                               : Value();
  case BinaryKind::sub:
    return isSplatOf(b, 0.0) ? op.getA() : Value();
  case BinaryKind::mul:
    return isSplatOf(b, 1.0)   ? op.getA()
           : isSplatOf(a, 1.0) ? op.getB()
                               : Value();
  case BinaryKind::div:
  case BinaryKind::pow:
    return isSplatOf(b, 1.0) ? op.getA() : Value();
  case BinaryKind::logical_and: // 1 has all bits of i1 only
    if (!op.getType().getElementType().isInteger(1))
      return Value();
    return isSplatOf(b, 1.0)   ? op.getA()
           : isSplatOf(a, 1.0) ? op.getB()
                               : Value();
  case BinaryKind::logical_or:
  case BinaryKind::logical_xor:
    return isSplatOf(b, 0.0)   ? op.getA()
           : isSplatOf(a, 0.0) ? op.getB()
                               : Value();
  default:
    return Value();
  }
}

OpFoldResult BinaryOp::fold(FoldAdaptor adaptor) {
  Value neutral = foldNeutral(*this, adaptor.getA(), adaptor.getB());
  if (neutral && neutral.getType() == getType())
    return neutral;
  DenseElementsAttr a = foldable(adaptor.getA());
  DenseElementsAttr b = foldable(adaptor.getB());
  if (!a || !b || !canBeConstant(getType()))
    return nullptr;
  int64_t count = valuesToCompute({a, b});
  mlir::Type element = a.getElementType();
  if (auto type = mlir::dyn_cast<FloatType>(element))
    return buildConstant<APFloat>(
        getType(), count, [&](int64_t i) -> std::optional<APFloat> {
          return roundTo(type,
                         evaluate(getKind(),
                                  elementAt<APFloat>(a, i).convertToDouble(),
                                  elementAt<APFloat>(b, i).convertToDouble()));
        });
  return buildConstant<APInt>(getType(), count, [&](int64_t i) {
    return evaluate(getKind(), elementAt<APInt>(a, i), elementAt<APInt>(b, i),
                    isUnsigned(element));
  });
}

//===----------------------------------------------------------------------===//
// Convert
//===----------------------------------------------------------------------===//

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

/// Nullopt for NaN and for what `type` cannot hold.
static std::optional<APInt> toInteger(IntegerType type, const APFloat &value) {
  if (type.getWidth() == 1)
    return APInt(1, !value.isZero());
  llvm::APSInt result(type.getWidth(), isUnsigned(type));
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

OpFoldResult ConvertOp::fold(FoldAdaptor adaptor) {
  if (stopsGradient(*this))
    return nullptr;
  if (getX().getType() == getType())
    return getX();
  DenseElementsAttr x = foldable(adaptor.getX());
  if (!x || !canBeConstant(getType()))
    return nullptr;
  int64_t count = valuesToCompute({x});
  mlir::Type from = x.getElementType();
  bool fromFloat = mlir::isa<FloatType>(from);
  if (auto type = mlir::dyn_cast<FloatType>(getType().getElementType()))
    return buildConstant<APFloat>(
        getType(), count, [&](int64_t i) -> std::optional<APFloat> {
          if (fromFloat)
            return toFloat(type, elementAt<APFloat>(x, i));
          return toFloat(type, elementAt<APInt>(x, i), isUnsigned(from));
        });
  auto type = mlir::cast<IntegerType>(getType().getElementType());
  return buildConstant<APInt>(
      getType(), count, [&](int64_t i) -> std::optional<APInt> {
        if (fromFloat)
          return toInteger(type, elementAt<APFloat>(x, i));
        return toInteger(type, elementAt<APInt>(x, i), isUnsigned(from));
      });
}

//===----------------------------------------------------------------------===//
// Data movement
//===----------------------------------------------------------------------===//

/// The splat of `attr`'s value with the shape of `type`; null when `attr` is
/// no splat or `type` can be no constant.
static DenseElementsAttr resizeSplat(Attribute attr, RankedTensorType type) {
  auto dense = mlir::dyn_cast_if_present<DenseElementsAttr>(attr);
  if (!dense || !dense.isSplat() || !canBeConstant(type))
    return nullptr;
  return dense.resizeSplat(withoutSharding(type));
}

/// True when neither operand nor result of a one-operand `op` has an encoding,
/// so that its operand may be replaced by another value.
static bool isUnencoded(mlir::Operation *op) {
  return !getSharding(op->getOperand(0).getType()) &&
         !getSharding(op->getResult(0).getType());
}

OpFoldResult BroadcastOp::fold(FoldAdaptor adaptor) {
  // Strictly increasing dims of an equal rank are the identity.
  if (getX().getType() == getType())
    return getX();
  return resizeSplat(adaptor.getX(), getType());
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

OpFoldResult SliceOp::fold(FoldAdaptor adaptor) {
  // A slice of the whole shape starts at 0 and, where it matters, steps by 1.
  if (getX().getType() == getType())
    return getX();
  return resizeSplat(adaptor.getX(), getType());
}

OpFoldResult ReshardOp::fold(FoldAdaptor adaptor) {
  if (getX().getType() == getType())
    return getX();
  auto value = mlir::dyn_cast_if_present<mlir::ElementsAttr>(adaptor.getX());
  if (!value || !canBeConstant(getX().getType()) || !canBeConstant(getType()))
    return nullptr;
  return value;
}
