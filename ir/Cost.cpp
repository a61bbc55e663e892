//===- Cost.cpp - Floating-point operations and bytes of each op ----------===//
//
// Counts are those of the mathematical definition: a multiply-add is two, a
// comparison or selection one, a transcendental function kTranscendental.
// Moving data and communicating are free here; their price is bytes.
//
//===----------------------------------------------------------------------===//
#include "ir/Dialect.h"
#include "ir/TensorUtils.h"

using namespace dpc;
using mlir::RankedTensorType;
using mlir::Value;

/// What a polynomial evaluation of exp, log, tanh, .. takes.
static constexpr double kTranscendental = 8;

/// Elements of `value`, as a double so that products of them do not overflow.
static double elements(Value value) {
  return static_cast<double>(tensorType(value).getNumElements());
}

/// Size of dimension `dim` of `value`, counted from the end when negative.
static double size(Value value, int64_t dim) {
  auto type = tensorType(value);
  return static_cast<double>(
      type.getDimSize(dim < 0 ? type.getRank() + dim : dim));
}

int64_t dpc::sizeInBytes(RankedTensorType type) {
  int64_t bits = type.getElementTypeBitWidth();
  return type.getNumElements() * ((bits + 7) / 8);
}

double dpc::detail::operandAndResultBytes(mlir::Operation *op) {
  double bytes = 0;
  auto add = [&](mlir::Type type) {
    if (auto tensor = mlir::dyn_cast<RankedTensorType>(type))
      bytes += static_cast<double>(sizeInBytes(tensor));
  };
  llvm::for_each(op->getOperandTypes(), add);
  llvm::for_each(op->getResultTypes(), add);
  return bytes;
}

//===----------------------------------------------------------------------===//
// Sources, data movement, communication
//===----------------------------------------------------------------------===//

double ConstantOp::getFlops() { return 0; }
double IotaOp::getFlops() { return 0; }
double BroadcastOp::getFlops() { return 0; }
double ReshapeOp::getFlops() { return 0; }
double TransposeOp::getFlops() { return 0; }
double SliceOp::getFlops() { return 0; }
double PadOp::getFlops() { return 0; }
double ConcatOp::getFlops() { return 0; }
double EmbeddingOp::getFlops() { return 0; }
double AllReduceOp::getFlops() { return 0; }
double AllGatherOp::getFlops() { return 0; }
double ReduceScatterOp::getFlops() { return 0; }
double AllToAllOp::getFlops() { return 0; }
double RingShiftOp::getFlops() { return 0; }
double SendOp::getFlops() { return 0; }
double RecvOp::getFlops() { return 0; }
double FetchOp::getFlops() { return 0; }
double StoreOp::getFlops() { return 0; }
double StageValueOp::getFlops() { return 0; }
double RankSliceOp::getFlops() { return 0; }

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

static double flopsPerElement(UnaryKind kind) {
  switch (kind) {
  case UnaryKind::neg:
  case UnaryKind::abs:
  case UnaryKind::sign:
  case UnaryKind::floor:
  case UnaryKind::ceil:
  case UnaryKind::relu:
  case UnaryKind::logical_not:
  case UnaryKind::sqrt:
  case UnaryKind::reciprocal:
    return 1;
  case UnaryKind::rsqrt:
    return 2;
  case UnaryKind::exp:
  case UnaryKind::log:
  case UnaryKind::tanh:
  case UnaryKind::erf:
  case UnaryKind::sin:
  case UnaryKind::cos:
    return kTranscendental;
  case UnaryKind::sigmoid:
    return kTranscendental + 3;
  case UnaryKind::silu:
  case UnaryKind::gelu:
    return kTranscendental + 4;
  case UnaryKind::gelu_tanh:
  case UnaryKind::silu_grad:
    return kTranscendental + 8;
  case UnaryKind::gelu_grad:
    return 2 * kTranscendental + 6;
  case UnaryKind::gelu_tanh_grad:
    return kTranscendental + 16;
  }
  llvm_unreachable("unknown unary kind");
}

double UnaryOp::getFlops() {
  return flopsPerElement(getKind()) * elements(getResult());
}

double BinaryOp::getFlops() {
  double perElement =
      getKind() == BinaryKind::pow ? 2 * kTranscendental + 1 : 1;
  return perElement * elements(getResult());
}

double CompareOp::getFlops() { return elements(getResult()); }
double SelectOp::getFlops() { return elements(getResult()); }
double ConvertOp::getFlops() { return elements(getResult()); }
double MaskOp::getFlops() { return elements(getResult()); }
double AccumulateOp::getFlops() { return elements(getResult()); }

//===----------------------------------------------------------------------===//
// Reductions and matmul
//===----------------------------------------------------------------------===//

double ReduceOp::getFlops() { return elements(getX()); }
double SumSquaresOp::getFlops() {
  double flops = 0;
  for (Value input : getInputs())
    flops += 2 * elements(input);
  return flops;
}
double GlobalNormOp::getFlops() {
  double flops = 1;
  for (Value gradient : getGrads())
    flops += 2 * elements(gradient);
  return flops;
}

double MatmulOp::getFlops() {
  double contracted = size(getA(), getTa() ? -2 : -1);
  return 2 * contracted * elements(getResult());
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

double SoftmaxOp::getFlops() { return 5 * elements(getX()); }
double SoftmaxGradOp::getFlops() { return 4 * elements(getY()); }

/// One comparison per element and pick.
double TopKOp::getFlops() { return elements(getX()) * size(getValues(), -1); }
double CumSumOp::getFlops() { return elements(getX()); }

double NormOp::getFlops() {
  return (getKind() == NormKind::layer ? 8 : 5) * elements(getX());
}
double NormGradOp::getFlops() {
  return (getKind() == NormKind::layer ? 16 : 12) * elements(getX());
}

double RopeOp::getFlops() { return 3 * elements(getX()); }
double EmbeddingGradOp::getFlops() { return elements(getDy()); }
double CrossEntropyOp::getFlops() { return 5 * elements(getLogits()); }
double CrossEntropySumsOp::getFlops() { return 4 * elements(getLogits()); }
double CrossEntropyGradOp::getFlops() { return 5 * elements(getLogits()); }

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

/// Number of scores that are looked at: B * H * T * S, half of them with a
/// causal mask (exactly (S + 1) / (2 S) when T = S).
static double scoresOf(Value q, Value k, bool causal) {
  double scores = size(q, 0) * size(q, 1) * size(q, 2) * size(k, 2);
  return causal ? scores / 2 : scores;
}

/// q k^T and P v: 2 D and 2 E per score.
double AttentionOp::getFlops() {
  return 2 * scoresOf(getQ(), getK(), getCausal()) *
         (size(getQ(), 3) + size(getV(), 3));
}

/// q k^T again, dS k, dS^T q: 2 D each; dout v^T, P^T dout: 2 E each.
double AttentionGradOp::getFlops() {
  return 2 * scoresOf(getQ(), getK(), getCausal()) *
         (3 * size(getQ(), 3) + 2 * size(getV(), 3));
}

double AttentionProbsOp::getFlops() { return 7 * elements(getScores()); }
double AttentionScoresGradOp::getFlops() { return 7 * elements(getScores()); }

//===----------------------------------------------------------------------===//
// Convolution, pooling, batch norm
//===----------------------------------------------------------------------===//

/// Two per window, filter and tap: `y` elements times what `w` has per filter.
static double convFlops(Value y, Value w) {
  return 2 * elements(y) * elements(w) / size(w, 0);
}
double ConvOp::getFlops() { return convFlops(getResult(), getW()); }
double ConvGradInputOp::getFlops() { return convFlops(getDy(), getW()); }
double ConvGradFilterOp::getFlops() { return convFlops(getDy(), getDw()); }

double MaxPoolOp::getFlops() {
  double taps = 1;
  for (int64_t size : getKernel())
    taps *= size;
  return taps * elements(getY());
}
double MaxPoolGradOp::getFlops() { return elements(getDy()); }

double BatchNormOp::getFlops() { return 8 * elements(getX()); }
double BatchNormGradOp::getFlops() { return 11 * elements(getX()); }

//===----------------------------------------------------------------------===//
// Optimizer and kernels
//===----------------------------------------------------------------------===//

double AdamWOp::getFlops() { return 14 * elements(getP()); }
double SgdOp::getFlops() { return 7 * elements(getP()); }

double KernelOp::getFlops() {
  double flops = 0;
  for (mlir::Operation &op : getBody().front())
    if (auto cost = mlir::dyn_cast<CostOpInterface>(op))
      flops += cost.getFlops();
  return flops;
}
