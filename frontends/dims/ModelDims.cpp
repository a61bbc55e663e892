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

/// Larger sizes are typing errors. With this limit the bytes of a weight stay
/// below 2^63.
constexpr int64_t kMaxWidth = int64_t(1) << 20;
constexpr int64_t kMaxLength = int64_t(1) << 24;
constexpr int64_t kMaxCount = int64_t(1) << 14; ///< Layers, experts.

/// A one-line message `--NAME=VALUE: why`.
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
  static const std::vector<Family> families = {
      Family::gpt, Family::bloom, Family::mpt, Family::llama,
      Family::moe, Family::bert,  Family::vit, Family::dit};
  return families;
}

ModelDims ModelDims::defaults(Family family) {
  ModelDims llama{.family = Family::llama,
                  .layers = 32,
                  .hidden = 4096,
                  .ffn = 14336,
                  .heads = 32,
                  .kvHeads = 8,
                  .vocab = 128256,
                  .seq = 8192,
                  .ropeTheta = 5e5,
                  .experts = 8,
                  .topk = 2};
  ModelDims moe = llama;
  moe.family = Family::moe;
  moe.vocab = 32000;
  moe.ropeTheta = 1e6;
  const ModelDims models[] = {{.family = Family::gpt,
                               .layers = 12,
                               .hidden = 768,
                               .heads = 12,
                               .vocab = 50257,
                               .seq = 1024,
                               .tied = true},
                              {.family = Family::bloom,
                               .layers = 24,
                               .hidden = 1024,
                               .heads = 16,
                               .vocab = 250880,
                               .seq = 2048,
                               .tied = true},
                              {.family = Family::mpt,
                               .layers = 32,
                               .hidden = 4096,
                               .heads = 32,
                               .vocab = 50432,
                               .seq = 2048,
                               .tied = true},
                              llama,
                              moe,
                              {.family = Family::bert,
                               .layers = 24,
                               .hidden = 1024,
                               .heads = 16,
                               .vocab = 30522,
                               .seq = 512,
                               .tied = true},
                              {.family = Family::vit,
                               .layers = 24,
                               .hidden = 1024,
                               .heads = 16,
                               .image = 224,
                               .patch = 16,
                               .channels = 3,
                               .classes = 1000},
                              {.family = Family::dit,
                               .layers = 28,
                               .hidden = 1152,
                               .heads = 16,
                               .image = 32,
                               .patch = 2,
                               .channels = 4,
                               .classes = 1000}};
  return models[static_cast<int>(family)];
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
  if (expertFfn == 0)
    expertFfn = ffn;
  if (group == 0 && seq > 0)
    for (group = std::min<int64_t>(seq, 256); seq % group != 0;)
      --group;
}

/// Checks the ranges of the sizes that the family uses.
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
  if (d.family == Family::moe)
    add({{"experts", d.experts, 2, kMaxCount},
         {"topk", d.topk, 1, kMaxCount},
         {"expert-ffn", d.expertFfn, 1, kMaxWidth},
         {"group", d.group, 1, kMaxLength},
         {"shared-experts", d.sharedExperts, 0, kMaxCount},
         {"dense-layers", d.denseLayers, 0, kMaxCount}});
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
  if (!(d.capacity > 0.0 && d.capacity <= static_cast<double>(d.experts)))
    return "--capacity=" + std::to_string(d.capacity) +
           ": expected a number above 0 and up to the number of experts, " +
           text(d.experts);
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
  if (isGated() && headDim % 2 != 0)
    return wrong("head-dim", headDim,
                 "must be even, because RoPE rotates pairs");
  if (isImage())
    return checkImage(*this);
  return family == Family::moe ? checkExperts(*this) : "";
}

} // namespace dpc::model
