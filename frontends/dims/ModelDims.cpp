//===- ModelDims.cpp - Dims of a model family -----------------------------===//
#include "frontends/dims/ModelDims.h"

#include <algorithm>
#include <cmath>

namespace dpc::model {

namespace {

struct FamilyName {
  Family family;
  std::string_view name, text;
};

constexpr FamilyName kFamilies[] = {
    {Family::gpt, "gpt", "decoder: learned positions, gelu, tied head"},
    {Family::bloom, "bloom", "decoder: ALiBi, gelu, tied head"},
    {Family::mpt, "mpt", "decoder: ALiBi, gelu, no biases, tied head"},
    {Family::llama, "llama", "decoder: RoPE, RMS norm, SwiGLU, few kv heads"},
    {Family::moe, "moe", "llama with experts (Mixtral, DeepSeek)"},
    {Family::bert, "bert", "encoder: post-norm, predicts masked tokens"},
    {Family::vit, "vit", "encoder of image patches, image classifier"},
    {Family::dit, "dit", "diffusion transformer over latent patches"},
};

/// Larger sizes are probably errors. The limit keeps weights below 2^63 bytes.
constexpr int64_t kMaxWidth = int64_t(1) << 20;
constexpr int64_t kMaxLength = int64_t(1) << 24;
constexpr int64_t kMaxCount = int64_t(1) << 14; ///< Layers, experts.

/// Returns the message "--NAME=VALUE: why".
std::string wrong(const char *name, int64_t value, const std::string &why) {
  return "--" + std::string(name) + "=" + std::to_string(value) + ": " + why;
}

std::string text(int64_t value) { return std::to_string(value); }

} // namespace

std::string_view stringifyFamily(Family family) {
  return kFamilies[static_cast<int>(family)].name;
}

std::string_view describeFamily(Family family) {
  return kFamilies[static_cast<int>(family)].text;
}

std::optional<Family> symbolizeFamily(std::string_view name) {
  for (const FamilyName &entry : kFamilies)
    if (entry.name == name)
      return entry.family;
  return std::nullopt;
}

const std::vector<Family> &allFamilies() {
  static const std::vector<Family> families = [] {
    std::vector<Family> all;
    for (const FamilyName &entry : kFamilies)
      all.push_back(entry.family);
    return all;
  }();
  return families;
}

ModelDims ModelDims::defaults(Family family) {
  ModelDims d;
  d.family = family;
  auto set = [&](int64_t layers, int64_t hidden, int64_t heads) {
    d.layers = layers;
    d.hidden = hidden;
    d.heads = heads;
  };
  auto tokens = [&](int64_t vocab, int64_t seq, bool tied) {
    d.vocab = vocab;
    d.seq = seq;
    d.tied = tied;
  };
  auto pixels = [&](int64_t image, int64_t patch, int64_t channels) {
    d.image = image;
    d.patch = patch;
    d.channels = channels;
    d.classes = 1000;
  };
  switch (family) {
  case Family::gpt:
    set(12, 768, 12);
    tokens(50257, 1024, true);
    break;
  case Family::bloom:
    set(24, 1024, 16);
    tokens(250880, 2048, true);
    break;
  case Family::mpt:
    set(32, 4096, 32);
    tokens(50432, 2048, true);
    break;
  case Family::llama:
  case Family::moe:
    set(32, 4096, 32);
    tokens(family == Family::moe ? 32000 : 128256, 8192, false);
    d.ffn = 14336;
    d.kvHeads = 8;
    d.ropeTheta = family == Family::moe ? 1e6 : 5e5;
    d.experts = 8;
    d.topk = 2;
    break;
  case Family::bert:
    set(24, 1024, 16);
    tokens(30522, 512, true);
    break;
  case Family::vit:
    set(24, 1024, 16);
    pixels(224, 16, 3);
    break;
  case Family::dit:
    set(28, 1152, 16);
    pixels(32, 2, 4);
    break;
  }
  return d;
}

/// Returns Mixtral 8x7B (arXiv 2401.04088, table 1). Like the other published
/// mixtures it computes every choice of a token.
static ModelDims mixtral() {
  ModelDims d = ModelDims::defaults(Family::moe);
  d.capacity = 0;
  return d;
}

/// Returns DeepSeek-V3 (arXiv 2412.19437, section 4.2) without its module for
/// multi-token prediction.
static ModelDims deepseekV3() {
  ModelDims d = mixtral();
  d.layers = 61;
  d.hidden = 7168;
  d.heads = d.kvHeads = 128;
  d.headDim = d.valueDim = 128;
  d.qRank = 1536;
  d.kvRank = 512;
  d.ropeDim = 64;
  d.ffn = 18432;
  d.vocab = 129280;
  d.seq = 4096;
  d.ropeTheta = 1e4;
  d.experts = 256;
  d.topk = 8;
  d.expertFfn = 2048;
  d.sharedExperts = 1;
  d.denseLayers = 3;
  return d;
}

/// Returns Kimi K2 (arXiv 2507.20534, table 2), which has the layers of
/// DeepSeek-V3.
static ModelDims kimiK2() {
  ModelDims d = deepseekV3();
  d.heads = d.kvHeads = 64;
  d.vocab = 163840;
  d.ropeTheta = 5e4;
  d.experts = 384;
  d.denseLayers = 1;
  return d;
}

/// Returns a model of Qwen3 with experts (arXiv 2505.09388, table 2).
static ModelDims qwen3(int64_t layers, int64_t hidden, int64_t heads,
                       int64_t expertFfn) {
  ModelDims d = mixtral();
  d.layers = layers;
  d.hidden = hidden;
  d.heads = heads;
  d.kvHeads = 4;
  d.headDim = 128;
  d.qkNorm = true;
  d.vocab = 151936;
  d.seq = 4096;
  d.experts = 128;
  d.topk = 8;
  d.expertFfn = expertFfn;
  return d;
}

/// Returns a model of GPT-OSS (arXiv 2508.10925, section 2).
static ModelDims gptOss(int64_t layers, int64_t experts) {
  ModelDims d = mixtral();
  d.layers = layers;
  d.hidden = d.ffn = d.expertFfn = 2880;
  d.heads = 64;
  d.kvHeads = 8;
  d.headDim = 64;
  d.biased = d.hasSinks = true;
  d.window = 128;
  d.gluLimit = 7;
  d.vocab = 201088;
  d.seq = 4096;
  d.ropeTheta = 1.5e5;
  d.experts = experts;
  d.topk = 4;
  return d;
}

const std::vector<Preset> &presets() {
  static const std::vector<Preset> all = {
      {"mixtral", "Mixtral 8x7B", mixtral()},
      {"qwen3-30b-a3b", "Qwen3-30B-A3B", qwen3(48, 2048, 32, 768)},
      {"qwen3-235b-a22b", "Qwen3-235B-A22B", qwen3(94, 4096, 64, 1536)},
      {"deepseek-v3", "DeepSeek-V3 671B", deepseekV3()},
      {"gpt-oss-20b", "GPT-OSS 20B", gptOss(24, 32)},
      {"gpt-oss-120b", "GPT-OSS 120B", gptOss(36, 128)},
      {"kimi-k2", "Kimi K2 1T", kimiK2()},
  };
  return all;
}

void ModelDims::complete() {
  if (hidden > kMaxWidth)
    return; // refused
  if (ffn == 0)
    ffn = isGated() ? (hidden * 8 / 3 + 255) / 256 * 256 : 4 * hidden;
  if (isImage() && patch > 0)
    seq = (image / patch) * (image / patch);
  if (kvHeads == 0)
    kvHeads = heads;
  if (headDim == 0 && heads > 0)
    headDim = std::max<int64_t>(1, hidden / heads);
  if (valueDim == 0)
    valueDim = headDim;
  if (expertFfn == 0)
    expertFfn = ffn;
  if (group == 0 && seq > 0)
    for (group = std::min<int64_t>(seq, 256); seq % group != 0;)
      --group;
}

static std::string checkRanges(const ModelDims &d) {
  struct Size {
    const char *name;
    int64_t value, least, most;
  };
  std::vector<Size> sizes = {{"layers", d.layers, 1, kMaxCount},
                             {"hidden", d.hidden, 1, kMaxWidth},
                             {"heads", d.heads, 1, kMaxWidth},
                             {"ffn", d.ffn, 1, kMaxWidth},
                             {"kv-heads", d.kvHeads, 1, kMaxWidth},
                             {"head-dim", d.headDim, 1, kMaxWidth}};
  auto add = [&](std::initializer_list<Size> more) {
    sizes.insert(sizes.end(), more);
  };
  if (d.isImage())
    add({{"image", d.image, 1, kMaxWidth},
         {"patch", d.patch, 1, kMaxWidth},
         {"channels", d.channels, 1, kMaxWidth},
         {"classes", d.classes, 1, kMaxLength}});
  else
    add({{"vocab", d.vocab, 1, kMaxLength}, {"seq", d.seq, 1, kMaxLength}});
  add({{"kv-rank", d.kvRank, 0, kMaxWidth},
       {"q-rank", d.qRank, 0, kMaxWidth},
       {"rope-dim", d.ropeDim, d.isLatent() ? 2 : 0, kMaxWidth},
       {"value-dim", d.valueDim, 1, kMaxWidth},
       {"window", d.window, 0, kMaxLength}});
  if (d.family == Family::moe)
    add({{"experts", d.experts, 2, kMaxCount},
         {"topk", d.topk, 1, kMaxCount},
         {"expert-ffn", d.expertFfn, 1, kMaxWidth},
         {"group", d.group, 1, kMaxLength},
         {"shared-experts", d.sharedExperts, 0, kMaxCount},
         {"dense-layers", d.denseLayers, 0, kMaxCount},
         {"mtp", d.furtherTokens, 0, d.seq - 1}});
  for (const Size &size : sizes)
    if (size.value < size.least || size.value > size.most)
      return wrong(size.name, size.value,
                   "expected " + text(size.least) + " to " + text(size.most));
  return "";
}

static std::string checkExperts(const ModelDims &d) {
  if (d.topk > d.experts)
    return wrong("topk", d.topk,
                 "there are " + text(d.experts) + " experts to choose from");
  if (d.denseLayers > d.layers)
    return wrong("dense-layers", d.denseLayers,
                 "there are " + text(d.layers) + " layers");
  if (d.seq % d.group != 0)
    return wrong("group", d.group,
                 "must divide --seq=" + text(d.seq) +
                     ", since a group lies in one sample");
  if (!(d.capacity >= 0.0 && d.capacity <= static_cast<double>(d.experts)))
    return "--capacity=" + std::to_string(d.capacity) +
           ": expected a number from 0 to the number of experts, " +
           text(d.experts);
  if (!(d.gluLimit >= 0.0 && std::isfinite(d.gluLimit)))
    return "--glu-limit=" + std::to_string(d.gluLimit) +
           ": expected a number of at least 0";
  return "";
}

static std::string checkImage(const ModelDims &d) {
  if (d.image % d.patch != 0)
    return wrong("patch", d.patch, "must divide --image=" + text(d.image));
  if (d.seq > kMaxLength)
    return wrong("patch", d.patch,
                 "gives " + text(d.seq) +
                     " patches per image, expected at most " +
                     text(kMaxLength));
  if (d.family == Family::dit && d.hidden % 4 != 0)
    return wrong("hidden", d.hidden,
                 "must be a multiple of 4, for the sine and cosine of two "
                 "coordinates");
  return "";
}

std::string ModelDims::refusal() const {
  if (std::string why = checkRanges(*this); !why.empty())
    return why;
  if (hidden % heads != 0 && headDim == hidden / heads)
    return wrong("heads", heads,
                 "must divide --hidden=" + text(hidden) +
                     ", unless --head-dim is given");
  if (heads % kvHeads != 0)
    return wrong("kv-heads", kvHeads, "must divide --heads=" + text(heads));
  if (isGated() && !(ropeTheta >= 1 && std::isfinite(ropeTheta)))
    return "--rope-theta=" + std::to_string(ropeTheta) +
           ": expected a number of at least 1";
  auto rotates = [](const char *name, int64_t value) {
    return wrong(name, value, "must be even, because RoPE rotates pairs");
  };
  if (isGated() && !isLatent() && headDim % 2 != 0)
    return rotates("head-dim", headDim);
  if (isLatent() && ropeDim % 2 != 0)
    return rotates("rope-dim", ropeDim);
  if (isLatent() && kvHeads != heads)
    return wrong("kv-heads", kvHeads,
                 "latent attention has keys for each of the " + text(heads) +
                     " heads");
  if (isLatent() && qkNorm)
    return "--qk-norm: latent attention norms its latent vectors instead";
  if (isLatent() && biased)
    return "--biases: latent attention has none";
  if (!isLatent() && (qRank > 0 || ropeDim > 0 || valueDim != headDim))
    return wrong("kv-rank", kvRank,
                 "--q-rank, --rope-dim and --value-dim need latent attention "
                 "(--kv-rank above 0)");
  if (isImage())
    return checkImage(*this);
  return family == Family::moe ? checkExperts(*this) : "";
}

} // namespace dpc::model
