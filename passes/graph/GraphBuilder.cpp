//===- GraphBuilder.cpp - Short names for building dpc ops ----------------===//
#include "passes/graph/GraphBuilder.h"

using namespace mlir;
using namespace dpc;

Value GraphBuilder::constant(RankedTensorType type, double value) {
  Type element = type.getElementType();
  DenseElementsAttr attr;
  if (auto floatType = dyn_cast<FloatType>(element))
    attr = DenseElementsAttr::get(
        type, builder.getFloatAttr(floatType, value).getValue());
  else
    attr = DenseElementsAttr::get(
        type, APInt(element.getIntOrFloatBitWidth(),
                    static_cast<uint64_t>(static_cast<int64_t>(value)),
                    /*isSigned=*/true, /*implicitTrunc=*/true));
  return ConstantOp::create(builder, loc, type, attr);
}

Value GraphBuilder::constantLike(Value like, double value) {
  return constant(tensorType(like), value);
}

Type dpc::sumType(Type elementType) {
  bool isHalf = elementType.isBF16() || elementType.isF16();
  return isHalf ? Float32Type::get(elementType.getContext()) : elementType;
}

void dpc::markLike(Operation *op, Operation *before) {
  Operation *made = before ? before->getNextNode() : &op->getBlock()->front();
  for (; made != op; made = made->getNextNode())
    copyAttributes(op, made, {attr::kPhase, attr::kGroup});
}

Value GraphBuilder::unary(UnaryKind kind, Value x) {
  return UnaryOp::create(builder, loc, x.getType(), kind, x);
}

Value GraphBuilder::binary(BinaryKind kind, Value a, Value b) {
  return BinaryOp::create(builder, loc, a.getType(), kind, a, b);
}

Value GraphBuilder::compare(CompareKind kind, Value a, Value b) {
  auto type = RankedTensorType::get(shapeOf(a), builder.getI1Type());
  return CompareOp::create(builder, loc, type, kind, a, b);
}

Value GraphBuilder::select(Value condition, Value onTrue, Value onFalse) {
  return SelectOp::create(builder, loc, onTrue.getType(), condition, onTrue,
                          onFalse);
}

Value GraphBuilder::convert(Value x, Type elementType) {
  RankedTensorType type = tensorType(x);
  if (type.getElementType() == elementType)
    return x;
  return ConvertOp::create(
      builder, loc, RankedTensorType::get(type.getShape(), elementType), x);
}

Value GraphBuilder::iota(ArrayRef<int64_t> shape, int64_t dim) {
  auto type = RankedTensorType::get(shape, builder.getI64Type());
  return IotaOp::create(builder, loc, type, dim, TypeAttr());
}

static RankedTensorType withShape(Value x, ArrayRef<int64_t> shape) {
  return RankedTensorType::get(shape, elementTypeOf(x));
}

Value GraphBuilder::broadcast(Value x, ArrayRef<int64_t> shape,
                              ArrayRef<int64_t> dims) {
  return BroadcastOp::create(builder, loc, withShape(x, shape), x, dims);
}

Value GraphBuilder::reshape(Value x, ArrayRef<int64_t> shape) {
  if (shapeOf(x) == shape)
    return x;
  return ReshapeOp::create(builder, loc, withShape(x, shape), x);
}

Value GraphBuilder::transpose(Value x, ArrayRef<int64_t> perm) {
  auto shape =
      llvm::map_to_vector(perm, [&](int64_t dim) { return shapeOf(x)[dim]; });
  return TransposeOp::create(builder, loc, withShape(x, shape), x, perm);
}

Value GraphBuilder::slice(Value x, ArrayRef<int64_t> shape,
                          ArrayRef<int64_t> offsets,
                          ArrayRef<int64_t> strides) {
  return SliceOp::create(builder, loc, withShape(x, shape), x, offsets,
                         strides);
}

Value GraphBuilder::pad(Value x, ArrayRef<int64_t> shape, ArrayRef<int64_t> low,
                        ArrayRef<int64_t> strides) {
  return PadOp::create(builder, loc, withShape(x, shape), x, low, strides);
}

Value GraphBuilder::reduce(ReduceKind kind, Value x, ArrayRef<int64_t> dims) {
  if (dims.empty())
    return x;
  SmallVector<int64_t> shape;
  for (auto [dim, size] : llvm::enumerate(shapeOf(x)))
    if (!llvm::is_contained(dims, static_cast<int64_t>(dim)))
      shape.push_back(size);
  Type element = elementTypeOf(x);
  bool isSum = kind == ReduceKind::sum || kind == ReduceKind::prod;
  x = isSum ? convert(x, sumType(element)) : x;
  Value result =
      ReduceOp::create(builder, loc, withShape(x, shape), kind, x, dims);
  return convert(result, element);
}

Value GraphBuilder::reduceAll(ReduceKind kind, Value x) {
  auto dims = llvm::to_vector(llvm::seq<int64_t>(0, shapeOf(x).size()));
  return reduce(kind, x, dims);
}

Value GraphBuilder::matmul(Value a, Value b, bool ta, bool tb) {
  ArrayRef<int64_t> aShape = shapeOf(a), bShape = shapeOf(b);
  SmallVector<int64_t> shape(aShape.drop_back(2));
  shape.push_back(aShape[aShape.size() - (ta ? 1 : 2)]);
  shape.push_back(bShape[bShape.size() - (tb ? 2 : 1)]);
  return MatmulOp::create(builder, loc, withShape(a, shape), a, b, ta, tb);
}
