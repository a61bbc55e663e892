//===- Cost.cpp - Floating-point operations and bytes of each op ----------===//
//
// The counts follow the mathematical definition of an op: a multiply-add counts
// as two, a comparison or selection as one, and a transcendental function as
// kTranscendental. Data movement and communication count as
// zero (Dpc_Op in DpcOpBase.td).
//
//===----------------------------------------------------------------------===//
#include "ir/Dialect.h"
#include "ir/ExpertTiles.h"
#include "ir/TensorUtils.h"

using namespace mlir;
using namespace dpc;

/// The FLOPs of exp, log, tanh, .. when evaluated as polynomials.
static constexpr double kTranscendental = 8;

/// A double, so that products do not overflow.
static double elements(Value value) {
  return static_cast<double>(tensorType(value).getNumElements());
}

static double size(Value value, int64_t dim) {
  auto type = tensorType(value);
  return static_cast<double>(
      type.getDimSize(dim < 0 ? type.getRank() + dim : dim));
}

int64_t dpc::sizeInBytes(RankedTensorType type) {
  int64_t bits = type.getElementTypeBitWidth();
  return type.getNumElements() * ((bits + 7) / 8);
}

double dpc::detail::operandAndResultBytes(Operation *op) {
  double bytes = 0;
  for (TypeRange types :
       {TypeRange(op->getOperandTypes()), TypeRange(op->getResultTypes())})
    for (Type type : types)
      if (auto tensor = dyn_cast<RankedTensorType>(type))
        bytes += static_cast<double>(sizeInBytes(tensor));
  return bytes;
}

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

double ReduceOp::getFlops() { return elements(getX()); }
static double sumOfSquares(ValueRange values, double flops) {
  for (Value value : values)
    flops += 2 * elements(value);
  return flops;
}
double SumSquaresOp::getFlops() { return sumOfSquares(getInputs(), 0); }
double GlobalNormOp::getFlops() { return sumOfSquares(getGrads(), 1); }

double MatmulOp::getFlops() {
  double contracted = size(getA(), getTa() ? -2 : -1);
  return 2 * contracted * elements(getResult());
}

double SoftmaxOp::getFlops() { return 5 * elements(getX()); }
double SoftmaxGradOp::getFlops() { return 4 * elements(getY()); }

/// Each picked element is compared with each element of the row.
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

/// Returns the FLOPs of a product of `rows` with matrices of experts. If the
/// experts are split, each rank computes its share of the rows, but all rows of
/// a tile.
static double expertFlops(Value ids, Value stacked,
                          std::optional<Type> global) {
  double share = 1;
  auto argument = dyn_cast<BlockArgument>(ids);
  bool isTile =
      argument && isa<ExpertTilesOp>(argument.getOwner()->getParentOp());
  if (global && !isTile)
    share = size(stacked, 0) /
            static_cast<double>(std::max<int64_t>(
                1, cast<RankedTensorType>(*global).getDimSize(0)));
  return 2 * elements(ids) * size(stacked, 1) * size(stacked, 2) * share;
}

double ExpertMatmulOp::getFlops() {
  return expertFlops(getIds(), getW(), getGlobal());
}
double ExpertMatmulGradOp::getFlops() {
  return expertFlops(getIds(), getResult(), getGlobal());
}

double CrossEntropyOp::getFlops() { return 5 * elements(getLogits()); }
double CrossEntropySumsOp::getFlops() { return 4 * elements(getLogits()); }
double CrossEntropyGradOp::getFlops() { return 5 * elements(getLogits()); }

/// Returns how many scores are computed: B * H * T * S, or half of this number
/// with a causal mask (the exact share is (S + 1) / (2 S) if T = S). With a
/// window, the number is exact for T <= S.
static double scoresOf(Value q, Value k, bool causal,
                       std::optional<int64_t> window) {
  double rows = size(q, 2), keys = size(k, 2);
  double pairs = causal ? rows * keys / 2 : rows * keys;
  if (window && static_cast<double>(*window) < keys) {
    // The last row hides keys - window keys, and each row before it one less.
    double hidden = keys - static_cast<double>(*window);
    double hiding = std::min(rows, hidden);
    double later = rows * (rows - 1) / 2;
    pairs = std::max(0.0, rows * keys - hiding * (hidden - (hiding - 1) / 2) -
                              (causal ? later : 0));
  }
  return size(q, 0) * size(q, 1) * pairs;
}

/// Per score: 2 D for q k^T and 2 E for P v.
double AttentionOp::getFlops() {
  return 2 * scoresOf(getQ(), getK(), getCausal(), getWindow()) *
         (size(getQ(), 3) + size(getV(), 3));
}

/// Per score: 2 D each for q k^T, dS k and dS^T q, and 2 E each for dout v^T
/// and P^T dout.
double AttentionGradOp::getFlops() {
  return 2 * scoresOf(getQ(), getK(), getCausal(), getWindow()) *
         (3 * size(getQ(), 3) + 2 * size(getV(), 3));
}

double AttentionProbsOp::getFlops() { return 7 * elements(getScores()); }
double AttentionScoresGradOp::getFlops() { return 7 * elements(getScores()); }

/// Counts 2 FLOPs for each pair of an element of `y` and a filter element.
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

double AdamWOp::getFlops() { return 14 * elements(getP()); }
double SgdOp::getFlops() { return 7 * elements(getP()); }

double KernelOp::getFlops() {
  double flops = 0;
  for (CostOpInterface op : getBody().getOps<CostOpInterface>())
    flops += op.getFlops();
  return flops;
}

double ExpertTilesOp::getFlops() {
  double flops = 0;
  for (CostOpInterface op : getBody().getOps<CostOpInterface>())
    flops += op.getFlops();
  return flops * expectedRows(*this) / static_cast<double>(getTileRows());
}
