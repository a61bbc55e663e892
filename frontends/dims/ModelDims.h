//===- ModelDims.h - What a model of a family is made of --------*- C++ -*-===//
#ifndef DPC_FRONTENDS_DIMS_MODELDIMS_H
#define DPC_FRONTENDS_DIMS_MODELDIMS_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dpc::model {

/// Networks that differ in more than sizes.
enum class Family {
  gpt,   ///< learned positions, biases, gelu, layer norm, tied head
  bloom, ///< as gpt; ALiBi, a norm behind the embedding
  mpt,   ///< as gpt; ALiBi, no biases anywhere
  llama, ///< RoPE, RMS norm, SwiGLU, grouped-query attention, no biases
  moe,   ///< as llama; experts behind a gate, shared experts
  bert,  ///< post-norm encoder, masked tokens as labels
  vit,   ///< image classifier over patches, pre-norm
  dit,   ///< diffusion over latent patches, adaptive norms
};

/// "gpt", "bloom", ...
std::string_view stringifyFamily(Family family);
/// Inverse of stringifyFamily.
std::optional<Family> symbolizeFamily(std::string_view name);
/// All of them.
const std::vector<Family> &allFamilies();
/// One line about what it is.
std::string_view describeFamily(Family family);

/// Sizes of a model. Zeros mean what `complete` says; sizes of other families
/// are not looked at.
struct ModelDims {
  Family family = Family::gpt;
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t ffn = 0; ///< 0: 4 x hidden; llama, moe: 8/3 x hidden, rounded to 256.
  int64_t heads = 0;
  int64_t kvHeads = 0; ///< 0: heads
  int64_t headDim = 0; ///< 0: hidden / heads
  int64_t vocab = 0;
  int64_t seq = 0;        ///< Tokens of a sample; of images, their patches.
  bool tied = false;      ///< The head is the embedding.
  double ropeTheta = 0.0; ///< Base of the rotary frequencies.

  // Experts.
  int64_t experts = 0, topk = 0;
  int64_t expertFfn = 0;     ///< 0: ffn
  int64_t sharedExperts = 0; ///< Experts that take every token.
  int64_t denseLayers = 0;   ///< First layers, which have one SwiGLU of ffn.
  /// Tokens among which the slots of experts are given out; they lie in one
  /// sample. 0: 256, or the largest divisor of seq below.
  int64_t group = 0;
  double capacity = 1.0; ///< Slots per token and choice.

  // Images and latents, which are square.
  int64_t image = 0, patch = 0, channels = 0, classes = 0;

  /// Layers are those of llama.
  bool isGated() const {
    return family == Family::llama || family == Family::moe;
  }
  /// Inputs are images or latents.
  bool isImage() const {
    return family == Family::vit || family == Family::dit;
  }

  /// A published model of the family: GPT-2, BLOOM 560M, MPT-7B, Llama-3 8B,
  /// Mixtral 8x7B, BERT-large, ViT-L/16, DiT-XL/2.
  static ModelDims defaults(Family family);
  /// Sets what is zero and follows from the others.
  void complete();
  /// Empty, or one line that says which size is wrong, and what would fit. For
  /// completed dims.
  std::string refusal() const;
};

} // namespace dpc::model

#endif // DPC_FRONTENDS_DIMS_MODELDIMS_H
