//===- Contractions.cpp - Matmuls and attention ---------------------------===//
#include "frontends/emit/Contraction.h"
#include "frontends/emit/Dropout.h"
#include "frontends/emit/Layers.h"
#include "frontends/torch/Call.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace dpc::frontend::pt2 {

namespace {

/// x w^T, for a weight w [out, in].
Val linear(Call &c, Val x, Val weight) {
  Emitter &e = c.emit;
  if (x.rank() < 1 || weight.rank() != 2)
    return c.fail("operands {0} and {1} do not fit", x, weight);
  Shape shape(x.shape());
  shape.back() = weight.dim(0);
  if (x.rank() == 1)
    x = e.reshape(x, {1, x.dim(0)});
  Val y = e.reshape(e.matmul(x, weight, false, true), shape);
  if (c.has("bias"))
    y = e.add(y, c.tensor("bias"));
  return y;
}

Val matmul(Call &c, Val a) {
  return stackedMatmul(c.emit, a, c.tensor("other"));
}
/// mm and bmm.
Val product(Call &c, Val a) {
  return stackedMatmul(c.emit, a, c.tensor("mat2"));
}

/// beta * self + alpha * (left x right).
Val addGemm(Call &c, llvm::StringRef left, llvm::StringRef right) {
  Emitter &e = c.emit;
  double alpha = c.number("alpha"), beta = c.number("beta");
  Val y = stackedMatmul(e, c.tensor(left), c.tensor(right));
  if (alpha != 1.0)
    y = e.mul(y, alpha);
  if (beta == 0.0)
    return y;
  Val self = c.tensor("self");
  if (beta != 1.0)
    self = e.mul(self, beta);
  return e.add(y, self);
}
Val addmm(Call &c) { return addGemm(c, "mat1", "mat2"); }
Val baddbmm(Call &c) { return addGemm(c, "batch1", "batch2"); }

Val outer(Call &c, Val a, Val b) {
  if (a && b && a.rank() == 1 && b.rank() == 1)
    return c.emit.mul(c.emit.reshape(a, {a.dim(0), 1}),
                      c.emit.reshape(b, {1, b.dim(0)}));
  return c.fail("operands must be vectors");
}

template <int64_t rank> Val timesVector(Call &c, llvm::StringRef other) {
  Val a = c.tensor("self"), b = c.tensor(other);
  if (a && b && (a.rank() != rank || b.rank() != 1))
    return c.fail("operands {0} and {1} have unsupported ranks", a, b);
  return stackedMatmul(c.emit, a, b);
}

Val dot(Call &c) { return timesVector<1>(c, "tensor"); }
Val matrixTimesVector(Call &c) { return timesVector<2>(c, "vec"); }

Val einsumOf(Call &c) {
  llvm::SmallVector<Val> operands = c.tensors("tensors");
  return c.emit.failed() ? Val() : einsum(c.emit, c.text("equation"), operands);
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A mask whose elements are known.
struct Mask {
  Val additive; ///< rank 4, or null
  bool causal = false;
};

/// Known masks often repeat one matrix for every sample and head. Keeps one
/// copy, or none if the mask is causal (an attribute of dpc.attention).
Mask knownMask(const ConstTensor &given, int64_t queries, int64_t keys) {
  Mask mask;
  ConstTensor tensor = given.compacted();
  bool isBool = tensor.element().isInteger(1);
  auto hides = [&](Scalar s) { return isBool ? s.i == 0 : s.f == -kInfinity; };
  auto shows = [&](Scalar s) { return isBool ? s.i != 0 : s.f == 0; };
  if (tensor.layout() == ConstTensor::Layout::Splat && shows(tensor.at(0)))
    return mask;
  if (tensor.layout() == ConstTensor::Layout::Triangle) {
    Scalar below = tensor.stored()[0], above = tensor.stored()[1];
    mask.causal = shows(below) && hides(above) && tensor.diagonal() == 1 &&
                  queries == keys;
    if (mask.causal)
      return mask;
    tensor =
        ConstTensor::triangle(tensor.element(), tensor.shape().take_back(2),
                              below, above, tensor.diagonal());
  }
  mask.additive = Val(std::move(tensor));
  return mask;
}

/// Returns the mask as an additive mask of rank 4.
Val rankedMask(Call &c, Val mask, Type element) {
  Emitter &e = c.emit;
  if (!mask)
    return {};
  if (mask.element().isInteger(1))
    mask = additiveMask(e, mask, element);
  mask = e.convert(mask, element);
  if (!mask || mask.rank() > 4)
    return c.fail("attn_mask must have 4 dimensions or fewer");
  return e.reshape(mask, joinShapes({Shape(4 - mask.rank(), 1), mask.shape()}));
}

/// Returns a tensor of rank 3 as [1, H, T, D].
Val ranked(Call &c, llvm::StringRef name) {
  Val x = c.tensor(name);
  if (!x || x.rank() == 4)
    return x;
  if (x.rank() != 3)
    return c.fail("argument '{0}' {1} must have 3 or 4 dimensions", name, x);
  return c.emit.reshape(x, {1, x.dim(0), x.dim(1), x.dim(2)});
}

bool attentionFits(Call &c, Val q, Val k, Val v) {
  bool grouped = c.flag("enable_gqa") && k.dim(1) > 0 && k.dim(1) == v.dim(1) &&
                 q.dim(1) % k.dim(1) == 0;
  if (q.dim(0) == k.dim(0) && k.dim(0) == v.dim(0) && q.dim(3) == k.dim(3) &&
      k.dim(2) == v.dim(2) &&
      (grouped || (q.dim(1) == k.dim(1) && k.dim(1) == v.dim(1))))
    return true;
  c.fail("shapes of query, key and value do not fit: {0}, {1}, {2}", q.shape(),
         k.shape(), v.shape());
  return false;
}

/// Emits attention with dropout of the probabilities.
Val dropping(Emitter &e, Val q, Val k, Val v, Val mask, double scale,
             double p) {
  if (k.dim(1) != q.dim(1)) {
    k = repeatedHeads(e, k, q.dim(1));
    v = repeatedHeads(e, v, q.dim(1));
  }
  Val scores = e.mul(e.matmul(q, k, false, true), scale);
  if (mask)
    scores = e.add(scores, mask);
  Val weights = e.softmax(scores);
  if (!weights)
    return {};
  return e.matmul(
      applyDropout(e, weights, dropoutMask(e, weights.shape(), p), p), v);
}

/// ATen's causal mask aligns the first query with the first key, but dpc's
/// causal mask aligns the last query with the last key. The masks are equal if
/// there are as many queries as keys.
Val attention(Call &c) {
  Emitter &e = c.emit;
  Val q = ranked(c, "query"), k = ranked(c, "key"), v = ranked(c, "value");
  double stated = c.number("dropout_p"), p = activeDropout(e, stated);
  noteDropout(e, stated, /*trains=*/true);
  if (!q || !k || !v || e.failed() || !attentionFits(c, q, k, v))
    return {};
  Mask given;
  if (c.has("attn_mask"))
    given.additive = c.tensor("attn_mask");
  if (given.additive && given.additive.constant && given.additive.rank() >= 2)
    given = knownMask(*given.additive.constant, q.dim(2), k.dim(2));
  Val mask = rankedMask(c, given.additive, q.element());
  bool causal = given.causal || c.flag("is_causal");
  if (causal && (p != 0 || q.dim(2) != k.dim(2))) {
    mask = joinedMasks(e, mask, causalMask(q.dim(2), k.dim(2), 0, q.element()));
    causal = false;
  }
  if (e.failed())
    return {};
  double scale = c.has("scale")
                     ? c.number("scale")
                     : 1.0 / std::sqrt(static_cast<double>(q.dim(3)));
  Val y = p != 0 ? dropping(e, q, k, v, mask, scale, p)
                 : makeAttention(e, q, k, v, mask, scale, causal);
  Shape shape = {q.dim(0), q.dim(1), q.dim(2), v.dim(3)};
  if (c.tensor("query").rank() == 3)
    shape.erase(shape.begin());
  return e.reshape(y, shape);
}

} // namespace

void addContractions(OperatorTable &t) {
  t["linear.default"] = {"input, weight, bias=None", linear};
  t["matmul.default"] = {"self, other", matmul};
  t["mm.default"] = {"self, mat2", product};
  t["bmm.default"] = {"self, mat2", product};
  t["addmm.default"] = {"self, mat1, mat2, beta=1, alpha=1", addmm};
  t["baddbmm.default"] = {"self, batch1, batch2, beta=1, alpha=1", baddbmm};
  t["dot.default"] = {"self, tensor", dot};
  t["mv.default"] = {"self, vec", matrixTimesVector};
  t["outer.default"] = {"self, vec2", outer};
  t["einsum.default"] = {"equation, tensors, path=None", einsumOf};
  t["scaled_dot_product_attention.default"] = {
      "query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, "
      "scale=None, enable_gqa=False",
      attention};
}

} // namespace dpc::frontend::pt2
