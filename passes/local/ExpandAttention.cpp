//===- ExpandAttention.cpp - dpc-expand-attention -------------------------===//
//
// H = G * R query heads share G key heads. Folding R into the rows, [B, H, T,
// D] = [B, G, R * T, D], makes every product a batched matmul:
//
//   s  = q k^T       [B, G, R*T, S]    row kernels see [B, H, T, S]
//   o  = p v         [B, G, R*T, E]
//   dk = ds^T q      [B, G, S, D]      the contraction sums over R
//
// Scores of bf16 and f16 inputs stay in f32 until they become probabilities.
// With the eight significant bits of bf16, the probability of a score of 10
// would be off by 2 %.
//
// Windows become masks in the expanded form, and sinks become elementwise ops
// for all kernels.
//
//===----------------------------------------------------------------------===//
#include "passes/local/ExpandAttention.h"

#include "cost-model/machine/AttentionWorkspace.h"
#include "passes/graph/AttentionBands.h"
#include "passes/local/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSwitch.h"

#include <array>

using namespace mlir;

namespace dpc {

#define GEN_PASS_DEF_DPCEXPANDATTENTION
#include "passes/local/Passes.h.inc"

AttentionExpander::AttentionExpander(Operation *op)
    : op(op), listener(op, {attr::kPhase, attr::kChunk}),
      builder(op, &listener), loc(op->getLoc()), g(builder, loc),
      element(elementTypeOf(op->getOperand(0))), wide(sumType(element)) {
  ArrayRef<int64_t> q = shapeOf(op->getOperand(0)),
                    k = shapeOf(op->getOperand(1));
  batch = q[0];
  heads = q[1];
  queries = q[2];
  groups = k[1];
  keys = k[2];
}

LogicalResult AttentionExpander::check() {
  if (groups != 0 && heads % groups == 0)
    return success();
  return op->emitError("a rank has ")
         << heads << " query heads and " << groups
         << " key heads, expected the query heads to be a multiple of the "
            "key heads";
}

Value AttentionExpander::fold(Value value) {
  ArrayRef<int64_t> shape = shapeOf(value);
  return g.reshape(value, {batch, groups, heads / groups * shape[2], shape[3]});
}

Value AttentionExpander::unfold(Value value) {
  ArrayRef<int64_t> shape = shapeOf(value);
  return g.reshape(value,
                   {batch, heads, shape[2] / (heads / groups), shape[3]});
}

Value AttentionExpander::matmul(Value a, Value b, bool ta, bool tb,
                                Type result) {
  int64_t m = shapeOf(a)[ta ? 3 : 2], n = shapeOf(b)[tb ? 2 : 3];
  auto type = RankedTensorType::get({batch, groups, m, n}, result);
  return MatmulOp::create(builder, loc, type, a, b, ta, tb);
}

AttentionOp AttentionExpander::splitSinks(AttentionOp attention) {
  auto plain = cast<AttentionOp>(builder.clone(*attention));
  plain->setDiscardableAttrs(attention->getDiscardableAttrDictionary());
  plain.getSinksMutable().clear();
  Value lse = plain.getLse();
  ArrayRef<int64_t> rows = shapeOf(lse), out = shapeOf(plain.getOut());
  Value sinks = g.broadcast(attention.getSinks(), rows, {1});
  Value high = g.binary(BinaryKind::maximum, lse, sinks);
  auto weight = [&](Value x) {
    return g.unary(UnaryKind::exp, g.sub(x, high));
  };
  Value all =
      g.add(high, g.unary(UnaryKind::log, g.add(weight(lse), weight(sinks))));
  Value share = g.unary(UnaryKind::exp, g.sub(lse, all));
  Value scaled = g.mul(g.convert(plain.getOut(), elementTypeOf(lse)),
                       g.broadcast(share, out, {0, 1, 2}));
  attention.getOut().replaceAllUsesWith(g.convert(scaled, element));
  attention.getLse().replaceAllUsesWith(all);
  attention.erase();
  return plain;
}

void AttentionExpander::maskWindow() {
  auto window = op->getAttrOfType<IntegerAttr>("window");
  if (!window)
    return;
  Value mask = windowMask(g, queries, keys, window.getInt(), element);
  hideByMask(g, op, mask);
}

/// Replaces the users of `result`, which convert it to the type of `value`.
static void replaceConverts(Value result, Value value) {
  for (Operation *user : llvm::make_early_inc_range(result.getUsers())) {
    assert(isa<ConvertOp>(user) && "the result of a step is converted only");
    user->getResult(0).replaceAllUsesWith(value);
    user->erase();
  }
}

void AttentionExpander::expand(AttentionOp attention, bool isStep) {
  Value q = fold(attention.getQ());
  Value scores = unfold(matmul(q, attention.getK(), false, true, wide));
  auto probs = AttentionProbsOp::create(
      builder, loc, scores.getType(), attention.getLse().getType(), scores,
      attention.getMask(), attention.getScaleAttr(), attention.getCausalAttr());
  Value out = matmul(fold(g.convert(probs.getProbs(), element)),
                     attention.getV(), false, false, isStep ? wide : element);
  attention.getLse().replaceAllUsesWith(probs.getLse());
  if (isStep)
    replaceConverts(attention.getOut(), unfold(out));
  else
    attention.getOut().replaceAllUsesWith(unfold(out));
  attention.erase();
}

Value AttentionExpander::rowDot(Value a, Value b, RankedTensorType type) {
  Value product = g.binary(BinaryKind::mul, g.convert(a, type.getElementType()),
                           g.convert(b, type.getElementType()));
  return ReduceOp::create(builder, loc, type, ReduceKind::sum, product,
                          ArrayRef<int64_t>{3});
}

void AttentionExpander::expand(AttentionGradOp grad, bool isStep) {
  const Type result = isStep ? wide : element;
  Value q = fold(grad.getQ());
  Value dout = fold(grad.getDout());
  Value scores = unfold(matmul(q, grad.getK(), false, true, wide));
  Value dprobs = unfold(matmul(dout, grad.getV(), false, true, wide));
  Value delta = rowDot(grad.getDout(), grad.getOut(), grad.getLse().getType());
  auto rows = AttentionScoresGradOp::create(
      builder, loc, scores.getType(), scores.getType(), scores, grad.getLse(),
      dprobs, delta, grad.getMask(), grad.getScaleAttr(), grad.getCausalAttr());
  Value probs = fold(g.convert(rows.getProbs(), element));
  Value dscores = fold(g.convert(rows.getDscores(), element));
  Value dq = unfold(matmul(dscores, grad.getK(), false, false, result));
  Value dk = matmul(dscores, q, true, false, result);
  Value dv = matmul(probs, dout, true, false, result);
  for (auto [old, value] :
       llvm::zip(grad->getResults(), std::array{dq, dk, dv}))
    if (isStep)
      replaceConverts(old, value);
    else
      old.replaceAllUsesWith(value);
  grad.erase();
}

bool isRing(Operation *op) {
  return op->hasAttr(attr::kRing) && op->hasAttr(attr::kGlobal);
}

Value maskOf(Operation *op) {
  if (auto attention = dyn_cast<AttentionOp>(op))
    return attention.getMask();
  return cast<AttentionGradOp>(op).getMask();
}

namespace {

enum class FusedKernels {
  none,
  cudnn,
  loops, ///< The loops of runtime/kernels/Attention.h, on CPUs.
  any,   ///< Those of other software, which run every attention of one rank.
};

/// Returns the reason why cuDNN has no kernel for heads of these sizes on GPUs
/// of this compute capability, or "" if it has one. The rules are those of
/// cuDNN 9.18 (docs.nvidia.com/cudnn, "Attention", support matrix) for both
/// directions; cudnn-attention-test compiles such shapes.
std::string whyNotHeadDims(int64_t keySize, int64_t valueSize,
                           int64_t capability) {
  constexpr int64_t kFirst = 80, kHopper = 90, kBlackwell = 100;
  int64_t family = capability / 10 * 10;
  if (capability < kFirst)
    return "cuDNN needs GPUs of compute capability 8.0 or later";
  if (family == kBlackwell && keySize == 192 && valueSize == 128)
    return "";
  int64_t limit = family == kHopper ? 256 : 128;
  std::string accepted = "multiples of 8 up to " + std::to_string(limit);
  if (family == kBlackwell)
    accepted += ", and 192 with values of 128";
  for (auto [name, size] :
       {std::pair("queries and keys", keySize), std::pair("values", valueSize)})
    if (size % 8 != 0 || size > limit)
      return std::string(name) + " have head_dim " + std::to_string(size) +
             ", cuDNN takes " + accepted;
  return "";
}

/// Returns the reason why cuDNN has no kernel for the shapes of `op`, or "" if
/// it has one.
std::string whyNotShape(Operation *op, int64_t capability) {
  ArrayRef<int64_t> q = shapeOf(op->getOperand(0)),
                    v = shapeOf(op->getOperand(2));
  if (std::string why = whyNotHeadDims(q[3], v[3], capability); !why.empty())
    return why;
  if (op->hasAttr("causal") && q[2] != v[2])
    return "it is causal with " + std::to_string(q[2]) + " queries and " +
           std::to_string(v[2]) + " keys, cuDNN takes equal numbers";
  if (op->hasAttr("window") && !op->hasAttr("causal"))
    return "it has a window and is not causal, cuDNN takes windows of causal "
           "attention";
  return "";
}

/// Returns the reason why `kernels` cannot run `op` (a local attention or its
/// gradient) as one instruction, and what is accepted; "" if they can.
std::string whyNotFused(Operation *op, FusedKernels kernels,
                        int64_t capability) {
  if (maskOf(op))
    return "it has an additive mask, causal or none is accepted";
  Type type = elementTypeOf(op->getOperand(0));
  bool isHalf = type.isBF16() || type.isF16();
  if (kernels == FusedKernels::loops)
    return isHalf || type.isF32() ? "" : "its type is not fp32, bf16 or fp16";
  if (!isHalf)
    return "its type is not a 16-bit type, --precision=bf16 and fp16 are "
           "accepted";
  return whyNotShape(op, capability);
}

void markWorkspace(Operation *op) {
  if (!isa<AttentionGradOp>(op))
    return;
  ArrayRef<int64_t> q = shapeOf(op->getOperand(0)),
                    k = shapeOf(op->getOperand(1)),
                    v = shapeOf(op->getOperand(2));
  int64_t bytes = cost::attentionWorkspaceBytes(q[0] * q[1], q[1] != k[1], q[2],
                                                k[2], q[3], v[3]);
  op->setAttr(attr::kWorkspace,
              Builder(op->getContext()).getI64IntegerAttr(bytes));
}

struct ExpandAttentionPass : impl::DpcExpandAttentionBase<ExpandAttentionPass> {
  using Base::Base;

  void runOnOperation() override {
    std::optional<FusedKernels> known =
        llvm::StringSwitch<std::optional<FusedKernels>>(keep)
            .Case("", FusedKernels::none)
            .Case("cudnn", FusedKernels::cudnn)
            .Case("loops", FusedKernels::loops)
            .Case("any", FusedKernels::any)
            .Default(std::nullopt);
    if (!known) {
      getOperation().emitError("keep is '")
          << keep << "', expected cudnn, loops or any";
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

  LogicalResult expandOp(Operation *op, MeshAttr mesh,
                         bool isStep = false) const {
    if (auto attention = dyn_cast<AttentionOp>(op);
        attention && attention.getSinks() &&
        (isRing(op) || kernels != FusedKernels::any))
      op = AttentionExpander(op).splitSinks(attention);
    if (isRing(op)) {
      auto steps = expandRing(op, mesh,
                              kernels == FusedKernels::any ? RingForm::balanced
                                                           : RingForm::stripes);
      return success(succeeded(steps) &&
                     llvm::all_of(*steps, [&](Operation *step) {
                       return succeeded(expandOp(step, mesh, /*isStep=*/true));
                     }));
    }
    if (kernels == FusedKernels::any)
      return success();
    if (kernels != FusedKernels::none) {
      std::string why = whyNotFused(op, kernels, capability);
      if (why.empty() && kernels == FusedKernels::cudnn)
        markWorkspace(op);
      if (why.empty()) {
        op->setAttr(attr::kFused, UnitAttr::get(op->getContext()));
        return AttentionExpander(op).check();
      }
      if (require)
        return op->emitError("attention cannot be fused: ")
               << why << "; --attention=expanded accepts every attention";
    }
    AttentionExpander expander(op);
    if (failed(expander.check()))
      return failure();
    expander.maskWindow();
    if (auto attention = dyn_cast<AttentionOp>(op))
      expander.expand(attention, isStep);
    else
      expander.expand(cast<AttentionGradOp>(op), isStep);
    return success();
  }

  FusedKernels kernels = FusedKernels::none;
};

} // namespace
} // namespace dpc
