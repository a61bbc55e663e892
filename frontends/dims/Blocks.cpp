//===- Blocks.cpp - Building blocks of transformer layers -----------------===//
#include "frontends/dims/Blocks.h"

#include <cmath>

using ::onnx::TensorProto;

namespace dpc::model {

std::string Blocks::linear(const std::string &x, const std::string &name,
                           int64_t inputs, int64_t outputs, bool hasBias) {
  std::string y =
      g.op("MatMul", {x, g.weight(name + ".weight", {inputs, outputs})});
  return hasBias ? g.op("Add", {y, g.weight(name + ".bias", {outputs})}) : y;
}

std::string Blocks::layerNorm(const std::string &x, const std::string &name) {
  std::vector<std::string> inputs = {x, g.weight(name + ".weight", {d.hidden})};
  if (hasBiases)
    inputs.push_back(g.weight(name + ".bias", {d.hidden}));
  return g.op("LayerNormalization", inputs,
              {{"axis", int64_t(-1)}, {"epsilon", 1e-5F}});
}

std::string Blocks::plainNorm(const std::string &x) {
  auto mean = [&](const std::string &of) {
    return g.op("ReduceMean", {of, g.ints({-1})}, {{"keepdims", int64_t(1)}});
  };
  std::string centered = g.op("Sub", {x, mean(x)});
  std::string variance = mean(g.op("Mul", {centered, centered}));
  std::string deviation =
      g.op("Sqrt", {g.op("Add", {variance, g.number(1e-6F)})});
  return g.op("Div", {centered, deviation});
}

std::string Blocks::rmsNorm(const std::string &x, const std::string &name,
                            int64_t width) {
  return g.op("RMSNormalization", {x, g.weight(name + ".weight", {width})},
              {{"axis", int64_t(-1)}, {"epsilon", 1e-5F}});
}

std::string Blocks::causalMask() {
  std::string shape = g.ints({d.seq, d.seq});
  std::string masked = g.op("Expand", {g.number(-1e9F), shape});
  return g.op("Trilu", {masked, g.integer(1)}, {{"upper", int64_t(1)}});
}

std::string Blocks::windowMask() {
  std::string shape = g.ints({d.seq, d.seq});
  std::string masked = g.op("Expand", {g.number(-1e9F), shape});
  return g.op("Trilu", {masked, g.integer(-d.window)}, {{"upper", int64_t(0)}});
}

/// ALiBi slopes (Press et al., 2021). If the number n of heads is a power of
/// two, slope i is 2^(-8 i / n) with i = 1 to n. Otherwise, the slopes for the
/// next lower power of two come first, then every other slope for the next
/// higher power of two (as in the paper's code).
static std::vector<float> alibiSlopes(int64_t heads) {
  int64_t power = 1;
  while (2 * power <= heads)
    power *= 2;
  std::vector<float> slopes;
  for (int64_t i = 1; i <= power; ++i)
    slopes.push_back(
        std::exp2(-8.0F * static_cast<float>(i) / static_cast<float>(power)));
  for (int64_t i = 1; static_cast<int64_t>(slopes.size()) < heads; i += 2)
    slopes.push_back(
        std::exp2(-4.0F * static_cast<float>(i) / static_cast<float>(power)));
  return slopes;
}

static std::string positions(OnnxGraph &g, int64_t length) {
  std::string range =
      g.op("Range", {g.integer(0), g.integer(length), g.integer(1)});
  return g.op("Cast", {range}, {{"to", int64_t(TensorProto::FLOAT)}});
}

std::string Blocks::alibi() {
  std::string slopes = g.op(
      "Reshape", {g.table(alibiSlopes(d.heads)), g.ints({1, d.heads, 1, 1})});
  return g.op("Mul", {slopes, positions(g, d.seq)});
}

std::vector<float> frequencies(int64_t count, double base) {
  std::vector<float> values(count);
  for (int64_t i = 0; i < count; ++i)
    values[i] = static_cast<float>(
        std::pow(base, -static_cast<double>(i) / static_cast<double>(count)));
  return values;
}

void Blocks::rotaryTables(Shared &shared) {
  int64_t width = d.isLatent() ? d.ropeDim : d.headDim;
  std::string columns = g.op("Unsqueeze", {positions(g, d.seq), g.ints({1})});
  std::string half =
      g.op("Mul", {columns, g.vector("rope.inv_freq",
                                     frequencies(width / 2, d.ropeTheta))});
  std::string angles = g.op("Concat", {half, half}, {{"axis", int64_t(-1)}});
  shared.cos = g.op("Cos", {angles});
  shared.sin = g.op("Sin", {angles});
}

std::string Blocks::rope(const std::string &x, const Shared &shared) {
  auto halves = g.ops("Split", 2, {x},
                      {{"axis", int64_t(-1)}, {"num_outputs", int64_t(2)}});
  std::string rotated = g.op("Concat", {g.op("Neg", {halves[1]}), halves[0]},
                             {{"axis", int64_t(-1)}});
  return g.op("Add", {g.op("Mul", {x, shared.cos}),
                      g.op("Mul", {rotated, shared.sin})});
}

std::string Blocks::toHeads(const std::string &x, int64_t heads,
                            int64_t width) {
  std::string split = g.op("Reshape", {x, g.ints({0, 0, heads, width})});
  return g.op("Transpose", {split}, {{"perm", Shape{0, 2, 1, 3}}});
}

std::string Blocks::softmaxWithSinks(const std::string &scores,
                                     const std::string &name) {
  std::string sinks = g.op("Reshape", {g.weight(name + ".sinks", {d.heads}),
                                       g.ints({1, d.heads, 1, 1})});
  std::string batch =
      g.op("Shape", {scores}, {{"start", int64_t(0)}, {"end", int64_t(1)}});
  std::string shape = g.op("Concat", {batch, g.ints({d.heads, d.seq, 1})},
                           {{"axis", int64_t(0)}});
  std::string all = g.op("Concat", {scores, g.op("Expand", {sinks, shape})},
                         {{"axis", int64_t(-1)}});
  all = g.op("Softmax", {all}, {{"axis", int64_t(-1)}});
  return g.op("Slice", {all, g.ints({0}), g.ints({d.seq}), g.ints({-1})});
}

std::string Blocks::attend(const std::string &q, const std::string &k,
                           const std::string &v, int64_t width,
                           const std::string &name, const Shared &shared) {
  std::string keys = g.op("Transpose", {k}, {{"perm", Shape{0, 1, 3, 2}}});
  std::string scores = g.op("MatMul", {q, keys});
  scores = g.op(
      "Mul", {scores, g.number(1.0F / std::sqrt(static_cast<float>(width)))});
  for (const std::string &term : {shared.bias, shared.window, shared.mask})
    if (!term.empty())
      scores = g.op("Add", {scores, term});
  std::string weights =
      d.hasSinks ? softmaxWithSinks(scores, name)
                 : g.op("Softmax", {scores}, {{"axis", int64_t(-1)}});
  std::string mixed = g.op("Transpose", {g.op("MatMul", {weights, v})},
                           {{"perm", Shape{0, 2, 1, 3}}});
  return g.op("Reshape", {mixed, g.ints({0, 0, d.heads * d.valueDim})});
}

std::string Blocks::fusedAttention(const std::string &x,
                                   const std::string &name,
                                   const Shared &shared) {
  int64_t width = d.heads * d.headDim;
  auto parts = g.ops("Split", 3,
                     {linear(x, name + ".qkv", d.hidden, 3 * width, hasBiases)},
                     {{"axis", int64_t(-1)}, {"num_outputs", int64_t(3)}});
  std::string mixed =
      attend(toHeads(parts[0], d.heads, d.headDim),
             toHeads(parts[1], d.heads, d.headDim),
             toHeads(parts[2], d.heads, d.headDim), d.headDim, name, shared);
  return linear(mixed, name + ".out", width, d.hidden, hasBiases);
}

std::string Blocks::repeatHeads(const std::string &x, int64_t length) {
  int64_t repeats = d.heads / d.kvHeads;
  if (repeats == 1)
    return x;
  std::string apart = g.op("Unsqueeze", {x, g.ints({2})});
  std::string wide =
      g.op("Expand", {apart, g.ints({1, 1, repeats, length, d.headDim})});
  return g.op("Reshape", {wide, g.ints({0, d.heads, length, d.headDim})});
}

std::string Blocks::groupedAttention(const std::string &x,
                                     const std::string &name,
                                     const Shared &shared) {
  auto project = [&](const char *part, int64_t heads) {
    return toHeads(
        linear(x, name + part, d.hidden, heads * d.headDim, hasBiases), heads,
        d.headDim);
  };
  auto turned = [&](const char *part, int64_t heads) {
    std::string y = project(part, heads);
    if (d.qkNorm)
      y = rmsNorm(y, name + part + "_norm", d.headDim);
    return rope(y, shared);
  };
  std::string q = turned(".q", d.heads), k = turned(".k", d.kvHeads);
  std::string v = project(".v", d.kvHeads);
  std::string mixed = attend(q, repeatHeads(k, d.seq), repeatHeads(v, d.seq),
                             d.headDim, name, shared);
  return linear(mixed, name + ".out", d.heads * d.headDim, d.hidden, hasBiases);
}

std::pair<std::string, std::string>
Blocks::splitLast(const std::string &x, int64_t first, int64_t second) {
  auto parts =
      g.ops("Split", 2, {x, g.ints({first, second})}, {{"axis", int64_t(-1)}});
  return {parts[0], parts[1]};
}

std::string Blocks::latentAttention(const std::string &x,
                                    const std::string &name,
                                    const Shared &shared) {
  const int64_t width = d.headDim + d.ropeDim;
  auto norm = [&](const std::string &latent, const char *part, int64_t rank) {
    return rmsNorm(latent, name + part + "_norm", rank);
  };
  std::string queries = x;
  if (d.qRank > 0)
    queries = norm(linear(x, name + ".q_down", d.hidden, d.qRank, false),
                   ".q_down", d.qRank);
  queries = linear(queries, name + ".q", d.qRank > 0 ? d.qRank : d.hidden,
                   d.heads * width, false);
  auto [still, turning] =
      splitLast(toHeads(queries, d.heads, width), d.headDim, d.ropeDim);
  std::string q =
      g.op("Concat", {still, rope(turning, shared)}, {{"axis", int64_t(-1)}});
  // All heads share the rotated part of the keys.
  auto [latent, sharedKey] = splitLast(
      linear(x, name + ".kv_down", d.hidden, d.kvRank + d.ropeDim, false),
      d.kvRank, d.ropeDim);
  std::string key = rope(toHeads(sharedKey, 1, d.ropeDim), shared);
  key = g.op("Expand", {key, g.ints({1, d.heads, 1, 1})});
  std::string pairs =
      linear(norm(latent, ".kv_down", d.kvRank), name + ".kv", d.kvRank,
             d.heads * (d.headDim + d.valueDim), false);
  auto [keys, values] = splitLast(
      toHeads(pairs, d.heads, d.headDim + d.valueDim), d.headDim, d.valueDim);
  std::string k = g.op("Concat", {keys, key}, {{"axis", int64_t(-1)}});
  return linear(attend(q, k, values, width, name, shared), name + ".out",
                d.heads * d.valueDim, d.hidden, false);
}

std::string Blocks::geluFfn(const std::string &x, const std::string &name,
                            const char *approximate) {
  std::string y = linear(x, name + ".up", d.hidden, d.ffn, hasBiases);
  y = g.op("Gelu", {y}, {{"approximate", std::string(approximate)}});
  return linear(y, name + ".down", d.ffn, d.hidden, hasBiases);
}

std::string Blocks::silu(const std::string &x) {
  return g.op("Mul", {x, g.op("Sigmoid", {x})});
}

std::string Blocks::swiGlu(const std::string &x, const std::string &name,
                           int64_t width) {
  std::string gate = silu(linear(x, name + ".gate", d.hidden, width, false));
  std::string up = linear(x, name + ".up", d.hidden, width, false);
  return linear(g.op("Mul", {gate, up}), name + ".down", width, d.hidden,
                false);
}

std::string Blocks::crossEntropy(const std::string &logits,
                                 const std::string &labels, int64_t classes) {
  std::string rows = g.op("Reshape", {logits, g.ints({-1, classes})});
  std::string names = g.op("Reshape", {labels, g.ints({-1})});
  std::vector<Attribute> attributes = {{"reduction", std::string("mean")}};
  // Labels of unmasked tokens, and of tokens after the end.
  if (d.family == Family::bert || d.furtherTokens > 0)
    attributes.push_back({"ignore_index", kIgnoredLabel});
  return g.op("SoftmaxCrossEntropyLoss", {rows, names}, attributes);
}

} // namespace dpc::model
