//===- Families.cpp - Networks of all model families ----------------------===//
#include "frontends/dims/ExpertBlocks.h"
#include "frontends/dims/ModelBuilder.h"
#include "frontends/dims/StatedDims.h"

using ::onnx::TensorProto;

namespace dpc::model {

namespace {

class Builder {
public:
  explicit Builder(const ModelDims &dims)
      : d(dims), g(std::string(stringifyFamily(dims.family))),
        b(g, d, dims.isGated() ? dims.biased : dims.family != Family::mpt) {}

  Model run();

private:
  const ModelDims &d;
  OnnxGraph g;
  Blocks b;
  std::string headWeight; ///< [hidden, vocab]; set by head()

  void decoder();
  void bert();
  void vit();
  void dit();

  std::string add(const std::string &x, const std::string &y) {
    return g.op("Add", {x, y});
  }
  std::string decoderLayer(std::string x, int64_t layer, Shared shared);
  std::string norm(const std::string &x, const std::string &name) {
    return d.isGated() ? b.rmsNorm(x, name, d.hidden) : b.layerNorm(x, name);
  }
  std::string head(const std::string &x, const std::string &table);
  std::string later(const std::string &ids, int64_t last);
  std::string furtherLoss(std::string x, std::string ids, std::string labels,
                          const std::string &table, const Shared &shared);
  std::string patches(const std::string &pixels);
  std::string ditCondition();
  std::string ditPositions();
  std::vector<std::string> modulation(const std::string &condition,
                                      const std::string &name, int64_t parts);
  std::string modulate(const std::string &x, const std::string &shift,
                       const std::string &scale);
  std::string unpatch(const std::string &x, int64_t channels);
};

} // namespace

static std::string layerName(int64_t layer) {
  return "layers." + std::to_string(layer);
}

std::string Builder::head(const std::string &x, const std::string &table) {
  if (headWeight.empty())
    headWeight = d.tied ? g.op("Transpose", {table}, {{"perm", Shape{1, 0}}})
                        : g.weight("head.weight", {d.hidden, d.vocab});
  return g.op("MatMul", {x, headWeight});
}

std::string Builder::decoderLayer(std::string x, int64_t layer, Shared shared) {
  if (layer % 2 == 1)
    shared.window.clear();
  std::string name = layerName(layer);
  std::string y = norm(x, name + ".norm1");
  std::string attention = name + ".attention";
  x = add(x, d.isLatent()  ? b.latentAttention(y, attention, shared)
             : d.isGated() ? b.groupedAttention(y, attention, shared)
                           : b.fusedAttention(y, attention, shared));
  y = norm(x, name + ".norm2");
  if (d.family == Family::moe && layer >= d.denseLayers)
    return add(x, ExpertBlocks(g, d, b).mixture(y, name + ".moe"));
  if (d.isGated())
    return add(x, b.swiGlu(y, name + ".ffn", d.ffn));
  return add(x, b.geluFfn(y, name + ".ffn",
                          d.family == Family::mpt ? "none" : "tanh"));
}

void Builder::decoder() {
  std::string ids = g.input("ids", TensorProto::INT64, {d.seq});
  std::string labels = g.input("labels", TensorProto::INT64, {d.seq});
  std::string table = g.weight("embedding.weight", {d.vocab, d.hidden});
  std::string x = g.op("Gather", {table, ids});
  Shared shared;
  shared.mask = b.causalMask();
  if (d.window > 0)
    shared.window = b.windowMask();
  if (d.family == Family::gpt)
    x = add(x, g.weight("positions.weight", {d.seq, d.hidden}));
  else if (d.isGated())
    b.rotaryTables(shared);
  else
    shared.bias = b.alibi();
  if (d.family == Family::bloom)
    x = b.layerNorm(x, "embedding.norm");
  for (int64_t layer = 0; layer < d.layers; ++layer)
    x = decoderLayer(x, layer, shared);
  std::string loss =
      b.crossEntropy(head(norm(x, "norm"), table), labels, d.vocab);
  if (d.furtherTokens > 0)
    loss = add(loss, furtherLoss(x, ids, labels, table, shared));
  g.result("loss", loss);
}

/// Returns [seq] integers moved by one position, with `last` at the end.
std::string Builder::later(const std::string &ids, int64_t last) {
  std::string rest =
      g.op("Slice", {ids, g.ints({1}), g.ints({d.seq}), g.ints({1})});
  return g.op("Pad", {rest, g.ints({0, 0, 0, 1}), g.integer(last)});
}

/// Adds the modules for multi-token prediction (DeepSeek-V3, section 2.2) after
/// the layers, whose result is `x`, and returns their weighted loss. Module k
/// predicts the token k + 1 positions ahead from the result of the module
/// before it and the embedding of the token k positions ahead.
std::string Builder::furtherLoss(std::string x, std::string ids,
                                 std::string labels, const std::string &table,
                                 const Shared &shared) {
  constexpr float kWeight = 0.3F; // section 4.2, for most of the training
  std::string sum;
  for (int64_t k = 0; k < d.furtherTokens; ++k) {
    std::string name = layerName(d.layers + k);
    ids = later(ids, 0);
    labels = later(labels, kIgnoredLabel);
    std::string token =
        norm(g.op("Gather", {table, ids}), name + ".embedding_norm");
    std::string both = g.op("Concat", {token, norm(x, name + ".hidden_norm")},
                            {{"axis", int64_t(-1)}});
    x = b.linear(both, name + ".projection", 2 * d.hidden, d.hidden, false);
    x = decoderLayer(x, d.layers + k, shared);
    std::string loss =
        b.crossEntropy(head(norm(x, name + ".norm"), table), labels, d.vocab);
    sum = sum.empty() ? loss : add(sum, loss);
  }
  return g.op("Mul",
              {sum, g.number(kWeight / static_cast<float>(d.furtherTokens))});
}

void Builder::bert() {
  std::string ids = g.input("ids", TensorProto::INT64, {d.seq});
  std::string types = g.input("types", TensorProto::INT64, {d.seq});
  std::string labels = g.input("labels", TensorProto::INT64, {d.seq});
  std::string table = g.weight("embedding.weight", {d.vocab, d.hidden});
  std::string x = add(g.op("Gather", {table, ids}),
                      g.weight("positions.weight", {d.seq, d.hidden}));
  x = add(x, g.op("Gather", {g.weight("types.weight", {2, d.hidden}), types}));
  x = b.layerNorm(x, "embedding.norm");
  for (int64_t layer = 0; layer < d.layers; ++layer) {
    std::string name = layerName(layer);
    x = b.layerNorm(add(x, b.fusedAttention(x, name + ".attention", {})),
                    name + ".norm1");
    x = b.layerNorm(add(x, b.geluFfn(x, name + ".ffn", "none")),
                    name + ".norm2");
  }
  x = g.op("Gelu", {b.linear(x, "transform", d.hidden, d.hidden, true)});
  x = head(b.layerNorm(x, "norm"), table);
  x = add(x, g.weight("head.bias", {d.vocab}));
  g.result("loss", b.crossEntropy(x, labels, d.vocab));
}

/// Converts images [batch, channels, image, image] to [batch, patches, hidden].
std::string Builder::patches(const std::string &pixels) {
  std::string filter =
      g.weight("patches.weight", {d.hidden, d.channels, d.patch, d.patch});
  std::string x =
      g.op("Conv", {pixels, filter, g.weight("patches.bias", {d.hidden})},
           {{"kernel_shape", Shape{d.patch, d.patch}},
            {"strides", Shape{d.patch, d.patch}}});
  x = g.op("Reshape", {x, g.ints({0, d.hidden, d.seq})});
  return g.op("Transpose", {x}, {{"perm", Shape{0, 2, 1}}});
}

void Builder::vit() {
  std::string pixels =
      g.input("pixels", TensorProto::FLOAT, {d.channels, d.image, d.image});
  std::string label = g.input("label", TensorProto::INT64, {});
  std::string x = patches(pixels);
  std::string batch =
      g.op("Shape", {pixels}, {{"start", int64_t(0)}, {"end", int64_t(1)}});
  std::string wide =
      g.op("Concat", {batch, g.ints({1, d.hidden})}, {{"axis", int64_t(0)}});
  std::string token =
      g.op("Expand", {g.weight("class_token.weight", {1, 1, d.hidden}), wide});
  x = g.op("Concat", {token, x}, {{"axis", int64_t(1)}});
  x = add(x, g.weight("positions.weight", {d.seq + 1, d.hidden}));
  for (int64_t layer = 0; layer < d.layers; ++layer) {
    std::string name = layerName(layer);
    x = add(x, b.fusedAttention(b.layerNorm(x, name + ".norm1"),
                                name + ".attention", {}));
    x = add(x,
            b.geluFfn(b.layerNorm(x, name + ".norm2"), name + ".ffn", "none"));
  }
  x = g.op("Slice",
           {b.layerNorm(x, "norm"), g.ints({0}), g.ints({1}), g.ints({1})});
  x = g.op("Reshape", {x, g.ints({-1, d.hidden})});
  x = b.linear(x, "head", d.hidden, d.classes, true);
  g.result("loss", b.crossEntropy(x, label, d.classes));
}

/// Returns the condition [batch, hidden]: the class embedding plus an MLP of
/// the sinusoidal time embedding.
std::string Builder::ditCondition() {
  constexpr int64_t half = 128; // as in the paper's code
  std::string time = g.input("time", TensorProto::FLOAT, {});
  std::string kind = g.input("class", TensorProto::INT64, {});
  std::string angles =
      g.op("Mul", {g.op("Unsqueeze", {time, g.ints({1})}),
                   g.vector("time.freq", frequencies(half, 1e4))});
  std::string waves =
      g.op("Concat", {g.op("Cos", {angles}), g.op("Sin", {angles})},
           {{"axis", int64_t(-1)}});
  std::string x = b.silu(b.linear(waves, "time.up", 2 * half, d.hidden, true));
  x = b.linear(x, "time.down", d.hidden, d.hidden, true);
  // The additional row represents "no class" (classifier-free guidance).
  std::string table = g.weight("classes.weight", {d.classes + 1, d.hidden});
  return add(x, g.op("Gather", {table, kind}));
}

/// Returns [patches, hidden]: fixed sines and cosines of the patch coordinates.
std::string Builder::ditPositions() {
  int64_t side = d.image / d.patch, quarter = d.hidden / 4;
  std::string range =
      g.op("Range", {g.integer(0), g.integer(side), g.integer(1)});
  std::string column =
      g.op("Unsqueeze",
           {g.op("Cast", {range}, {{"to", int64_t(TensorProto::FLOAT)}}),
            g.ints({1})});
  std::string angles = g.op(
      "Mul", {column, g.vector("positions.freq", frequencies(quarter, 1e4))});
  std::string waves =
      g.op("Concat", {g.op("Sin", {angles}), g.op("Cos", {angles})},
           {{"axis", int64_t(-1)}}); // [side, hidden / 2]
  std::vector<std::string> parts;
  for (int64_t axis : {0, 1})
    parts.push_back(g.op("Expand", {g.op("Unsqueeze", {waves, g.ints({axis})}),
                                    g.ints({side, side, 2 * quarter})}));
  return g.op("Reshape", {g.op("Concat", parts, {{"axis", int64_t(-1)}}),
                          g.ints({d.seq, d.hidden})});
}

/// Maps the condition [batch, hidden] to `parts` vectors [batch, 1, hidden].
std::vector<std::string> Builder::modulation(const std::string &condition,
                                             const std::string &name,
                                             int64_t parts) {
  std::string all = b.linear(condition, name, d.hidden, parts * d.hidden, true);
  all = g.op("Unsqueeze", {all, g.ints({1})});
  return g.ops("Split", static_cast<int>(parts), {all},
               {{"axis", int64_t(-1)}, {"num_outputs", parts}});
}

std::string Builder::modulate(const std::string &x, const std::string &shift,
                              const std::string &scale) {
  std::string factor = add(scale, g.number(1.0F));
  return add(g.op("Mul", {b.plainNorm(x), factor}), shift);
}

/// Converts patches [batch, patches, ..] to images [batch, channels, ..].
std::string Builder::unpatch(const std::string &x, int64_t channels) {
  int64_t side = d.image / d.patch;
  std::string apart =
      g.op("Reshape", {x, g.ints({0, side, side, d.patch, d.patch, channels})});
  std::string moved =
      g.op("Transpose", {apart}, {{"perm", Shape{0, 5, 1, 3, 2, 4}}});
  return g.op("Reshape", {moved, g.ints({0, channels, d.image, d.image})});
}

void Builder::dit() {
  Shape pixels = {d.channels, d.image, d.image};
  std::string x = patches(g.input("latent", TensorProto::FLOAT, pixels));
  std::string target = g.input("target", TensorProto::FLOAT, pixels);
  std::string condition = b.silu(ditCondition());
  x = add(x, ditPositions());
  for (int64_t layer = 0; layer < d.layers; ++layer) {
    std::string name = layerName(layer);
    auto m = modulation(condition, name + ".modulation", 6);
    std::string y =
        b.fusedAttention(modulate(x, m[0], m[1]), name + ".attention", {});
    x = add(x, g.op("Mul", {y, m[2]}));
    y = b.geluFfn(modulate(x, m[3], m[4]), name + ".ffn", "tanh");
    x = add(x, g.op("Mul", {y, m[5]}));
  }
  auto m = modulation(condition, "final.modulation", 2);
  // The model predicts noise and variance, but the loss reads only the noise.
  int64_t outputs = 2 * d.channels;
  x = b.linear(modulate(x, m[0], m[1]), "final.out", d.hidden,
               d.patch * d.patch * outputs, true);
  std::string noise = g.op("Slice", {unpatch(x, outputs), g.ints({0}),
                                     g.ints({d.channels}), g.ints({1})});
  std::string error = g.op("Sub", {noise, target});
  g.result("loss", g.op("ReduceMean", {g.op("Mul", {error, error})},
                        {{"keepdims", int64_t(0)}}));
}

Model Builder::run() {
  switch (d.family) {
  case Family::bert:
    bert();
    break;
  case Family::vit:
    vit();
    break;
  case Family::dit:
    dit();
    break;
  default:
    decoder();
  }
  Model model;
  model.parameters = g.parameters();
  model.proto = g.take();
  auto *stated = model.proto.add_metadata_props();
  stated->set_key(kDimsKey);
  stated->set_value(stringifyDims(d));
  return model;
}

Model buildModel(const ModelDims &dims) { return Builder(dims).run(); }

} // namespace dpc::model
