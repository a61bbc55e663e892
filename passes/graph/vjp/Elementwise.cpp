//===- Elementwise.cpp - Gradients of elementwise ops ---------------------===//
#include "passes/graph/Match.h"
#include "passes/graph/vjp/Vjp.h"
#include <numbers>

using namespace mlir;
using namespace dpc;
using vjp::Request;

/// Builds f'(x) * dy, where `y` is f(x). Returns null if f' is zero almost
/// everywhere, and nullopt if `kind` has no gradient.
static std::optional<Value> unaryGrad(GraphBuilder g, UnaryKind kind, Value x,
                                      Value y, Value dy) {
  switch (kind) {
  case UnaryKind::neg:
    return g.neg(dy);
  case UnaryKind::exp:
    return g.mul(dy, y);
  case UnaryKind::log:
    return g.div(dy, x);
  case UnaryKind::sqrt: // 1 / (2 y)
    return g.div(g.scale(dy, 0.5), y);
  case UnaryKind::rsqrt: // -y^3 / 2
    return g.mul(dy, g.mul(g.scale(y, -0.5), g.mul(y, y)));
  case UnaryKind::reciprocal: // -y^2
    return g.mul(dy, g.neg(g.mul(y, y)));
  case UnaryKind::abs:
    return g.mul(dy, g.unary(UnaryKind::sign, x));
  case UnaryKind::sign:
  case UnaryKind::floor:
  case UnaryKind::ceil:
  case UnaryKind::logical_not:
    return Value();
  case UnaryKind::tanh: // 1 - y^2
    return g.mul(dy, g.sub(g.constantLike(y, 1.0), g.mul(y, y)));
  case UnaryKind::sigmoid: // y (1 - y)
    return g.mul(dy, g.mul(y, g.sub(g.constantLike(y, 1.0), y)));
  case UnaryKind::relu: {
    // y > 0 exactly where x > 0. Reading y instead of x releases x early.
    Value zero = g.constantLike(y, 0.0);
    return g.select(g.compare(CompareKind::gt, y, zero), dy, zero);
  }
  case UnaryKind::erf: // 2 / sqrt(pi) exp(-x^2)
    return g.mul(dy, g.scale(g.unary(UnaryKind::exp, g.neg(g.mul(x, x))),
                             2.0 * std::numbers::inv_sqrtpi));
  case UnaryKind::sin:
    return g.mul(dy, g.unary(UnaryKind::cos, x));
  case UnaryKind::cos:
    return g.mul(dy, g.neg(g.unary(UnaryKind::sin, x)));
  case UnaryKind::gelu:
    return g.mul(dy, g.unary(UnaryKind::gelu_grad, x));
  case UnaryKind::gelu_tanh:
    return g.mul(dy, g.unary(UnaryKind::gelu_tanh_grad, x));
  case UnaryKind::silu:
    return g.mul(dy, g.unary(UnaryKind::silu_grad, x));
  case UnaryKind::gelu_grad:
  case UnaryKind::gelu_tanh_grad:
  case UnaryKind::silu_grad:
    return std::nullopt;
  }
  llvm_unreachable("all unary kinds are handled");
}

static LogicalResult unaryVjp(GraphBuilder g, UnaryOp op, const Request &r) {
  if (!r.wanted[0])
    return success();
  std::optional<Value> grad =
      unaryGrad(g, op.getKind(), op.getX(), op.getResult(), r.resultGrads[0]);
  if (!grad)
    return op->emitError() << "unary " << stringifyUnaryKind(op.getKind())
                           << " has no gradient: it is a derivative itself";
  r.operandGrads[0] = *grad;
  return success();
}

/// Builds the gradient of one operand of a maximum or minimum: dy where it is
/// chosen, and where both operands are equal, half of dy or what kTieGradient
/// says.
static Value extremumGrad(GraphBuilder g, BinaryOp op, Value dy, bool isFirst) {
  Value mine = isFirst ? op.getA() : op.getB();
  Value other = isFirst ? op.getB() : op.getA();
  bool isMaximum = op.getKind() == BinaryKind::maximum;
  CompareKind chosen = isMaximum ? CompareKind::gt : CompareKind::lt;
  Value tie = g.constantLike(dy, 0.0);
  if (auto ties = op->getAttrOfType<IntegerAttr>(attr::kTieGradient)) {
    if (ties.getInt() == (isFirst ? 0 : 1))
      chosen = isMaximum ? CompareKind::ge : CompareKind::le;
  } else {
    tie = g.select(g.compare(CompareKind::eq, mine, other), g.scale(dy, 0.5),
                   tie);
  }
  return g.select(g.compare(chosen, mine, other), dy, tie);
}

/// Builds the gradient of one operand of y = a^b. For a: dy b a^(b-1), or 0
/// where b is 0. For b: dy y log(a), or 0 where a is 0.
static Value powGrad(GraphBuilder g, BinaryOp op, Value dy, bool isFirst) {
  Value a = op.getA(), b = op.getB(), base = isFirst ? b : a, zero, grad;
  if (isFirst) {
    Value less = g.sub(b, g.constantLike(b, 1.0));
    grad = g.mul(dy, g.mul(b, g.binary(BinaryKind::pow, a, less)));
    if (splatValue(b).value_or(0.0) != 0.0)
      return grad;
    zero = g.constantLike(b, 0.0);
  } else {
    zero = g.constantLike(a, 0.0);
    grad = g.mul(dy, g.mul(op.getResult(), g.unary(UnaryKind::log, a)));
  }
  return g.select(g.compare(CompareKind::eq, base, zero), zero, grad);
}

static Value binaryGrad(GraphBuilder g, BinaryOp op, Value dy, bool isFirst) {
  Value a = op.getA(), b = op.getB(), other = isFirst ? b : a;
  switch (op.getKind()) {
  case BinaryKind::add:
    return dy;
  case BinaryKind::sub:
    return isFirst ? dy : g.neg(dy);
  case BinaryKind::mul:
    return g.mul(dy, other);
  case BinaryKind::rem: // y = a - b trunc(a / b), so dy/db = -trunc(a / b)
    return isFirst ? dy : g.mul(dy, g.div(g.sub(op.getResult(), a), b));
  case BinaryKind::div: // dy/db = -(a / b) / b
    return isFirst ? g.div(dy, b) : g.neg(g.div(g.mul(dy, op.getResult()), b));
  case BinaryKind::pow:
    return powGrad(g, op, dy, isFirst);
  case BinaryKind::maximum:
  case BinaryKind::minimum:
    return extremumGrad(g, op, dy, isFirst);
  default:
    return Value();
  }
}

static LogicalResult binaryVjp(GraphBuilder g, BinaryOp op, const Request &r) {
  r.set(0, [&] { return binaryGrad(g, op, r.resultGrads[0], true); });
  r.set(1, [&] { return binaryGrad(g, op, r.resultGrads[0], false); });
  return success();
}

static Value compareGrad(GraphBuilder, CompareOp, Value) { return {}; }

static LogicalResult selectVjp(GraphBuilder g, SelectOp op, const Request &r) {
  Value dy = r.resultGrads[0], condition = op.getCondition();
  r.set(1, [&] { return g.select(condition, dy, g.constantLike(dy, 0.0)); });
  r.set(2, [&] { return g.select(condition, g.constantLike(dy, 0.0), dy); });
  return success();
}

static Value convertGrad(GraphBuilder g, ConvertOp op, Value dy) {
  return isFloatTensor(op.getType()) ? g.convert(dy, elementTypeOf(op.getX()))
                                     : Value();
}

void vjp::attachElementwise(MLIRContext &context) {
  attach<unaryVjp, binaryVjp, compareGrad, selectVjp, convertGrad>(context);
}
