//===- dpc-model.cpp - Writes models without weights from their dims ------===//
#include "frontends/dims/ModelBuilder.h"
#include "tools/cli/CommandLine.h"

#include <algorithm>
#include <cstdio>
#include <fstream>

using namespace dpc::model;

namespace {

struct Options {
  ModelDims dims;
  std::string name;   ///< of the family or published model
  std::string output; ///< default: NAME.onnx
};

void addSize(CLI::App &app, const char *name, int64_t &value,
             const char *help) {
  app.add_option(name, value, help)->capture_default_str();
}

void addTextOptions(CLI::App &app, ModelDims &d) {
  addSize(app, "--vocab", d.vocab, "Size of the vocabulary");
  addSize(app, "--seq", d.seq, "Tokens per sample");
  if (d.family != Family::bert)
    app.add_flag("--tied,!--untied", d.tied,
                 "Share the weight of the embedding and the head")
        ->default_str(d.tied ? "tied" : "untied");
}

void addImageOptions(CLI::App &app, ModelDims &d) {
  addSize(app, "--image", d.image, "Side of the image or latent in pixels");
  addSize(app, "--patch", d.patch, "Side of a patch in pixels");
  addSize(app, "--channels", d.channels, "Channels of the image or latent");
  addSize(app, "--classes", d.classes, "Classes");
}

void addExpertOptions(CLI::App &app, ModelDims &d) {
  addSize(app, "--experts", d.experts, "Experts per layer");
  addSize(app, "--topk", d.topk, "Experts per token");
  addSize(app, "--expert-ffn", d.expertFfn,
          "Width of an expert; 0: same as --ffn");
  addSize(app, "--shared-experts", d.sharedExperts,
          "Experts that take every token");
  addSize(app, "--dense-layers", d.denseLayers,
          "Number of first layers without experts");
  addSize(app, "--mtp", d.furtherTokens,
          "Multi-token prediction: modules after the layers that predict one "
          "more token each");
  addSize(app, "--group", d.group,
          "Tokens that share the slots of the experts; 0: at most 256");
  app.add_option(
         "--capacity", d.capacity,
         "Slots per token and choice; tokens without a slot are dropped. 0: "
         "no slots; all choices are computed")
      ->capture_default_str();
  app.add_option("--glu-limit", d.gluLimit,
                 "Bound of the gates of experts, as in GPT-OSS; 0: SwiGLU")
      ->capture_default_str();
}

void addAttentionOptions(CLI::App &app, ModelDims &d) {
  auto add = [&](const std::string &name, bool &flag, const char *help) {
    app.add_flag("--" + name + ",!--no-" + name, flag, help)
        ->default_str((flag ? "" : "no-") + name);
  };
  add("qk-norm", d.qkNorm, "Norm the heads of queries and keys");
  add("biases", d.biased, "Biases of attention, routers and experts");
  add("sinks", d.hasSinks, "A learned score of each head without a value");
  addSize(app, "--window", d.window,
          "Keys of a query in every other layer; 0: all");
  addSize(app, "--kv-rank", d.kvRank,
          "Latent vector of keys and values (latent attention); 0: none");
  addSize(app, "--q-rank", d.qRank, "Latent vector of queries; 0: none");
  addSize(app, "--rope-dim", d.ropeDim,
          "Rotated elements of a head, in addition to --head-dim");
  addSize(app, "--value-dim", d.valueDim,
          "Width of a head of the values; 0: same as --head-dim");
}

/// Adds the family or published model `name`.
void addModel(CLI::App &app, Options &options, std::string_view name,
              std::string_view text) {
  ModelDims &d = options.dims;
  Family family = d.family;
  options.name = name;
  CLI::App &sub = *app.add_subcommand(options.name, std::string(text));
  addSize(sub, "--layers", d.layers, "Layers");
  addSize(sub, "--hidden", d.hidden, "Width of the model");
  addSize(sub, "--heads", d.heads, "Attention heads");
  addSize(sub, "--ffn", d.ffn,
          d.isGated() ? "Width of the feed-forward layers"
                      : "Width of the feed-forward layers; 0: 4 x hidden");
  if (d.isGated()) {
    addSize(sub, "--kv-heads", d.kvHeads, "Key and value heads");
    addSize(sub, "--head-dim", d.headDim, "Width of a head; 0: hidden / heads");
    sub.add_option("--rope-theta", d.ropeTheta, "Base of rotary frequencies")
        ->capture_default_str();
    addAttentionOptions(sub, d);
  }
  d.isImage() ? addImageOptions(sub, d) : addTextOptions(sub, d);
  if (family == Family::moe)
    addExpertOptions(sub, d);
  sub.add_option("-o,--output", options.output,
                 "Output file (default: NAME.onnx)");
}

/// Returns all families with their defaults, then all published models.
std::vector<Preset> allModels() {
  std::vector<Preset> models;
  for (Family family : allFamilies())
    models.push_back({stringifyFamily(family), describeFamily(family),
                      ModelDims::defaults(family)});
  models.insert(models.end(), presets().begin(), presets().end());
  return models;
}

int writeModel(const Options &options) {
  ModelDims dims = options.dims;
  dims.complete();
  if (std::string why = dims.refusal(); !why.empty())
    return dpc::fail("dpc-model", why);
  std::string path =
      options.output.empty() ? options.name + ".onnx" : options.output;
  Model model = buildModel(dims);
  std::ofstream file(path, std::ios::binary);
  if (!file || !model.proto.SerializeToOstream(&file) || !file.flush())
    return dpc::fail("dpc-model", path + ": cannot be written");
  std::printf("wrote %s: %s, %lld layers, %.2f billion parameters, %zu KiB\n",
              path.c_str(), options.name.c_str(),
              static_cast<long long>(dims.layers), model.parameters / 1e9,
              (model.proto.ByteSizeLong() + 1023) / 1024);
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app(
      "Writes an ONNX model of the given dims, with its loss, a symbolic "
      "batch dimension, and weights without data. Defaults are those of "
      "a published model; see dpc-model FAMILY --help.");
  app.footer("Example:\n  dpc-model llama --layers=126 --hidden=16384 "
             "--ffn=53248 --heads=128 --kv-heads=8 --vocab=128256 --seq=8192 "
             "-o llama.onnx");
  app.name("dpc-model");
  app.require_subcommand(0, 1);
  const std::vector<Preset> models = allModels();
  std::vector<Options> all(models.size());
  std::string names;
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].dims = models[i].dims;
    addModel(app, all[i], models[i].name, models[i].text);
    names += (i ? ", " : "") + all[i].name;
  }
  if (argc > 1 && argv[1][0] != '-' &&
      std::ranges::none_of(
          all, [&](const Options &one) { return one.name == argv[1]; }))
    return dpc::fail("dpc-model", std::string(argv[1]) +
                                      ": unknown family; accepted: " + names);
  return dpc::runProgram(app, argc, argv, [&] {
    for (const Options &one : all)
      if (app.got_subcommand(one.name))
        return writeModel(one);
    throw CLI::RequiredError::Subcommand(1);
  });
}
