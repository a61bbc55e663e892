//===- SimplifyArithmetic.cpp - Arithmetic rewrites of dpc-simplify -------===//
#include "passes/graph/Match.h"
#include "passes/graph/Patterns.h"

using namespace mlir;
using namespace dpc;

/// Returns true if x is a power of two whose reciprocal f32 can represent.
static bool hasExactReciprocal(double x) {
  int exponent;
  return std::isfinite(x) && std::abs(std::frexp(x, &exponent)) == 0.5 &&
         std::abs(exponent) < 100;
}

/// Replaces pow with the exponent 2, 3, 1/2, -1/2 or -1.
static LogicalResult simplifyPow(BinaryOp op, PatternRewriter &rewriter) {
  std::optional<double> exponent = splatValue(op.getB());
  if (!exponent || !isFloatTensor(op.getType()))
    return failure();
  GraphBuilder g(rewriter, op.getLoc());
  Value x = op.getA();
  if (*exponent == 2.0 || *exponent == 3.0) {
    Value square = g.mul(x, x);
    rewriter.replaceOp(op, *exponent == 2.0 ? square : g.mul(square, x));
    return success();
  }
  for (auto [value, root] : {std::pair(0.5, UnaryKind::sqrt),
                             {-0.5, UnaryKind::rsqrt},
                             {-1.0, UnaryKind::reciprocal}})
    if (*exponent == value) {
      rewriter.replaceOp(op, g.unary(root, x));
      return success();
    }
  return failure();
}

static LogicalResult simplifyDiv(BinaryOp op, PatternRewriter &rewriter) {
  if (!isFloatTensor(op.getType()))
    return failure();
  GraphBuilder g(rewriter, op.getLoc());
  std::optional<double> divisor = splatValue(op.getB());
  if (divisor && hasExactReciprocal(*divisor)) {
    rewriter.replaceOp(op, g.scale(op.getA(), 1.0 / *divisor));
    return success();
  }
  if (splatValue(op.getA()) == 1.0) {
    rewriter.replaceOp(op, g.unary(UnaryKind::reciprocal, op.getB()));
    return success();
  }
  return failure();
}

static LogicalResult simplifyBinary(BinaryOp op, PatternRewriter &rewriter) {
  switch (op.getKind()) {
  case BinaryKind::pow:
    return simplifyPow(op, rewriter);
  case BinaryKind::div:
    return simplifyDiv(op, rewriter);
  case BinaryKind::mul:
    for (auto [x, c] : operandOrders(op))
      if (splatValue(c) == -1.0) {
        rewriter.replaceOpWithNewOp<UnaryOp>(op, op.getType(), UnaryKind::neg,
                                             x);
        return success();
      }
    return failure();
  default:
    return failure();
  }
}

static LogicalResult simplifyUnary(UnaryOp op, PatternRewriter &rewriter) {
  if (op.getKind() == UnaryKind::reciprocal)
    if (UnaryOp root = unaryOf(op.getX(), UnaryKind::sqrt)) {
      rewriter.replaceOpWithNewOp<UnaryOp>(op, op.getType(), UnaryKind::rsqrt,
                                           root.getX());
      return success();
    }
  bool isInvolution = op.getKind() == UnaryKind::neg ||
                      (op.getKind() == UnaryKind::logical_not &&
                       op.getType().getElementType().isInteger(1));
  UnaryOp inner = isInvolution ? unaryOf(op.getX(), op.getKind()) : UnaryOp();
  if (!inner)
    return failure();
  rewriter.replaceOp(op, inner.getX());
  return success();
}

static LogicalResult simplifySelect(SelectOp op, PatternRewriter &rewriter) {
  if (op.getOnTrue() == op.getOnFalse()) {
    rewriter.replaceOp(op, op.getOnTrue());
    return success();
  }
  if (std::optional<double> condition = splatValue(op.getCondition())) {
    rewriter.replaceOp(op, *condition != 0 ? op.getOnTrue() : op.getOnFalse());
    return success();
  }
  if (UnaryOp inverted = unaryOf(op.getCondition(), UnaryKind::logical_not)) {
    if (!elementTypeOf(inverted.getX()).isInteger(1))
      return failure();
    rewriter.replaceOpWithNewOp<SelectOp>(op, op.getType(), inverted.getX(),
                                          op.getOnFalse(), op.getOnTrue());
    return success();
  }
  return failure();
}

static LogicalResult simplifyConvert(ConvertOp op, PatternRewriter &rewriter) {
  auto inner = op.getX().getDefiningOp<ConvertOp>();
  if (!inner || inner.getX().getType() != op.getType() ||
      !elementTypeOf(op).isInteger(1))
    return failure();
  rewriter.replaceOp(op, inner.getX());
  return success();
}

void dpc::populateArithmeticPatterns(RewritePatternSet &patterns) {
  patterns.add(simplifyBinary)
      .add(simplifyUnary)
      .add(simplifySelect)
      .add(simplifyConvert);
}
