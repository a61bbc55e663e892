//===- Match.cpp - Recognizers of values ----------------------------------===//
#include "passes/graph/Match.h"
#include "ir/ScalarSemantics.h"
#include "ir/StopGradient.h"

using namespace mlir;
using namespace dpc;

static constexpr double kConstantTolerance = 1e-6;

static double toDouble(Type elementType, Attribute attr) {
  if (auto number = dyn_cast<FloatAttr>(attr))
    return number.getValueAsDouble();
  APInt value = cast<IntegerAttr>(attr).getValue();
  return elementType.isInteger(1) ? (value.isZero() ? 0.0 : 1.0)
                                  : value.roundToDouble(/*isSigned=*/true);
}

llvm::SetVector<Value>
dpc::dependencies(ArrayRef<Value> roots,
                  function_ref<bool(Operation *)> follows) {
  llvm::SetVector<Value> values(roots.begin(), roots.end());
  for (size_t i = 0; i < values.size(); ++i)
    if (Operation *op = values[i].getDefiningOp(); op && follows(op))
      values.insert(op->operand_begin(), op->operand_end());
  return values;
}

std::optional<double> dpc::splatValue(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (auto constant = dyn_cast<ConstantOp>(op)) {
      auto splat = dyn_cast<SplatElementsAttr>(constant.getValue());
      if (!splat)
        return std::nullopt;
      return toDouble(splat.getElementType(), splat.getSplatValue<Attribute>());
    }
    bool moves = isa<BroadcastOp, ReshapeOp, TransposeOp, SliceOp>(op);
    bool converts = isa<ConvertOp>(op) && isFloatTensor(value.getType());
    if (!moves && !converts)
      return std::nullopt;
    value = op->getOperand(0);
  }
  return std::nullopt;
}

bool dpc::isSplatNear(Value value, double expected) {
  std::optional<double> splat = splatValue(value);
  return splat && std::abs(*splat - expected) <=
                      kConstantTolerance * std::max(std::abs(expected), 1e-30);
}

Value dpc::skipConverts(Value value) {
  while (auto convert = value.getDefiningOp<ConvertOp>()) {
    auto from = dyn_cast<FloatType>(elementTypeOf(convert.getX()));
    auto to = dyn_cast<FloatType>(elementTypeOf(value));
    if (!from || !to || from.getWidth() > to.getWidth() ||
        stopsGradient(convert))
      break;
    value = convert.getX();
  }
  return value;
}

Value dpc::skipMoves(Value value) {
  while (
      isa_and_present<ReshapeOp, TransposeOp, SliceOp, ConvertOp, BroadcastOp>(
          value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value;
}

UnaryOp dpc::unaryOf(Value value, UnaryKind kind) {
  auto op = value ? value.getDefiningOp<UnaryOp>() : UnaryOp();
  return op && op.getKind() == kind ? op : UnaryOp();
}

BinaryOp dpc::binaryOf(Value value, BinaryKind kind) {
  auto op = value ? value.getDefiningOp<BinaryOp>() : BinaryOp();
  return op && op.getKind() == kind ? op : BinaryOp();
}

Value dpc::scaledValue(Value value, double &factor) {
  if (BinaryOp mul = binaryOf(value, BinaryKind::mul)) {
    for (auto [x, c] : operandOrders(mul))
      if (std::optional<double> splat = splatValue(c)) {
        factor = *splat;
        return x;
      }
    return nullptr;
  }
  BinaryOp div = binaryOf(value, BinaryKind::div);
  std::optional<double> splat = div ? splatValue(div.getB()) : std::nullopt;
  if (!splat || *splat == 0.0)
    return nullptr;
  factor = 1.0 / *splat;
  return div.getA();
}

/// If a reshape only adds or removes dimensions of size 1, returns the result
/// dimension of each operand dimension, or -1 where the size is 1. Returns
/// nullopt for other reshapes.
static std::optional<SmallVector<int64_t>> unitReshape(ReshapeOp op) {
  ArrayRef<int64_t> from = shapeOf(op.getX()), to = shapeOf(op.getResult());
  SmallVector<int64_t> dims;
  size_t next = 0;
  for (int64_t size : from) {
    if (size == 1) {
      dims.push_back(-1);
      continue;
    }
    while (next < to.size() && to[next] == 1)
      ++next;
    if (next == to.size() || to[next] != size)
      return std::nullopt;
    dims.push_back(next++);
  }
  return dims;
}

Repeated dpc::repeatedSource(Value value) {
  // Maps each dimension of `value`, which moves from the result to the source,
  // to a dimension of the result, or to -1 if its size is 1.
  SmallVector<int64_t> map;
  for (auto [dim, size] : llvm::enumerate(shapeOf(value)))
    map.push_back(size == 1 ? -1 : static_cast<int64_t>(dim));
  while (Operation *op = value.getDefiningOp()) {
    SmallVector<int64_t> next;
    if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
      for (auto [size, dim] :
           llvm::zip(shapeOf(broadcast.getX()), broadcast.getDims()))
        next.push_back(size == 1 ? -1 : map[dim]);
    } else if (auto reshape = dyn_cast<ReshapeOp>(op)) {
      auto dims = unitReshape(reshape);
      if (!dims)
        break;
      for (int64_t dim : *dims)
        next.push_back(dim < 0 ? -1 : map[dim]);
    } else {
      break;
    }
    map = next;
    value = op->getOperand(0);
  }
  return {value,
          llvm::filter_to_vector(map, [](int64_t dim) { return dim >= 0; })};
}

static int64_t linearIndex(ArrayRef<int64_t> shape, ArrayRef<int64_t> index) {
  int64_t linear = 0;
  for (auto [size, i] : llvm::zip(shape, index))
    linear = linear * size + i;
  return linear;
}

static std::optional<double> constantElement(ConstantOp op,
                                             ArrayRef<int64_t> index) {
  auto dense = dyn_cast<DenseElementsAttr>(op.getValue());
  if (!dense)
    return std::nullopt;
  Type type = dense.getElementType();
  // Masks are large, so elements are not converted to attributes.
  int64_t i =
      dense.isSplat() ? 0 : linearIndex(dense.getType().getShape(), index);
  if (isa<FloatType>(type))
    return dense.getValues<APFloat>()[i].convertToDouble();
  if (type.isInteger(1))
    return dense.getValues<bool>()[i] ? 1.0 : 0.0;
  return dense.getValues<APInt>()[i].roundToDouble(/*isSigned=*/true);
}

/// Returns nullopt for kinds whose results differ between integers and floats.
static std::optional<double> binaryElement(BinaryKind kind, double a,
                                           double b) {
  bool depends = kind == BinaryKind::div || kind == BinaryKind::rem ||
                 kind == BinaryKind::pow;
  return depends ? std::nullopt : std::optional(evaluate(kind, a, b));
}

/// Returns the index of the operand element that data movement moves to `index`
/// of the result. Returns nullopt for other ops.
static std::optional<SmallVector<int64_t>>
operandIndex(Operation *op, ArrayRef<int64_t> index) {
  SmallVector<int64_t> result;
  if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    for (auto [size, dim] :
         llvm::zip(shapeOf(broadcast.getX()), broadcast.getDims()))
      result.push_back(size == 1 ? 0 : index[dim]);
    return result;
  }
  if (auto reshape = dyn_cast<ReshapeOp>(op)) {
    int64_t linear = linearIndex(shapeOf(reshape.getResult()), index);
    ArrayRef<int64_t> shape = shapeOf(reshape.getX());
    result.resize(shape.size());
    for (size_t dim = shape.size(); dim-- > 0; linear /= shape[dim])
      result[dim] = linear % shape[dim];
    return result;
  }
  if (auto transpose = dyn_cast<TransposeOp>(op)) {
    result.resize(index.size());
    for (auto [i, dim] : llvm::enumerate(transpose.getPerm()))
      result[dim] = index[i];
    return result;
  }
  if (auto slice = dyn_cast<SliceOp>(op)) {
    for (auto [i, offset, stride] :
         llvm::zip(index, slice.getOffsets(), slice.getStrides()))
      result.push_back(offset + i * stride);
    return result;
  }
  return std::nullopt;
}

/// Converts `x` to the type `to`, but does not round to float types.
static double convertElement(Type to, double x) {
  if (to.isInteger(1))
    return x != 0.0;
  if (isa<IntegerType>(to))
    return std::trunc(x);
  return x;
}

std::optional<double> dpc::elementAt(Value value, ArrayRef<int64_t> index) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return std::nullopt;
  if (auto constant = dyn_cast<ConstantOp>(op))
    return constantElement(constant, index);
  if (auto iota = dyn_cast<IotaOp>(op))
    return index[iota.getDim()];
  if (auto moved = operandIndex(op, index))
    return elementAt(op->getOperand(0), *moved);
  if (auto select = dyn_cast<SelectOp>(op)) {
    std::optional<double> condition = elementAt(select.getCondition(), index);
    if (!condition)
      return std::nullopt;
    return elementAt(*condition != 0 ? select.getOnTrue() : select.getOnFalse(),
                     index);
  }
  if (!isa<UnaryOp, BinaryOp, CompareOp, ConvertOp>(op))
    return std::nullopt;
  std::optional<double> a = elementAt(op->getOperand(0), index);
  if (!a)
    return std::nullopt;
  if (auto convert = dyn_cast<ConvertOp>(op))
    return convertElement(elementTypeOf(value), *a);
  if (auto unary = dyn_cast<UnaryOp>(op)) {
    UnaryKind kind = unary.getKind();
    bool isKnown = kind == UnaryKind::logical_not || kind == UnaryKind::neg;
    return isKnown ? std::optional(evaluate(kind, *a)) : std::nullopt;
  }
  std::optional<double> b = elementAt(op->getOperand(1), index);
  if (!b)
    return std::nullopt;
  if (auto compare = dyn_cast<CompareOp>(op))
    return evaluate(compare.getKind(), *a, *b);
  return binaryElement(cast<BinaryOp>(op).getKind(), *a, *b);
}
