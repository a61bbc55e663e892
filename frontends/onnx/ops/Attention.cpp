//===- Attention.cpp - Attention and RotaryEmbedding ----------------------===//
#include "frontends/onnx/NodeContext.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace dpc::frontend {

namespace {

/// [B, T, heads * D] -> [B, heads, T, D]; tensors of rank 4 stay.
Val splitHeads(NodeContext &c, Val x, llvm::StringRef countAttr) {
  if (!x || x.rank() == 4)
    return x;
  int64_t heads = c.intAttr(countAttr, 0);
  if (x.rank() != 3 || heads <= 0 || x.dim(2) % heads)
    return c.fail(countAttr + "=" + llvm::Twine(heads) + " does not fit " +
                  describe(x.type()));
  Val split = c.emit.reshape(x, {x.dim(0), x.dim(1), heads, x.dim(2) / heads});
  return c.emit.transpose(split, {0, 2, 1, 3});
}

/// The mask as an additive float tensor of rank 4.
Val additiveMask(NodeContext &c, Type element) {
  Emitter &e = c.emit;
  Val mask = c.in(3);
  if (!mask)
    return {};
  if (mask.element().isInteger(1))
    mask =
        e.select(mask, e.scalar(0, element),
                 e.scalar(-std::numeric_limits<double>::infinity(), element));
  Shape shape(4 - mask.rank(), 1);
  shape.append(mask.shape().begin(), mask.shape().end());
  return e.reshape(mask, shape);
}

/// Forbids keys after the query, both counted from 0, as ONNX does. dpc counts
/// from the ends, which is the same only for as many queries as keys.
Val causalMask(Emitter &e, int64_t queries, int64_t keys, Type element) {
  return Val(ConstTensor::triangle(
      element, {1, 1, queries, keys}, makeScalar(0, element),
      makeScalar(-std::numeric_limits<double>::infinity(), element), 1));
}

void attention(NodeContext &c) {
  Emitter &e = c.emit;
  for (int64_t i : {4, 5, 6})
    if (c.has(i)) {
      c.fail("cached keys and values (past_key, past_value, "
             "nonpad_kv_seqlen) are not supported");
      return;
    }
  for (int64_t i : {1, 2, 3})
    if (c.wants(i)) {
      c.fail("only the first output is supported");
      return;
    }
  if (c.floatAttr("softcap", 0.0) != 0.0) {
    c.fail("softcap is not supported");
    return;
  }
  bool flat = c.in(0) && c.in(0).rank() == 3;
  Val q = splitHeads(c, c.in(0), "q_num_heads");
  Val k = splitHeads(c, c.in(1), "kv_num_heads");
  Val v = splitHeads(c, c.in(2), "kv_num_heads");
  if (!q || !k || !v)
    return;
  if (k.dim(1) == 0 || q.dim(1) % k.dim(1) || q.dim(3) != k.dim(3) ||
      k.dim(2) != v.dim(2) || v.dim(1) != k.dim(1)) {
    c.fail("shapes of q, k and v do not fit: " + describe(q.shape()) + ", " +
           describe(k.shape()) + ", " + describe(v.shape()));
    return;
  }
  Val mask = c.has(3) ? additiveMask(c, q.element()) : Val();
  bool causal = c.intAttr("is_causal", 0) != 0;
  if (causal && q.dim(2) != k.dim(2)) {
    Val ahead = causalMask(e, q.dim(2), k.dim(2), q.element());
    mask = mask ? e.binary(BinaryKind::add, mask, ahead) : ahead;
    causal = false;
  }
  if (e.failed())
    return;
  double scale = c.floatAttr("scale", 1.0 / std::sqrt(q.dim(3)));
  auto out = RankedTensorType::get({q.dim(0), q.dim(1), q.dim(2), v.dim(3)},
                                   q.element());
  auto lse = RankedTensorType::get({q.dim(0), q.dim(1), q.dim(2)},
                                   e.builder.getF32Type());
  Value qv = e.materialize(q), kv = e.materialize(k), vv = e.materialize(v);
  auto op = AttentionOp::create(e.builder, e.loc, out, lse, qv, kv, vv,
                                mask ? e.materialize(mask) : Value(),
                                llvm::APFloat(scale), causal);
  Val result(op.getOut());
  if (flat)
    result = e.reshape(e.transpose(result, {0, 2, 1, 3}),
                       {q.dim(0), q.dim(2), q.dim(1) * v.dim(3)});
  c.out(result);
}

/// Rotates pairs of the first `rotary_embedding_dim` columns: column i with
/// i + half, or 2i with 2i + 1 when interleaved. cos and sin hold one column
/// per pair.
void rotaryEmbedding(NodeContext &c) {
  Emitter &e = c.emit;
  Val x = splitHeads(c, c.in(0), "num_heads");
  Val cos = c.in(1), sin = c.in(2);
  if (!x || !cos || !sin)
    return;
  bool flat = c.in(0).rank() == 3;
  int64_t width = x.dim(3), rotary = c.intAttr("rotary_embedding_dim", 0);
  rotary = rotary ? rotary : width;
  int64_t half = rotary / 2;
  auto perPosition = [&](Val table) {
    // With positions: rows of [max, half]; without: [B, T, half].
    if (c.has(3))
      table = e.embedding(table, c.in(3));
    return table ? e.reshape(table, {table.dim(0), 1, table.dim(1), half})
                 : Val();
  };
  if ((c.has(3) ? cos.rank() != 2 : cos.rank() != 3) ||
      cos.dim(cos.rank() - 1) != half || cos.shape() != sin.shape()) {
    c.fail("tables " + describe(cos.shape()) + " and " + describe(sin.shape()) +
           " do not fit " + describe(x.type()));
    return;
  }
  Val cosine = perPosition(cos), sine = perPosition(sin);
  bool interleaved = c.intAttr("interleaved", 0) != 0;
  int64_t step = interleaved ? 2 : 1;
  Val x1 = e.sliceDim(x, 3, 0, half, step);
  Val x2 = e.sliceDim(x, 3, interleaved ? 1 : half, half, step);
  auto mul = [&](Val a, Val b) { return e.binary(BinaryKind::mul, a, b); };
  Val y1 = e.binary(BinaryKind::sub, mul(x1, cosine), mul(x2, sine));
  Val y2 = e.binary(BinaryKind::add, mul(x2, cosine), mul(x1, sine));
  if (e.failed())
    return;
  Val rotated;
  if (interleaved) {
    Shape pair = {x.dim(0), x.dim(1), x.dim(2), half, 1};
    rotated = e.reshape(e.concat({e.reshape(y1, pair), e.reshape(y2, pair)}, 4),
                        {x.dim(0), x.dim(1), x.dim(2), rotary});
  } else {
    rotated = e.concat({y1, y2}, 3);
  }
  Val y = rotated;
  if (rotary < width)
    y = e.concat({rotated, e.sliceDim(x, 3, rotary, width - rotary)}, 3);
  if (flat)
    y = e.reshape(e.transpose(y, {0, 2, 1, 3}), c.in(0).shape());
  c.out(y);
}

} // namespace

void addAttentionOps(OpTable &table) {
  table["Attention"] = attention;
  table["RotaryEmbedding"] = rotaryEmbedding;
}

} // namespace dpc::frontend
