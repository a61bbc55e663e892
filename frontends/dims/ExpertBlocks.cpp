//===- ExpertBlocks.cpp - Mixtures of experts -----------------------------===//
#include "frontends/dims/ExpertBlocks.h"

#include <cmath>

using ::onnx::TensorProto;

namespace dpc::model {

static std::string oneHot(OnnxGraph &g, const std::string &indices,
                          int64_t depth) {
  return g.op("OneHot", {indices, g.integer(depth), g.zeroAndOne()},
              {{"axis", int64_t(-1)}});
}

/// Returns the shares and the ids of the chosen experts of each token.
std::pair<std::string, std::string>
ExpertBlocks::choose(const std::string &tokens, const std::string &name) {
  std::string gates = g.op(
      "Softmax",
      {blocks.linear(tokens, name + ".gate", d.hidden, d.experts, d.biased)},
      {{"axis", int64_t(-1)}});
  auto top =
      g.ops("TopK", 2, {gates, g.ints({d.topk})}, {{"axis", int64_t(-1)}});
  std::string sum =
      g.op("ReduceSum", {top[0], g.ints({-1})}, {{"keepdims", int64_t(1)}});
  return {g.op("Div", {top[0], sum}), top[1]};
}

/// Returns silu(gate) * up, or the form of GPT-OSS (ModelDims::gluLimit).
std::string ExpertBlocks::glu(std::string gate, std::string up) {
  if (d.gluLimit == 0)
    return g.op("Mul", {blocks.silu(gate), up});
  constexpr float kSteepness = 1.702F;
  const auto limit = static_cast<float>(d.gluLimit);
  gate = g.op("Min", {gate, g.number(limit)});
  up = g.op("Clip", {up, g.number(-limit), g.number(limit)});
  std::string open =
      g.op("Sigmoid", {g.op("Mul", {gate, g.number(kSteepness)})});
  return g.op("Mul",
              {g.op("Add", {up, g.number(1.0F)}), g.op("Mul", {gate, open})});
}

/// Runs the three products of the experts. `product` multiplies a value with
/// the matrix [experts, inputs, outputs] that it gets.
template <typename Product>
std::string ExpertBlocks::layers(const std::string &given, Product product) {
  std::string gate = product(given, "gate", d.hidden, d.expertFfn);
  std::string up = product(given, "up", d.hidden, d.expertFfn);
  return product(glu(gate, up), "down", d.expertFfn, d.hidden);
}

/// Returns two masks [groups, group, experts, slots] for tokens [groups, group,
/// hidden]. The first mask dispatches tokens to slots; the second mask holds
/// the weights that combine the results of the experts.
std::pair<std::string, std::string>
ExpertBlocks::route(const std::string &tokens, const std::string &name) {
  int64_t k = d.topk, e = d.experts;
  auto slots = static_cast<int64_t>(std::ceil(
      d.capacity * static_cast<double>(d.group * k) / static_cast<double>(e)));
  auto [weights, ids] = choose(tokens, name);
  // [groups, topk, group, experts]: first choices precede second choices.
  std::string chosen = oneHot(g, ids, e);
  std::string inOrder = g.op(
      "Reshape", {g.op("Transpose", {chosen}, {{"perm", Shape{0, 2, 1, 3}}}),
                  g.ints({0, k * d.group, e})});
  std::string places =
      g.op("CumSum", {inOrder, g.integer(1)}, {{"exclusive", int64_t(1)}});
  places =
      g.op("Transpose", {g.op("Reshape", {places, g.ints({0, k, d.group, e})})},
           {{"perm", Shape{0, 2, 1, 3}}});
  std::string fits = g.op(
      "Cast", {g.op("Less", {places, g.number(static_cast<float>(slots))})},
      {{"to", int64_t(TensorProto::FLOAT)}});
  std::string kept = g.op("Mul", {chosen, fits});
  std::string place =
      g.op("ReduceSum", {g.op("Mul", {places, kept}), g.ints({-1})},
           {{"keepdims", int64_t(0)}});
  std::string slot = oneHot(
      g, g.op("Cast", {place}, {{"to", int64_t(TensorProto::INT64)}}), slots);
  std::string dispatch = g.op("Einsum", {kept, slot},
                              {{"equation", std::string("ntke,ntkc->ntec")}});
  std::string weighted =
      g.op("Mul", {kept, g.op("Unsqueeze", {weights, g.ints({-1})})});
  std::string combine = g.op("Einsum", {weighted, slot},
                             {{"equation", std::string("ntke,ntkc->ntec")}});
  return {dispatch, combine};
}

/// Sends tokens to slots, and drops those without a slot.
std::string ExpertBlocks::withSlots(const std::string &x,
                                    const std::string &name) {
  auto einsum = [&](const char *equation, const std::string &a,
                    const std::string &b) {
    return g.op("Einsum", {a, b}, {{"equation", std::string(equation)}});
  };
  std::string tokens = g.op("Reshape", {x, g.ints({-1, d.group, d.hidden})});
  auto [dispatch, combine] = route(tokens, name);
  std::string made = layers(
      einsum("ntec,ntd->encd", dispatch, tokens),
      [&](const std::string &slots, const std::string &part, int64_t inputs,
          int64_t outputs) {
        std::string all = name + ".experts." + part;
        std::string y = einsum("encd,edf->encf", slots,
                               g.weight(all, {d.experts, inputs, outputs}));
        return d.biased ? g.op("Add", {y, g.weight(all + "_bias",
                                                   {d.experts, 1, 1, outputs})})
                        : y;
      });
  std::string y = einsum("ntec,encd->ntd", combine, made);
  return g.op("Reshape", {y, g.ints({-1, d.seq, d.hidden})});
}

/// Multiplies each token with the matrices of its experts, picked by their ids.
/// No token is dropped.
std::string ExpertBlocks::dropless(const std::string &x,
                                   const std::string &name) {
  std::string tokens = g.op("Reshape", {x, g.ints({-1, d.hidden})});
  auto [weights, chosen] = choose(tokens, name);
  std::string ids = g.op("Reshape", {chosen, g.ints({-1})});
  std::string rows = g.op("Expand", {g.op("Unsqueeze", {tokens, g.ints({1})}),
                                     g.ints({1, d.topk, 1})});
  rows = g.op("Reshape", {rows, g.ints({-1, 1, d.hidden})});
  std::string made =
      layers(rows, [&](const std::string &given, const std::string &part,
                       int64_t inputs, int64_t outputs) {
        std::string all = name + ".experts." + part;
        auto pick = [&](const std::string &table, const Shape &shape) {
          return g.op("Gather", {g.weight(table, shape), ids});
        };
        std::string y =
            g.op("MatMul", {given, pick(all, {d.experts, inputs, outputs})});
        if (!d.biased)
          return y;
        std::string bias = pick(all + "_bias", {d.experts, outputs});
        return g.op("Add", {y, g.op("Unsqueeze", {bias, g.ints({1})})});
      });
  made = g.op("Reshape", {made, g.ints({-1, d.topk, d.hidden})});
  std::string weighted =
      g.op("Mul", {made, g.op("Unsqueeze", {weights, g.ints({-1})})});
  std::string y =
      g.op("ReduceSum", {weighted, g.ints({1})}, {{"keepdims", int64_t(0)}});
  return g.op("Reshape", {y, g.ints({-1, d.seq, d.hidden})});
}

std::string ExpertBlocks::mixture(const std::string &x,
                                  const std::string &name) {
  std::string y = d.capacity > 0 ? withSlots(x, name) : dropless(x, name);
  if (d.sharedExperts == 0)
    return y;
  return g.op("Add", {y, blocks.swiGlu(x, name + ".shared",
                                       d.sharedExperts * d.expertFfn)});
}

} // namespace dpc::model
