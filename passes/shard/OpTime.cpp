//===- OpTime.cpp - Seconds of one op on one device -----------------------===//
#include "passes/shard/OpTime.h"

using namespace mlir;
using namespace dpc;

static RankedTensorType tensorOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

int64_t dpc::elementBytes(Value value) {
  return sizeInBytes(
      RankedTensorType::get({1}, tensorOf(value).getElementType()));
}

cost::DType dpc::costType(Type type) {
  if (type.isBF16())
    return cost::DType::BF16;
  if (type.isF16())
    return cost::DType::F16;
  return type.isF64() ? cost::DType::F64 : cost::DType::F32;
}

/// What the device computes products of this value's type in.
static cost::DType productType(Value value, const cost::Device &device) {
  return cost::computeType(device, costType(tensorOf(value).getElementType()));
}

static double matmulSeconds(MatmulOp op, const cost::Device &device) {
  ArrayRef<int64_t> a = op.getA().getType().getShape();
  ArrayRef<int64_t> out = op.getResult().getType().getShape();
  cost::GemmShape shape;
  shape.k = a[op.getTa() ? a.size() - 2 : a.size() - 1];
  shape.m = out[out.size() - 2];
  shape.n = out.back();
  int64_t batch = 1;
  for (int64_t size : out.drop_back(2))
    batch *= size;
  // A plain matrix on the right makes one tall product.
  bool shared = op.getB().getType().getRank() == 2;
  (shared ? shape.m : shape.batch) *= batch;
  shape.transA = op.getTa();
  shape.transB = op.getTb();
  return cost::gemmSeconds(device, productType(op.getA(), device), shape);
}

/// A convolution as the product it is: windows of x, unrolled, by filters.
static double convSeconds(Operation *op, Value y, Value w,
                          const cost::Device &device) {
  ArrayRef<int64_t> filter = tensorOf(w).getShape();
  int64_t filters = std::max<int64_t>(1, filter[0]);
  int64_t windows = tensorOf(y).getNumElements() / filters;
  int64_t depth = tensorOf(w).getNumElements() / filters;
  cost::GemmShape shape;
  shape.m = isa<ConvGradFilterOp>(op) ? filters : windows;
  shape.n = isa<ConvOp>(op) ? filters : depth;
  shape.k = isa<ConvOp>(op)            ? depth
            : isa<ConvGradInputOp>(op) ? filters
                                       : windows;
  return cost::gemmSeconds(device, productType(y, device), shape);
}

double dpc::opSeconds(Operation *op, const cost::Device &device) {
  if (isa<ReshapeOp, ConstantOp>(op))
    return 0;
  if (auto matmul = dyn_cast<MatmulOp>(op))
    return matmulSeconds(matmul, device);
  if (auto conv = dyn_cast<ConvOp>(op))
    return convSeconds(op, conv.getResult(), conv.getW(), device);
  if (auto grad = dyn_cast<ConvGradInputOp>(op))
    return convSeconds(op, grad.getDy(), grad.getW(), device);
  if (auto grad = dyn_cast<ConvGradFilterOp>(op))
    return convSeconds(op, grad.getDy(), grad.getDw(), device);
  auto costed = dyn_cast<CostOpInterface>(op);
  double flops = costed ? costed.getFlops() : 0;
  if (isa<AttentionOp, AttentionGradOp>(op))
    return flops / (device.peak(productType(op->getOperand(0), device)) *
                    device.gemm.peakFraction);
  double bytes = 0;
  for (Value value : op->getOperands())
    bytes += sizeInBytes(tensorOf(value));
  for (Value value : op->getResults())
    bytes += sizeInBytes(tensorOf(value));
  return cost::streamSeconds(device, bytes, flops);
}
