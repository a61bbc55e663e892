//===- ModelParts.cpp - Known parts of a program --------------------------===//
#include "tools/driver/ModelParts.h"

#include "ir/TensorUtils.h"
#include "tools/driver/Origins.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace dpc {

/// Returns the product with a weight from which all heads of `value` come. If
/// rotated elements are joined with others, returns that of the others.
static MatmulOp productOfHeads(Value value) {
  auto joined = madeBy<ConcatOp>(value);
  if (!joined)
    return weightProduct(value);
  for (Value part : joined->getOperands())
    if (MatmulOp product = weightProduct(part))
      return product;
  return {};
}

/// Returns the size of the vector from which `product` computes if another
/// product with a weight made it from a longer one, with or without a norm;
/// otherwise 0.
static int64_t latentOf(MatmulOp product) {
  if (!product)
    return 0;
  Value vector = originOf(product.getA());
  if (auto norm = vector.getDefiningOp<NormOp>())
    vector = norm.getX();
  int64_t size = shapeOf(product.getA()).back();
  MatmulOp down = weightProduct(vector);
  return down && size < shapeOf(down.getA()).back() ? size : 0;
}

static void readAttention(AttentionOp attention, cost::ModelParts &parts) {
  ArrayRef<int64_t> q = shapeOf(attention.getQ()),
                    v = shapeOf(attention.getV());
  parts.heads = q[1];
  parts.keyHeads = v[1];
  parts.keySize = q[3];
  parts.valueSize = v[3];
  MatmulOp keys = productOfHeads(attention.getK());
  if (!keys || keys != productOfHeads(attention.getV()))
    return;
  parts.latent = latentOf(keys);
  if (parts.latent > 0)
    parts.queryLatent = latentOf(productOfHeads(attention.getQ()));
}

static void readBand(AttentionOp attention, cost::ModelParts &parts) {
  parts.withSinks += attention.getSinks() ? 1 : 0;
  if (std::optional<int64_t> window = attention.getWindow()) {
    parts.window =
        parts.windowed++ > 0 ? std::min(parts.window, *window) : *window;
  }
}

cost::ModelParts modelPartsOf(func::FuncOp program) {
  cost::ModelParts parts;
  // By the weights of heads, what they read. Losses of several parts of a
  // sequence read the same.
  llvm::MapVector<Value, DenseSet<Value>> losses;
  program.walk([&](Operation *op) {
    if (auto attention = dyn_cast<AttentionOp>(op)) {
      if (parts.attentions++ == 0)
        readAttention(attention, parts);
      readBand(attention, parts);
    }
    if (auto loss = dyn_cast<CrossEntropyOp>(op))
      if (MatmulOp head = weightProduct(loss->getOperand(0)))
        losses[originOf(head.getB())].insert(originOf(head.getA()));
  });
  for (const auto &[head, vectors] : losses)
    parts.furtherTokens =
        std::max<int64_t>(parts.furtherTokens, vectors.size() - 1);
  return parts;
}

} // namespace dpc
