//===- ExpandAttention.cpp - dpc-expand-attention -------------------------===//
//
// H = G * R query heads share G key heads. Folding R into the rows,
// [B, H, T, D] = [B, G, R * T, D], makes every product a plain batched matmul:
//
//   s  = q k^T       [B, G, R*T, S]    seen as [B, H, T, S] by the row kernels
//   o  = p v         [B, G, R*T, E]
//   dk = ds^T q      [B, G, S, D]      summed over R by the contraction
//
// Scores of bf16 and f16 are in f32 until they are probabilities: rounded to
// eight digits, a score of 10 would be off by 2 %, as its probability.
//
//===----------------------------------------------------------------------===//
#include "passes/local/ExpandAttention.h"
#include "ir/Attributes.h"
#include "ir/TensorUtils.h"
#include "passes/local/FusedAttention.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/local/Passes.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace dpc {

#define GEN_PASS_DEF_DPCEXPANDATTENTION
#include "passes/local/Passes.h.inc"

AttentionExpander::AttentionExpander(Operation *op)
    : op(op), builder(op), loc(op->getLoc()),
      element(elementTypeOf(op->getOperand(0))),
      wide(element.isBF16() || element.isF16() ? Type(builder.getF32Type())
                                               : element) {
  Value q = op->getOperand(0), k = op->getOperand(1);
  batch = shapeOf(q)[0];
  heads = shapeOf(q)[1];
  queries = shapeOf(q)[2];
  groups = shapeOf(k)[1];
  keys = shapeOf(k)[2];
}

LogicalResult AttentionExpander::check() {
  if (groups != 0 && heads % groups == 0)
    return success();
  return op->emitError("a rank has ") << heads << " query heads and " << groups
                                      << " key heads, expected a multiple";
}

Value AttentionExpander::reshape(Value value, ArrayRef<int64_t> shape) {
  if (shapeOf(value) == shape)
    return value;
  auto type = RankedTensorType::get(shape, elementTypeOf(value));
  return tagged(ReshapeOp::create(builder, loc, type, value));
}

Value AttentionExpander::fold(Value value) {
  ArrayRef<int64_t> shape = shapeOf(value);
  return reshape(value, {batch, groups, heads / groups * shape[2], shape[3]});
}

Value AttentionExpander::unfold(Value value) {
  ArrayRef<int64_t> shape = shapeOf(value);
  return reshape(value, {batch, heads, shape[2] / (heads / groups), shape[3]});
}

Value AttentionExpander::matmul(Value a, Value b, bool ta, bool tb,
                                Type result) {
  int64_t m = shapeOf(a)[ta ? 3 : 2], n = shapeOf(b)[tb ? 2 : 3];
  auto type = RankedTensorType::get({batch, groups, m, n}, result);
  return tagged(MatmulOp::create(builder, loc, type, a, b, ta, tb));
}

Value AttentionExpander::convert(Value value, Type elementType) {
  if (elementTypeOf(value) == elementType)
    return value;
  auto type = RankedTensorType::get(shapeOf(value), elementType);
  return tagged(ConvertOp::create(builder, loc, type, value));
}

Value AttentionExpander::unary(UnaryKind kind, Value x) {
  return tagged(UnaryOp::create(builder, loc, x.getType(), kind, x));
}

Value AttentionExpander::binary(BinaryKind kind, Value a, Value b) {
  return tagged(BinaryOp::create(builder, loc, a.getType(), kind, a, b));
}

void AttentionExpander::expand(AttentionOp attention) {
  Value q = fold(attention.getQ());
  Value scores = unfold(wideMatmul(q, attention.getK(), false, true));
  auto probs = tagged(AttentionProbsOp::create(
      builder, loc, scores.getType(), attention.getLse().getType(), scores,
      attention.getMask(), attention.getScaleAttr(),
      attention.getCausalAttr()));
  Value out = matmul(fold(convert(probs.getProbs(), element)), attention.getV(),
                     false, false);
  attention.replaceAllUsesWith(ValueRange{unfold(out), probs.getLse()});
  attention.erase();
}

Value AttentionExpander::rowDot(Value a, Value b, RankedTensorType type) {
  Value product = binary(BinaryKind::mul, convert(a, type.getElementType()),
                         convert(b, type.getElementType()));
  return tagged(ReduceOp::create(builder, loc, type, ReduceKind::sum, product,
                                 ArrayRef<int64_t>{3}));
}

void AttentionExpander::expand(AttentionGradOp grad) {
  Value q = fold(grad.getQ());
  Value dout = fold(grad.getDout());
  Value scores = unfold(wideMatmul(q, grad.getK(), false, true));
  Value dprobs = unfold(wideMatmul(dout, grad.getV(), false, true));
  Value delta = rowDot(grad.getDout(), grad.getOut(), grad.getLse().getType());
  auto rows = tagged(AttentionScoresGradOp::create(
      builder, loc, scores.getType(), scores.getType(), scores, grad.getLse(),
      dprobs, delta, grad.getMask(), grad.getScaleAttr(),
      grad.getCausalAttr()));
  Value probs = fold(convert(rows.getProbs(), element));
  Value dscores = fold(convert(rows.getDscores(), element));
  Value dq = unfold(matmul(dscores, grad.getK(), false, false));
  Value dk = matmul(dscores, q, true, false);
  Value dv = matmul(probs, dout, true, false);
  grad.replaceAllUsesWith(ValueRange{dq, dk, dv});
  grad.erase();
}

namespace {

struct ExpandAttentionPass : impl::DpcExpandAttentionBase<ExpandAttentionPass> {
  using Base::Base;

  void runOnOperation() override {
    std::optional<FusedKernels> known =
        llvm::StringSwitch<std::optional<FusedKernels>>(keep)
            .Case("", FusedKernels::none)
            .Case("cudnn", FusedKernels::cudnn)
            .Case("loops", FusedKernels::loops)
            .Default(std::nullopt);
    if (!known) {
      getOperation().emitError("keep is '") << keep << "', expected cudnn or "
                                            << "loops";
      return signalPassFailure();
    }
    kernels = *known;
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      auto mesh = func->getAttrOfType<MeshAttr>(attr::kMesh);
      if (!mesh)
        continue;
      SmallVector<Operation *> ops;
      func.walk([&](Operation *op) {
        if (isa<AttentionOp, AttentionGradOp>(op))
          ops.push_back(op);
      });
      for (Operation *op : ops)
        if (failed(expandOp(op, mesh)))
          return signalPassFailure();
    }
  }

  LogicalResult expandOp(Operation *op, MeshAttr mesh) const {
    if (kernels != FusedKernels::none) {
      std::string why = whyNotFused(op, kernels);
      if (why.empty() && kernels == FusedKernels::cudnn)
        markWorkspace(op);
      if (why.empty()) {
        op->setAttr(attr::kFused, UnitAttr::get(op->getContext()));
        return AttentionExpander(op).check();
      }
      if (require)
        return op->emitError("attention cannot be fused: ")
               << why << "; --attention=expanded takes any";
    }
    if (op->hasAttr(attr::kRing) && op->hasAttr(attr::kGlobal))
      return expandRing(op, mesh);
    AttentionExpander expander(op);
    if (failed(expander.check()))
      return failure();
    if (auto attention = dyn_cast<AttentionOp>(op))
      expander.expand(attention);
    else
      expander.expand(cast<AttentionGradOp>(op));
    return success();
  }

  FusedKernels kernels = FusedKernels::none;
};

} // namespace
} // namespace dpc
