//===- FuseRows.cpp - Norms and softmax from primitives -------------------===//
//
// The patterns apply to rows, the last dimension of a tensor:
//
//   rms      x * rsqrt(mean(x * x) + eps)
//   layer    c * rsqrt(mean(c * c) + eps)   with c = x - mean(x)
//   softmax  exp(x - max(x)) / sum(exp(x - max(x)))
//
// Norms are first matched without scale and bias. A following `* w` or `+ b`
// with a row vector is then fused into the norm.
//
//===----------------------------------------------------------------------===//
#include "passes/graph/Match.h"
#include "passes/graph/Patterns.h"

using namespace mlir;
using namespace dpc;

/// If `value` is constant in each row of `like`, returns a value with one
/// element per row, else null.
static Value perRow(Value value, Value like) {
  ArrayRef<int64_t> shape = shapeOf(like);
  if (shape.empty() || shapeOf(value) != shape)
    return nullptr;
  Repeated repeated = repeatedSource(value);
  SmallVector<int64_t> expected;
  for (auto [dim, size] : llvm::enumerate(shape.drop_back()))
    if (size != 1)
      expected.push_back(dim);
  return repeated.dims == expected ? repeated.source : Value();
}

static Value skipUnitReshapes(Value value) {
  while (value) {
    auto reshape = value.getDefiningOp<ReshapeOp>();
    if (!reshape)
      break;
    if (withoutUnitDims(shapeOf(reshape.getX())) !=
        withoutUnitDims(shapeOf(value)))
      break;
    value = reshape.getX();
  }
  return value;
}

static Value rowReduction(Value value, ReduceKind kind) {
  value = skipUnitReshapes(value);
  auto reduce = value ? value.getDefiningOp<ReduceOp>() : ReduceOp();
  if (!reduce || reduce.getKind() != kind)
    return nullptr;
  int64_t last = shapeOf(reduce.getX()).size() - 1;
  if (reduce.getDims() != ArrayRef<int64_t>{last})
    return nullptr;
  return reduce.getX();
}

static Value rowMean(Value value) {
  double factor;
  value = skipUnitReshapes(value);
  Value sum = value ? scaledValue(value, factor) : Value();
  Value x = sum ? rowReduction(sum, ReduceKind::sum) : Value();
  if (!x)
    return nullptr;
  double count = shapeOf(x).back();
  return count > 1 && std::abs(factor * count - 1.0) < 1e-6 ? x : Value();
}

static Value plusEpsilon(Value value, double &eps) {
  BinaryOp sum = binaryOf(skipUnitReshapes(value), BinaryKind::add);
  return otherOperand(sum, [&](Value operand) {
    std::optional<double> splat = splatValue(operand);
    if (splat)
      eps = *splat;
    return splat && *splat >= 0.0;
  });
}

/// Returns x and sets `variance` and `eps` if `op` is x / sqrt(variance + eps)
/// with one variance per row, else returns null.
static Value normalized(BinaryOp op, Value &variance, double &eps) {
  if (op.getKind() == BinaryKind::div) {
    Value divisor = skipUnitReshapes(perRow(op.getB(), op.getResult()));
    UnaryOp sqrt = unaryOf(divisor, UnaryKind::sqrt);
    variance = sqrt ? plusEpsilon(sqrt.getX(), eps) : Value();
    return variance ? op.getA() : Value();
  }
  if (op.getKind() != BinaryKind::mul)
    return nullptr;
  return otherOperand(op, [&](Value operand) {
    Value factor = skipUnitReshapes(perRow(operand, op.getResult()));
    UnaryOp rsqrt = unaryOf(factor, UnaryKind::rsqrt);
    if (UnaryOp reciprocal = unaryOf(factor, UnaryKind::reciprocal))
      rsqrt = unaryOf(skipUnitReshapes(reciprocal.getX()), UnaryKind::sqrt);
    variance = rsqrt ? plusEpsilon(rsqrt.getX(), eps) : Value();
    return bool(variance);
  });
}

static Value squared(Value value) {
  BinaryOp mul = binaryOf(value, BinaryKind::mul);
  if (mul && mul.getA() == mul.getB())
    return mul.getA();
  BinaryOp pow = binaryOf(value, BinaryKind::pow);
  return pow && splatValue(pow.getB()) == 2.0 ? pow.getA() : Value();
}

static NormOp createNorm(PatternRewriter &rewriter, Location loc, NormKind kind,
                         Value x, Value scale, Value bias, FloatAttr eps) {
  auto statistic = RankedTensorType::get(shapeOf(x).drop_back(),
                                         statisticsType(elementTypeOf(x)));
  return NormOp::create(rewriter, loc, x.getType(), statistic, statistic,
                        NormKindAttr::get(x.getContext(), kind), x, scale, bias,
                        eps);
}

static LogicalResult fuseNorm(BinaryOp op, PatternRewriter &rewriter) {
  Value variance;
  double eps = 0.0;
  if (!isFloatTensor(op.getType()))
    return failure();
  Value x = normalized(op, variance, eps);
  if (!x)
    return failure();
  Value square = rowMean(variance);
  if (!square || squared(square) != x)
    return failure();
  NormKind kind = NormKind::rms;
  if (BinaryOp centered = binaryOf(x, BinaryKind::sub)) {
    Value mean = perRow(centered.getB(), x);
    if (mean && rowMean(mean) == centered.getA()) {
      kind = NormKind::layer;
      x = centered.getA();
    }
  }
  rewriter.replaceOp(op, createNorm(rewriter, op.getLoc(), kind, x, Value(),
                                    Value(), rewriter.getF64FloatAttr(eps))
                             .getY());
  return success();
}

static Value rowVector(Value value, PatternRewriter &rewriter) {
  Repeated repeated = repeatedSource(value);
  int64_t last = shapeOf(value).size() - 1;
  if (repeated.source == value || repeated.dims != ArrayRef<int64_t>{last})
    return nullptr;
  return GraphBuilder(rewriter, value.getLoc())
      .reshape(repeated.source, {shapeOf(value).back()});
}

static LogicalResult absorbScaleAndBias(BinaryOp op,
                                        PatternRewriter &rewriter) {
  bool isScale = op.getKind() == BinaryKind::mul;
  if (!isScale && op.getKind() != BinaryKind::add)
    return failure();
  for (auto [y, other] : operandOrders(op)) {
    auto norm = y.getDefiningOp<NormOp>();
    if (!norm || y != norm.getY() || !y.hasOneUse() || norm.getBias() ||
        (isScale && norm.getScale()) ||
        (!isScale && norm.getKind() == NormKind::rms))
      continue;
    // The new norm is at `op`, but users of the statistics may come earlier.
    if (!norm.getMean().use_empty() || !norm.getRstd().use_empty())
      continue;
    Value vector = rowVector(other, rewriter);
    if (!vector)
      continue;
    NormOp fused = createNorm(rewriter, op.getLoc(), norm.getKind(),
                              norm.getX(), isScale ? vector : norm.getScale(),
                              isScale ? Value() : vector, norm.getEpsAttr());
    rewriter.replaceOp(op, fused.getY());
    return success();
  }
  return failure();
}

/// Matches e / sum(e) and e * (1 / sum(e)) for e = exp(x) or exp(x - max(x)).
static LogicalResult fuseSoftmax(BinaryOp op, PatternRewriter &rewriter) {
  UnaryOp exp;
  Value sum;
  if (op.getKind() == BinaryKind::div) {
    exp = unaryOf(op.getA(), UnaryKind::exp);
    sum = perRow(op.getB(), op.getResult());
  } else if (op.getKind() == BinaryKind::mul) {
    for (auto [e, r] : operandOrders(op)) {
      UnaryOp reciprocal = unaryOf(skipUnitReshapes(perRow(r, op.getResult())),
                                   UnaryKind::reciprocal);
      if (reciprocal && unaryOf(e, UnaryKind::exp)) {
        exp = unaryOf(e, UnaryKind::exp);
        sum = reciprocal.getX();
      }
    }
  }
  if (!exp || !sum || rowReduction(sum, ReduceKind::sum) != exp.getResult())
    return failure();
  Value x = exp.getX();
  if (BinaryOp shifted = binaryOf(x, BinaryKind::sub)) {
    Value max = perRow(shifted.getB(), x);
    if (max && rowReduction(max, ReduceKind::max) == shifted.getA())
      x = shifted.getA();
  }
  rewriter.replaceOpWithNewOp<SoftmaxOp>(op, op.getType(), x);
  return success();
}

void dpc::populateRowPatterns(RewritePatternSet &patterns) {
  patterns.add(fuseNorm).add(absorbScaleAndBias).add(fuseSoftmax);
}
