//===- FusedAttention.cpp - Attention that stays one op -------------------===//
//
// cuDNN's kernels for sm_80 and later hold rows of queries, keys and values of
// up to 128 numbers, in multiples of 16 bytes, and mask by position or not at
// all. An additive mask would be an operand of its own with a gradient of its
// own.
//
//===----------------------------------------------------------------------===//
#include "passes/local/FusedAttention.h"
#include "ir/TensorUtils.h"

#include "cost-model/machine/AttentionWorkspace.h"
#include "ir/Attributes.h"
#include "ir/Sharding.h"

using namespace mlir;

namespace dpc {

static constexpr int64_t kMostDepth = 128;

static Value maskOf(Operation *op) {
  if (auto attention = dyn_cast<AttentionOp>(op))
    return attention.getMask();
  return cast<AttentionGradOp>(op).getMask();
}

static std::string whyNotShape(Operation *op) {
  ArrayRef<int64_t> q = shapeOf(op->getOperand(0)),
                    v = shapeOf(op->getOperand(2));
  for (auto [name, depth] :
       {std::pair("queries and keys", q[3]), std::pair("values", v[3])})
    if (depth % 8 != 0 || depth > kMostDepth)
      return std::string(name) + " have " + std::to_string(depth) +
             " numbers a head, cuDNN takes multiples of 8 up to " +
             std::to_string(kMostDepth);
  if (op->hasAttr("causal") && q[2] != v[2])
    return "it is causal with " + std::to_string(q[2]) + " queries and " +
           std::to_string(v[2]) + " keys, cuDNN takes equal numbers";
  return "";
}

std::string whyNotFused(Operation *op, FusedKernels kernels) {
  if (op->hasAttr(attr::kRing) && op->hasAttr(attr::kGlobal))
    return "its keys and values travel round a ring, cp_kind=ulysses is "
           "accepted";
  if (maskOf(op))
    return "it has an additive mask, causal or none is accepted";
  Type type = elementTypeOf(op->getOperand(0));
  bool isHalf = type.isBF16() || type.isF16();
  if (kernels == FusedKernels::loops)
    return isHalf || type.isF32() ? "" : "it is not of fp32, bf16 or fp16";
  if (!isHalf)
    return "it is not of 16 bits, --precision=bf16 and fp16 are accepted";
  return whyNotShape(op);
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

} // namespace dpc
