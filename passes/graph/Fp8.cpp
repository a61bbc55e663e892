//===- Fp8.cpp - Matmuls in fp8 -------------------------------------------===//
#include "passes/graph/Fp8.h"

#include "cost-model/machine/Fp8GemmRates.h"
#include "ir/Attributes.h"

using namespace mlir;

namespace dpc {

std::optional<Fp8Sizes> fp8SizesOf(MatmulOp op) {
  return fp8SizesOf(op, op.getA().getType(), op.getB().getType(),
                    op.getResult().getType());
}

std::optional<Fp8Sizes> fp8SizesOf(MatmulOp op, RankedTensorType a,
                                   RankedTensorType b,
                                   RankedTensorType result) {
  if (!op->hasAttr(attr::kFp8) || !a.getElementType().isBF16() ||
      !b.getElementType().isBF16())
    return std::nullopt;
  ArrayRef<int64_t> left = a.getShape(), right = b.getShape(),
                    out = result.getShape();
  Fp8Sizes sizes{out[out.size() - 2], out.back(),
                 left[left.size() - (op.getTa() ? 2 : 1)]};
  int64_t batch = llvm::product_of(out.drop_back(2));
  // If all batches share the matrix b, the rows of all batches form one matrix.
  bool isTall = right.size() == 2 && !op.getTa();
  if (isTall)
    sizes.m *= batch;
  bool isOne = isTall || batch == 1;
  return isOne && cost::takesFp8(sizes.m, sizes.n, sizes.k)
             ? std::optional(sizes)
             : std::nullopt;
}

void markFp8(MatmulOp op, bool gradientInA, bool gradientInB) {
  Builder builder(op.getContext());
  auto format = [&](bool isGradient) {
    return isGradient ? Type(builder.getType<Float8E5M2Type>())
                      : Type(builder.getType<Float8E4M3FNType>());
  };
  op->setAttr(attr::kFp8, builder.getTypeArrayAttr(
                              {format(gradientInA), format(gradientInB)}));
}

void settleFp8(MatmulOp op) {
  if (std::optional<Fp8Sizes> sizes = fp8SizesOf(op))
    op->setAttr(attr::kWorkspace,
                Builder(op.getContext())
                    .getI64IntegerAttr(
                        cost::fp8WorkspaceBytes(sizes->m, sizes->n, sizes->k)));
  else
    op->removeAttr(attr::kFp8);
}

} // namespace dpc
