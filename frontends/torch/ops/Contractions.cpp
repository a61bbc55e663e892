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
  Type element = c.resultElement();
  if (a.rank() != 1 || b.rank() != 1 || !element)
    return c.fail("operands must be vectors");
  return c.emit.mul(c.emit.reshape(c.emit.convert(a, element), {a.dim(0), 1}),
                    c.emit.reshape(c.emit.convert(b, element), {1, b.dim(0)}));
}

template <int64_t rank> Val timesVector(Call &c, llvm::StringRef other) {
  Val a = c.tensor("self"), b = c.tensor(other);
  if (a && b && (a.rank() != rank || b.rank() != 1))
    return c.fail("operands {0} and {1} have unsupported ranks", a, b);
  return stackedMatmul(c.emit, a, b);
}

Val dot(Call &c) { return timesVector<1>(c, "tensor"); }
Val vdot(Call &c) { return timesVector<1>(c, "other"); }
Val matrixTimesVector(Call &c) { return timesVector<2>(c, "vec"); }

Val einsumOf(Call &c) {
  llvm::SmallVector<Val> operands = c.tensors("tensors");
  return c.emit.failed() ? Val() : einsum(c.emit, c.text("equation"), operands);
}

/// Sums over the given dimensions of both operands.
Val tensordot(Call &c, Val a, Val b) {
  std::string left, right, result;
  for (int64_t d = 0; d < a.rank(); ++d)
    left += static_cast<char>('a' + d);
  for (int64_t d = 0; d < b.rank(); ++d)
    right += static_cast<char>('A' + d);
  Shape ofA = c.ints("dims_self"), ofB = c.ints("dims_other");
  if (ofA.size() != ofB.size() || a.rank() > 26 || b.rank() > 26)
    return c.fail("dims {0} and {1} do not fit", ofA, ofB);
  for (auto [i, j] : llvm::zip(ofA, ofB)) {
    int64_t from = c.dim(i, a.rank()), to = c.dim(j, b.rank());
    if (c.emit.failed())
      return {};
    right[to] = left[from];
  }
  for (char label : left + right)
    if (llvm::count(left + right, label) == 1)
      result += label;
  return einsum(c.emit, left + "," + right + "->" + result, {a, b});
}

/// Sums over the last dimension of both operands; a number only scales.
Val inner(Call &c, Val a, Val b) {
  Emitter &e = c.emit;
  if (a.rank() == 0 || b.rank() == 0)
    return e.mul(a, b);
  int64_t k = a.shape().back();
  if (k == 0 || b.shape().back() != k)
    return c.fail("operands {0} and {1} do not fit", a, b);
  Shape shape = joinShapes({a.shape().drop_back(), b.shape().drop_back()});
  Val rows = e.reshape(a, {numElements(a.shape()) / k, k});
  Val columns = e.reshape(b, {numElements(b.shape()) / k, k});
  return e.reshape(e.matmul(rows, columns, false, true), shape);
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

/// Returns the mask as an additive mask of rank 4. `batch` has the leading
/// dimensions that are folded into the first one.
Val rankedMask(Call &c, Val mask, Type element, const Shape &batch) {
  Emitter &e = c.emit;
  if (!mask)
    return {};
  if (mask.element().isInteger(1))
    mask = additiveMask(e, mask, element);
  mask = e.convert(mask, element);
  if (!mask || mask.rank() > static_cast<int64_t>(batch.size()) + 3)
    return c.fail("attn_mask has more dimensions than query");
  Shape shape = joinShapes({Shape(3, 1), mask.shape()});
  shape.erase(shape.begin(), shape.end() - 3);
  int64_t matrices = numElements(mask.shape()) / numElements(shape);
  if (matrices != 1) {
    mask = e.broadcastTo(mask, joinShapes({batch, shape}));
    matrices = numElements(batch);
  }
  return e.reshape(mask, joinShapes({{matrices}, shape}));
}

/// The operands of an attention as [batch, heads, positions, D].
struct Attended {
  Val q, k, v;
  Shape batch; ///< the dimensions that are folded into the first one
  Shape shape; ///< that of the result
};

/// Broadcasts the dimensions before the heads, and folds them into one.
/// One head of keys and values serves all heads of queries.
std::optional<Attended> attended(Call &c) {
  Emitter &e = c.emit;
  Attended all{c.tensor("query"), c.tensor("key"), c.tensor("value"), {}, {}};
  Val *operands[] = {&all.q, &all.k, &all.v};
  std::optional<Shape> batch = Shape();
  for (Val *x : operands) {
    if (!*x)
      return std::nullopt;
    if (x->rank() < 2) {
      c.fail("query, key and value must have 2 dimensions or more, not {0}",
             *x);
      return std::nullopt;
    }
    if (batch)
      batch = e.broadcastShape(
          *batch, x->shape().drop_back(std::min<int64_t>(x->rank(), 3)));
  }
  if (!batch)
    return std::nullopt;
  int64_t rank = std::max({all.q.rank(), all.k.rank(), all.v.rank()});
  for (Val *x : operands) {
    Shape inner = joinShapes({Shape(3, 1), x->shape()});
    inner.erase(inner.begin(), inner.end() - 3);
    *x = e.reshape(
        e.broadcastTo(
            e.reshape(*x,
                      joinShapes({Shape(std::max<int64_t>(0, 3 - x->rank()), 1),
                                  x->shape()})),
            joinShapes({*batch, inner})),
        joinShapes({{numElements(*batch)}, inner}));
    if (!*x)
      return std::nullopt;
  }
  Val &q = all.q, &k = all.k, &v = all.v;
  if (k.dim(1) != v.dim(1) || q.dim(1) == 1) {
    int64_t heads = std::max({q.dim(1), k.dim(1), v.dim(1)});
    for (Val *x : operands)
      if (x->dim(1) == 1 && heads > 1)
        *x = repeatedHeads(e, *x, heads);
  }
  all.batch = *batch;
  all.shape = joinShapes({*batch, {q.dim(1), q.dim(2), v.dim(3)}});
  if (rank == 2)
    all.shape.erase(all.shape.begin());
  return all;
}

bool attentionFits(Call &c, Val q, Val k, Val v) {
  bool repeats = c.flag("enable_gqa") || k.dim(1) == 1;
  bool grouped = repeats && k.dim(1) > 0 && k.dim(1) == v.dim(1) &&
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
  auto all = attended(c);
  double stated = c.number("dropout_p"), p = activeDropout(e, stated);
  noteDropout(e, stated, /*trains=*/true);
  if (!all || e.failed() || !attentionFits(c, all->q, all->k, all->v))
    return {};
  auto [q, k, v, batch, shape] = *all;
  Mask given;
  if (c.has("attn_mask"))
    given.additive = c.tensor("attn_mask");
  if (given.additive && given.additive.constant && given.additive.rank() >= 2)
    given = knownMask(*given.additive.constant, q.dim(2), k.dim(2));
  Val mask = rankedMask(c, given.additive, q.element(), batch);
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
  t["vdot.default"] = {"self, other", vdot};
  t["inner.default"] = {"self, other", inner};
  t["tensordot.default"] = {"self, other, dims_self, dims_other", tensordot};
  t["outer.default"] = {"self, vec2", outer};
  t["einsum.default"] = {"equation, tensors, path=None", einsumOf};
  t["scaled_dot_product_attention.default"] = {
      "query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, "
      "scale=None, enable_gqa=False",
      attention};
}

} // namespace dpc::frontend::pt2
