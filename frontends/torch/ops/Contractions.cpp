//===- Contractions.cpp - Matmuls and attention ---------------------------===//
#include "frontends/emit/Contraction.h"
#include "frontends/emit/Dropout.h"
#include "frontends/torch/Call.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace dpc::frontend::pt2 {

namespace {

/// x times the transpose of the weight [out, in].
void linear(Call &c) {
  Emitter &e = c.emit;
  Val x = c.tensor("input"), weight = c.tensor("weight");
  if (!x || !weight)
    return;
  if (x.rank() < 1 || weight.rank() != 2) {
    c.fail("operands " + describe(x.type()) + " and " +
           describe(weight.type()) + " do not fit");
    return;
  }
  Shape shape(x.shape());
  shape.back() = weight.dim(0);
  if (x.rank() == 1)
    x = e.reshape(x, {1, x.dim(0)});
  Val y = e.reshape(e.matmul(x, weight, false, true), shape);
  if (c.has("bias"))
    y = e.binary(BinaryKind::add, y, c.tensor("bias"));
  c.out(y);
}

void matmul(Call &c) {
  Val a = c.tensor("self");
  c.out(stackedMatmul(c.emit, a, c.tensor("other")));
}
/// mm and bmm.
void product(Call &c) {
  Val a = c.tensor("self");
  c.out(stackedMatmul(c.emit, a, c.tensor("mat2")));
}

/// beta * self + alpha * a b.
void addProduct(Call &c, llvm::StringRef left, llvm::StringRef right) {
  Emitter &e = c.emit;
  double alpha = c.number("alpha"), beta = c.number("beta");
  Val y = stackedMatmul(e, c.tensor(left), c.tensor(right));
  if (alpha != 1.0)
    y = e.binary(BinaryKind::mul, y, alpha);
  if (beta == 0.0)
    return c.out(y);
  Val self = c.tensor("self");
  if (beta != 1.0)
    self = e.binary(BinaryKind::mul, self, beta);
  c.out(e.binary(BinaryKind::add, y, self));
}
void addmm(Call &c) { addProduct(c, "mat1", "mat2"); }
void baddbmm(Call &c) { addProduct(c, "batch1", "batch2"); }

void outer(Call &c) {
  Val a = c.tensor("self"), b = c.tensor("vec2");
  if (a && b && a.rank() == 1 && b.rank() == 1)
    return c.out(c.emit.binary(BinaryKind::mul,
                               c.emit.reshape(a, {a.dim(0), 1}),
                               c.emit.reshape(b, {1, b.dim(0)})));
  c.fail("operands must be vectors");
}

/// Multiplies a matrix or vector with a vector.
template <int64_t rank> void timesVector(Call &c, llvm::StringRef other) {
  Val a = c.tensor("self"), b = c.tensor(other);
  if (a && b && (a.rank() != rank || b.rank() != 1)) {
    c.fail("operands " + describe(a.type()) + " and " + describe(b.type()) +
           " have other ranks");
    return;
  }
  c.out(stackedMatmul(c.emit, a, b));
}

void dot(Call &c) { timesVector<1>(c, "tensor"); }
void matrixTimesVector(Call &c) { timesVector<2>(c, "vec"); }

void einsumOf(Call &c) {
  llvm::SmallVector<Val> operands = c.tensors("tensors");
  if (!c.emit.failed())
    c.out(einsum(c.emit, c.text("equation"), operands));
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The known content of a mask.
struct Mask {
  Val additive; ///< rank 4, or null
  bool causal = false;
};

/// Masks exist for every sample and head. If the mask is known and equal for
/// all, one copy is enough, and none is needed for the causal mask.
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

/// Converts the mask to an additive mask of rank 4.
Val additiveMask(Call &c, Val mask, Type element) {
  Emitter &e = c.emit;
  if (!mask)
    return {};
  if (mask.element().isInteger(1))
    mask = e.select(mask, e.scalar(0, element), e.scalar(-kInfinity, element));
  mask = e.convert(mask, element);
  if (!mask || mask.rank() > 4)
    return c.fail("attn_mask must have 4 dimensions or fewer");
  Shape shape(4 - mask.rank(), 1);
  shape.append(mask.shape().begin(), mask.shape().end());
  return e.reshape(mask, shape);
}

/// Reshapes [H, T, D] to [B, H, T, D].
Val ranked(Call &c, llvm::StringRef name) {
  Val x = c.tensor(name);
  if (!x || x.rank() == 4)
    return x;
  if (x.rank() != 3)
    return c.fail("argument '" + name + "' " + describe(x.type()) +
                  " must have 3 or 4 dimensions");
  return c.emit.reshape(x, {1, x.dim(0), x.dim(1), x.dim(2)});
}

bool attentionFits(Call &c, Val q, Val k, Val v) {
  bool grouped = c.flag("enable_gqa") && k.dim(1) > 0 && k.dim(1) == v.dim(1) &&
                 q.dim(1) % k.dim(1) == 0;
  if (q.dim(0) == k.dim(0) && k.dim(0) == v.dim(0) && q.dim(3) == k.dim(3) &&
      k.dim(2) == v.dim(2) &&
      (grouped || (q.dim(1) == k.dim(1) && k.dim(1) == v.dim(1))))
    return true;
  c.fail("shapes of query, key and value do not fit: " + describe(q.shape()) +
         ", " + describe(k.shape()) + ", " + describe(v.shape()));
  return false;
}

/// dpc.attention; the mask may be null.
Val fused(Call &c, Val q, Val k, Val v, Val mask, double scale, bool causal) {
  Emitter &e = c.emit;
  auto out = RankedTensorType::get({q.dim(0), q.dim(1), q.dim(2), v.dim(3)},
                                   q.element());
  auto lse = RankedTensorType::get({q.dim(0), q.dim(1), q.dim(2)},
                                   e.builder.getF32Type());
  Value qv = e.materialize(q), kv = e.materialize(k), vv = e.materialize(v);
  auto op = AttentionOp::create(e.builder, e.loc, out, lse, qv, kv, vv,
                                mask ? e.materialize(mask) : Value(),
                                llvm::APFloat(scale), causal);
  return Val(op.getOut());
}

/// Repeats the heads of x [B, H, T, D] to `heads` heads.
Val repeatedHeads(Emitter &e, Val x, int64_t heads) {
  if (x.dim(1) == heads)
    return x;
  int64_t times = heads / x.dim(1);
  Val wide = e.broadcast(x, {x.dim(0), x.dim(1), times, x.dim(2), x.dim(3)},
                         {0, 1, 3, 4});
  return e.reshape(wide, {x.dim(0), heads, x.dim(2), x.dim(3)});
}

/// Attention with dropout of probabilities.
Val dropping(Emitter &e, Val q, Val k, Val v, Val mask, double scale,
             double p) {
  k = repeatedHeads(e, k, q.dim(1));
  v = repeatedHeads(e, v, q.dim(1));
  Val scores = e.binary(BinaryKind::mul, e.matmul(q, k, false, true), scale);
  if (mask)
    scores = e.binary(BinaryKind::add, scores, mask);
  Val weights = e.softmax(scores);
  if (!weights)
    return {};
  return e.matmul(
      applyDropout(e, weights, dropoutMask(e, weights.shape(), p), p), v);
}

/// ATen's causal mask excludes keys after the query, both counted from 0. The
/// mask of dpc aligns the ends, which is equal if queries and keys are equally
/// many.
void attention(Call &c) {
  Emitter &e = c.emit;
  Val q = ranked(c, "query"), k = ranked(c, "key"), v = ranked(c, "value");
  double p = c.number("dropout_p");
  if (!q || !k || !v || e.failed() || !attentionFits(c, q, k, v))
    return;
  Mask given;
  if (c.has("attn_mask"))
    given.additive = c.tensor("attn_mask");
  if (given.additive && given.additive.constant && given.additive.rank() >= 2)
    given = knownMask(*given.additive.constant, q.dim(2), k.dim(2));
  Val mask = additiveMask(c, given.additive, q.element());
  bool causal = given.causal || c.flag("is_causal");
  if (causal && (p != 0 || q.dim(2) != k.dim(2))) {
    Val ahead(ConstTensor::triangle(q.element(), {1, 1, q.dim(2), k.dim(2)},
                                    makeScalar(0, q.element()),
                                    makeScalar(-kInfinity, q.element()), 1));
    mask = mask ? e.binary(BinaryKind::add, mask, ahead) : ahead;
    causal = false;
  }
  if (e.failed())
    return;
  double scale = c.has("scale")
                     ? c.number("scale")
                     : 1.0 / std::sqrt(static_cast<double>(q.dim(3)));
  Val y = p != 0 ? dropping(e, q, k, v, mask, scale, p)
                 : fused(c, q, k, v, mask, scale, causal);
  Shape shape = {q.dim(0), q.dim(1), q.dim(2), v.dim(3)};
  if (c.tensor("query").rank() == 3)
    shape.erase(shape.begin());
  c.out(e.reshape(y, shape));
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
