//===- ModelDims.h - Dims of a model family ---------------------*- C++ -*-===//
#ifndef DPC_FRONTENDS_DIMS_MODELDIMS_H
#define DPC_FRONTENDS_DIMS_MODELDIMS_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dpc::model {

/// Model families; each has its own graph.
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

/// The name of a family: "gpt", "bloom", ...
std::string_view stringifyFamily(Family family);
/// Inverse of stringifyFamily.
std::optional<Family> symbolizeFamily(std::string_view name);
/// All families.
const std::vector<Family> &allFamilies();
/// A one-line description of the family.
std::string_view describeFamily(Family family);

/// Sizes of a model. `complete` replaces zeros by defaults. Sizes that only
/// other families use are ignored.
struct ModelDims {
  Family family = Family::gpt;
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t ffn = 0; ///< 0: 4 x hidden; llama, moe: 8/3 x hidden, rounded to 256.
  int64_t heads = 0;
  int64_t kvHeads = 0; ///< 0: heads
  int64_t headDim = 0; ///< 0: hidden / heads
  int64_t vocab = 0;
  int64_t seq = 0;        ///< Tokens per sample; patches of an image.
  bool tied = false;      ///< The head shares the embedding's weight.
  double ropeTheta = 0.0; ///< Base of the rotary frequencies.

  // Experts.
  int64_t experts = 0, topk = 0;
  int64_t expertFfn = 0;     ///< 0: ffn
  int64_t sharedExperts = 0; ///< Experts that take every token.
  int64_t denseLayers = 0;   ///< First layers, with a SwiGLU, not experts.
  /// Number of tokens that share the slots of the experts; it divides seq. 0:
  /// the largest divisor of seq that is at most 256.
  int64_t group = 0;
  double capacity = 1.0; ///< Slots per token and choice.

  // Images and latents are square.
  int64_t image = 0, patch = 0, channels = 0, classes = 0;

  /// Whether the layers are those of llama.
  bool isGated() const {
    return family == Family::llama || family == Family::moe;
  }
  /// Whether the inputs are images or latents.
  bool isImage() const {
    return family == Family::vit || family == Family::dit;
  }

  /// A published model of the family: GPT-2, BLOOM 560M, MPT-7B, Llama-3 8B,
  /// Mixtral 8x7B, BERT-large, ViT-L/16, DiT-XL/2.
  static ModelDims defaults(Family family);
  /// Replaces zeros by values that follow from the other sizes.
  void complete();
  /// Returns "" if completed dims are valid. Otherwise returns one line that
  /// says which size is wrong and what is accepted.
  std::string refusal() const;
};

} // namespace dpc::model

#endif // DPC_FRONTENDS_DIMS_MODELDIMS_H
