//===- ModelDims.h - Dims of a model family ---------------------*- C++ -*-===//
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dpc::model {

enum class Family {
  gpt,   ///< learned positions, biases, gelu, layer norm, tied head
  bloom, ///< as gpt, with ALiBi and a norm after the embedding
  mpt,   ///< as gpt, with ALiBi and without biases
  llama, ///< RoPE, RMS norm, SwiGLU, grouped-query attention, no biases
  moe,   ///< as llama, with routed and shared experts
  bert,  ///< post-norm encoder, masked tokens as labels
  vit,   ///< image classifier over patches, pre-norm
  dit,   ///< diffusion over latent patches, adaptive norms
};

std::string_view stringifyFamily(Family family);
/// Returns the family called `name`.
std::optional<Family> symbolizeFamily(std::string_view name);
const std::vector<Family> &allFamilies();
std::string_view describeFamily(Family family);

/// The sizes of a model. `complete` replaces zeros by defaults. A family
/// ignores sizes that it does not use.
struct ModelDims {
  Family family = Family::gpt;
  int64_t layers = 0;
  int64_t hidden = 0;
  /// 0 means 4 x hidden or, for llama and moe, 8/3 x hidden rounded up to a
  /// multiple of 256.
  int64_t ffn = 0;
  int64_t heads = 0;
  int64_t kvHeads = 0; ///< 0: heads
  int64_t headDim = 0; ///< 0: hidden / heads
  int64_t vocab = 0;
  int64_t seq = 0;        ///< tokens per sample, or patches per image
  bool tied = false;      ///< the head shares the embedding's weight
  double ropeTheta = 0.0; ///< base of the rotary frequencies
  bool qkNorm = false;    ///< RMS norms of each head of q and k

  // Of llama and moe, as in GPT-OSS.
  bool biased = false;   ///< biases of attention, routers and experts
  bool hasSinks = false; ///< a learned score of each head without a value
  int64_t window = 0;    ///< of layers 0, 2, ..: keys of a query; 0: all
  /// 0: experts are a SwiGLU. Otherwise (up + 1) * gate * sigmoid(1.702 gate),
  /// with gate at most and |up| at most this number.
  double gluLimit = 0;

  // Multi-head latent attention (DeepSeek-V2, section 2.1): keys and values
  // come from one narrow latent vector. `headDim` elements of each head of q
  // and k have no rotary embedding, and `ropeDim` further ones have it.
  int64_t kvRank = 0; ///< width of the latent vector; 0: ordinary attention
  int64_t qRank = 0;  ///< width of the latent vector of queries; 0: none
  int64_t ropeDim = 0;
  int64_t valueDim = 0; ///< width of a head of the values; 0: headDim

  int64_t experts = 0, topk = 0;
  int64_t expertFfn = 0;     ///< 0: ffn
  int64_t sharedExperts = 0; ///< experts that process every token
  int64_t denseLayers = 0;   ///< leading layers without experts
  /// Modules for multi-token prediction after the layers: how many tokens are
  /// predicted at a position besides the next one.
  int64_t furtherTokens = 0;
  /// Number of tokens that share the slots of the experts; must divide `seq`. 0
  /// means the largest divisor of `seq` that is at most 256.
  int64_t group = 0;
  /// Factor on the number of slots per expert; 0: no slots, and no token is
  /// dropped.
  double capacity = 1.0;

  // Images, latents and patches are square; `image` and `patch` are widths.
  int64_t image = 0, patch = 0, channels = 0, classes = 0;

  /// Whether feed-forward layers are a SwiGLU, as in llama.
  bool isGated() const {
    return family == Family::llama || family == Family::moe;
  }
  bool isImage() const {
    return family == Family::vit || family == Family::dit;
  }

  bool isLatent() const { return kvRank > 0; }

  /// Returns a published model of the family: GPT-2, BLOOM 560M, MPT-7B,
  /// Llama-3 8B, Mixtral 8x7B, BERT-large, ViT-L/16, DiT-XL/2.
  static ModelDims defaults(Family family);
  /// Replaces zeros by values that follow from other sizes.
  void complete();
  /// Returns "" if the completed dims are valid; otherwise one line with the
  /// wrong size and the accepted values.
  std::string refusal() const;
};

/// A published model, which dpc-model writes by its name.
struct Preset {
  std::string_view name, text;
  ModelDims dims;
};
const std::vector<Preset> &presets();

} // namespace dpc::model
