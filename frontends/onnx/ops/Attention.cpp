//===- Attention.cpp - Matmuls and attention ------------------------------===//
#include "frontends/emit/Contraction.h"
#include "frontends/emit/Layers.h"
#include "frontends/onnx/NodeContext.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace dpc::frontend {

namespace {

/// [B, T, heads * D] -> [B, heads, T, D]; a tensor of rank 4 is unchanged.
Val splitHeads(NodeContext &c, Val x, llvm::StringRef countAttr) {
  if (!x || x.rank() == 4)
    return x;
  int64_t heads = c.intAttr(countAttr, 0);
  if (x.rank() != 3 || heads <= 0 || x.dim(2) % heads)
    return c.fail("{0}={1} does not fit {2}", countAttr, heads, x);
  Val split = c.emit.reshape(x, {x.dim(0), x.dim(1), heads, x.dim(2) / heads});
  return c.emit.transpose(split, {0, 2, 1, 3});
}

constexpr double kForbidden = -std::numeric_limits<double>::infinity();

/// Returns input 3 as an additive mask of rank 4. Masks all keys beyond the
/// last column of the input.
Val givenMask(NodeContext &c, Type element, int64_t keys) {
  Emitter &e = c.emit;
  Val mask = c.in(3);
  if (!mask || mask.rank() < 1 || mask.rank() > 4)
    return c.fail("the mask must have rank 1 to 4");
  if (mask.element().isInteger(1))
    mask = additiveMask(e, mask, element);
  Shape shape = joinShapes({Shape(4 - mask.rank(), 1), mask.shape()});
  mask = e.reshape(mask, shape);
  int64_t missing = keys - shape.back();
  if (missing <= 0 || !mask || shape.back() == 1)
    return mask;
  shape.back() = missing;
  return e.concat({mask, e.splat(kForbidden, element, shape)}, 3);
}

struct Heads {
  Val q, k, v; ///< [B, heads, positions, D]
  Val mask;    ///< additive, rank 4, or null
  bool causal; ///< the first query and the first key have the same position
  double scale;
};

/// Masks keys that are padding. Input 6 is the number of keys per sample.
Val paddingMask(NodeContext &c, int64_t keys, Type element) {
  Emitter &e = c.emit;
  Val lengths = c.in(6);
  if (!lengths)
    return {};
  lengths = e.reshape(e.convert(lengths, e.i64()), {lengths.dim(0), 1, 1, 1});
  return additiveMask(e, e.lt(e.iota({1, 1, 1, keys}, 3), lengths), element);
}

/// Uses separate ops: dpc.attention has no soft cap and returns no scores.
Val explicitAttention(NodeContext &c, const Heads &h, Val causal) {
  Emitter &e = c.emit;
  int64_t heads = h.q.dim(1);
  Val keys = repeatedHeads(e, h.k, heads);
  Val scores = e.mul(e.matmul(h.q, keys, false, true), h.scale);
  int64_t mode = c.intAttr("qk_matmul_output_mode", 0);
  auto show = [&](int64_t stage) {
    if (mode == stage && c.wants(3))
      c.out(3, scores);
  };
  show(0);
  if (double cap = c.floatAttr("softcap", 0.0); cap != 0.0)
    scores = e.mul(e.tanh(e.mul(scores, 1 / cap)), cap);
  show(1);
  for (const Val &mask : {h.mask, causal})
    if (mask)
      scores = e.add(scores, mask);
  show(2);
  scores = e.softmax(scores);
  show(3);
  return e.matmul(scores, repeatedHeads(e, h.v, heads));
}

/// Prepends cached keys and values, and outputs the concatenations.
bool joinCache(NodeContext &c, Heads &h) {
  Emitter &e = c.emit;
  if (c.has(4) != c.has(5)) {
    c.fail("past_key and past_value must be given together");
    return false;
  }
  if (c.has(4)) {
    h.k = e.concat({c.in(4), h.k}, 2);
    h.v = e.concat({c.in(5), h.v}, 2);
  }
  c.out(1, h.k);
  c.out(2, h.v);
  return h.k && h.v;
}

Val attention(NodeContext &c, Val q, Val k, Val v) {
  Emitter &e = c.emit;
  Heads h;
  h.q = splitHeads(c, q, "q_num_heads");
  h.k = splitHeads(c, k, "kv_num_heads");
  h.v = splitHeads(c, v, "kv_num_heads");
  if (!h.q || !h.k || !h.v)
    return {};
  int64_t fresh = h.k.dim(2);
  if (!joinCache(c, h))
    return {};
  if (h.k.dim(1) == 0 || h.q.dim(1) % h.k.dim(1) || h.q.dim(3) != h.k.dim(3) ||
      h.k.dim(2) != h.v.dim(2) || h.v.dim(1) != h.k.dim(1))
    return c.fail("shapes of q, k and v do not fit: {0}, {1}, {2}", h.q.shape(),
                  h.k.shape(), h.v.shape());
  int64_t queries = h.q.dim(2), keys = h.k.dim(2);
  Type element = h.q.element();
  h.mask = c.has(3) ? givenMask(c, element, keys) : Val();
  if (c.has(6))
    h.mask = joinedMasks(e, h.mask, paddingMask(c, keys, element));
  h.causal = c.intAttr("is_causal", 0) != 0;
  h.scale = c.floatAttr("scale", 1.0 / std::sqrt(h.q.dim(3)));
  bool isExplicit = c.floatAttr("softcap", 0.0) != 0.0 || c.wants(3);
  Val causal = h.causal && (isExplicit || queries != keys)
                   ? causalMask(queries, keys, keys - fresh, element)
                   : Val();
  // dpc aligns the last query with the last key; ONNX aligns the first ones.
  if (causal && !isExplicit) {
    h.mask = joinedMasks(e, h.mask, causal);
    h.causal = false;
  }
  if (e.failed())
    return {};
  Val result = isExplicit
                   ? explicitAttention(c, h, causal)
                   : makeAttention(e, h.q, h.k, h.v, h.mask, h.scale, h.causal);
  if (q.rank() == 3)
    result = e.reshape(e.transpose(result, {0, 2, 1, 3}),
                       {h.q.dim(0), queries, h.q.dim(1) * h.v.dim(3)});
  return result;
}

/// Rotates pairs among the first `rotary_embedding_dim` columns: columns i and
/// i + half, or columns 2i and 2i + 1 if interleaved. cos and sin have one
/// column per pair.
Val rotaryEmbedding(NodeContext &c, Val given, Val cos, Val sin) {
  Emitter &e = c.emit;
  Val x = splitHeads(c, given, "num_heads");
  if (!x)
    return {};
  int64_t width = x.dim(3), rotary = c.intAttr("rotary_embedding_dim", 0);
  rotary = rotary ? rotary : width;
  int64_t half = rotary / 2;
  auto perPosition = [&](Val table) {
    // Shape of the tables: [max, half] with position ids, else [B, T, half].
    if (c.has(3))
      table = e.embedding(table, c.in(3));
    return table ? e.reshape(table, {table.dim(0), 1, table.dim(1), half})
                 : Val();
  };
  if ((c.has(3) ? cos.rank() != 2 : cos.rank() != 3) ||
      cos.dim(cos.rank() - 1) != half || cos.shape() != sin.shape())
    return c.fail("tables {0} and {1} do not fit {2}", cos.shape(), sin.shape(),
                  x);
  Val cosine = perPosition(cos), sine = perPosition(sin);
  bool interleaved = c.intAttr("interleaved", 0) != 0;
  int64_t step = interleaved ? 2 : 1;
  Val x1 = e.sliceDim(x, 3, 0, half, step);
  Val x2 = e.sliceDim(x, 3, interleaved ? 1 : half, half, step);
  Val y1 = e.sub(e.mul(x1, cosine), e.mul(x2, sine));
  Val y2 = e.add(e.mul(x2, cosine), e.mul(x1, sine));
  if (e.failed())
    return {};
  Val y;
  if (interleaved) {
    Shape pair = {x.dim(0), x.dim(1), x.dim(2), half, 1};
    y = e.reshape(e.concat({e.reshape(y1, pair), e.reshape(y2, pair)}, 4),
                  {x.dim(0), x.dim(1), x.dim(2), rotary});
  } else {
    y = e.concat({y1, y2}, 3);
  }
  if (rotary < width)
    y = e.concat({y, e.sliceDim(x, 3, rotary, width - rotary)}, 3);
  return given.rank() == 4
             ? y
             : e.reshape(e.transpose(y, {0, 2, 1, 3}), given.shape());
}

Val matmul(Emitter &e, Val a, Val b) { return stackedMatmul(e, a, b); }

Val gemm(NodeContext &c, Val a, Val b) {
  Emitter &e = c.emit;
  double alpha = c.floatAttr("alpha", 1.0), beta = c.floatAttr("beta", 1.0);
  if (a.rank() != 2 || b.rank() != 2)
    return c.fail("operands must be matrices, not {0} and {1}", a, b);
  Val result =
      e.matmul(a, b, c.intAttr("transA", 0) != 0, c.intAttr("transB", 0) != 0);
  if (alpha != 1.0)
    result = e.mul(result, alpha);
  if (c.has(2) && beta != 0.0) {
    Val bias = c.in(2);
    if (beta != 1.0)
      bias = e.mul(bias, beta);
    result = e.add(result, bias);
  }
  return result;
}

Val einsumOf(NodeContext &c) {
  llvm::SmallVector<Val> operands = c.allIn();
  return c.emit.failed()
             ? Val()
             : einsum(c.emit, c.stringAttr("equation", ""), operands);
}

} // namespace

void addAttentionOps(OpTable &table) {
  table["Attention"] = attention;
  table["RotaryEmbedding"] = rotaryEmbedding;
  table["MatMul"] = matmul;
  table["Gemm"] = gemm;
  table["Einsum"] = einsumOf;
}

} // namespace dpc::frontend
