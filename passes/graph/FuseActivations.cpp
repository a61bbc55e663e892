//===- FuseActivations.cpp - gelu and silu from primitives ----------------===//
#include "passes/graph/Match.h"
#include "passes/graph/Patterns.h"
#include <numbers>

using namespace mlir;
using namespace dpc;

static constexpr double kGeluTanhCubic = 0.044715;

namespace {

/// The product constant * factors[0] * factors[1] * ...
struct Product {
  double constant = 1.0;
  SmallVector<Value> factors;

  bool is(double expected, Value a, Value b) const {
    return std::abs(constant - expected) <= 1e-6 * std::abs(expected) &&
           factors.size() == 2 &&
           ((factors[0] == a && factors[1] == b) ||
            (factors[0] == b && factors[1] == a));
  }
};

} // namespace

/// Appends the factors of `value` to `product`. Splits multiplications,
/// divisions by constants, squares and cubes, but not `atom`.
static void factorize(Value value, Value atom, Product &product,
                      unsigned depth = 0) {
  double factor;
  if (value == atom || depth > 6) {
    product.factors.push_back(value);
  } else if (std::optional<double> splat = splatValue(value)) {
    product.constant *= *splat;
  } else if (BinaryOp mul = binaryOf(value, BinaryKind::mul)) {
    factorize(mul.getA(), atom, product, depth + 1);
    factorize(mul.getB(), atom, product, depth + 1);
  } else if (Value scaled = scaledValue(value, factor)) {
    product.constant *= factor;
    factorize(scaled, atom, product, depth + 1);
  } else if (BinaryOp pow = binaryOf(value, BinaryKind::pow);
             pow &&
             (splatValue(pow.getB()) == 2.0 || splatValue(pow.getB()) == 3.0)) {
    for (int i = 0; i < *splatValue(pow.getB()); ++i)
      factorize(pow.getA(), atom, product, depth + 1);
  } else {
    product.factors.push_back(value);
  }
}

static Product factorsOf(Value value, Value atom = Value()) {
  Product product;
  factorize(value, atom, product);
  return product;
}

static UnaryOp onePlus(Value value, UnaryKind kind) {
  Value other =
      otherOperand(binaryOf(value, BinaryKind::add),
                   [](Value operand) { return isSplatNear(operand, 1.0); });
  return unaryOf(other, kind);
}

static bool isPower(const Product &product, double constant, Value x,
                    size_t count) {
  return std::abs(product.constant - constant) <= 1e-6 * constant &&
         product.factors.size() == count &&
         llvm::all_of(product.factors, [&](Value f) { return f == x; });
}

/// Matches sqrt(2/pi) (x + 0.044715 x^3) and sqrt(2/pi) x (1 + 0.044715 x^2).
static bool isGeluTanhArgument(Value inner, Value x) {
  double root = std::sqrt(2.0 * std::numbers::inv_pi);
  Product product = factorsOf(inner, x);
  if (std::abs(product.constant - root) > 1e-6)
    return false;
  if (product.factors.size() == 1) {
    BinaryOp sum = binaryOf(product.factors[0], BinaryKind::add);
    Value cubic = otherOperand(sum, [&](Value v) { return v == x; });
    return cubic && isPower(factorsOf(cubic, x), kGeluTanhCubic, x, 3);
  }
  if (product.factors.size() != 2)
    return false;
  Value rest = product.factors[0] == x   ? product.factors[1]
               : product.factors[1] == x ? product.factors[0]
                                         : Value();
  Value square = otherOperand(binaryOf(rest, BinaryKind::add),
                              [](Value v) { return isSplatNear(v, 1.0); });
  return square && isPower(factorsOf(square, x), kGeluTanhCubic, x, 2);
}

/// Returns x if `inner` is the argument of tanh in gelu_tanh(x), else null.
/// Tries each factor of `inner` and each term of these factors as x.
static Value geluTanhOperand(Value inner) {
  SmallVector<Value> candidates;
  for (Value factor : factorsOf(inner).factors) {
    candidates.push_back(factor);
    if (BinaryOp sum = binaryOf(factor, BinaryKind::add))
      candidates.append({sum.getA(), sum.getB()});
  }
  for (Value x : candidates)
    if (isGeluTanhArgument(inner, x))
      return x;
  return nullptr;
}

/// Matches 0.5 * x * (1 + erf(x / sqrt 2)) and 0.5 * x * (1 + tanh(..)).
static LogicalResult fuseGelu(BinaryOp op, PatternRewriter &rewriter) {
  if (op.getKind() != BinaryKind::mul || !isFloatTensor(op.getType()))
    return failure();
  auto replace = [&](UnaryKind kind, Value x, Value factor) {
    if (!x || !factorsOf(op.getResult(), x).is(0.5, x, factor))
      return failure();
    rewriter.replaceOpWithNewOp<UnaryOp>(op, op.getType(), kind, x);
    return success();
  };
  for (Value factor : factorsOf(op.getResult()).factors) {
    if (UnaryOp erf = onePlus(factor, UnaryKind::erf)) {
      double scale;
      Value x = scaledValue(erf.getX(), scale);
      if (x && std::abs(scale - std::numbers::sqrt2 / 2) < 1e-6 &&
          succeeded(replace(UnaryKind::gelu, x, factor)))
        return success();
    }
    if (UnaryOp tanh = onePlus(factor, UnaryKind::tanh))
      if (succeeded(replace(UnaryKind::gelu_tanh, geluTanhOperand(tanh.getX()),
                            factor)))
        return success();
  }
  return failure();
}

/// x * sigmoid(x).
static LogicalResult fuseSilu(BinaryOp op, PatternRewriter &rewriter) {
  if (op.getKind() != BinaryKind::mul)
    return failure();
  for (auto [x, s] : operandOrders(op))
    if (UnaryOp sigmoid = unaryOf(s, UnaryKind::sigmoid);
        sigmoid && sigmoid.getX() == x) {
      rewriter.replaceOpWithNewOp<UnaryOp>(op, op.getType(), UnaryKind::silu,
                                           x);
      return success();
    }
  return failure();
}

void dpc::populateActivationPatterns(RewritePatternSet &patterns) {
  patterns.add(fuseGelu).add(fuseSilu);
}
