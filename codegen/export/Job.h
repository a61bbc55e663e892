//===- Job.h - The plan, as exporters see it ------------------*- C++ -*-===//
#pragma once

#include "cost-model/strategy/Strategy.h"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace dpc::exports {

/// A decoder predicts the next token, an encoder predicts masked tokens.
enum class ModelKind { other, decoder, encoder };

/// What a graph computes otherwise than usual decoders do.
enum class Oddity {
  postNorm,           ///< Norms follow the sum of a layer instead of its input.
  parallelParts,      ///< Attention and feed-forward part read the same sum.
  addedMask,          ///< Causal scores have an added mask (ALiBi).
  window,             ///< Queries see keys up to a distance.
  sinks,              ///< Heads have a score without a value.
  otherScale,         ///< Scores are not divided by the root of the head size.
  unequalNorms,       ///< Norms have several epsilons.
  severalActivations, ///< Feed-forward layers have several activations.
  partialRope,        ///< Rotary embedding covers a part of a head.
  otherRouter,        ///< Experts are not chosen by a softmax.
  otherEnds, ///< Something scales embeddings or logits, or no norm ends layers.
  dropout,   ///< Elements are dropped at random.
  furtherTokens, ///< Modules after the layers predict further tokens.
};

/// The sizes of a transformer; unknown sizes are 0.
struct ModelShape {
  int64_t layers = 0;
  int64_t sequence = 0, hidden = 0, heads = 0, kvHeads = 0, headSize = 0;
  int64_t feedForward = 0, vocabulary = 0;
  int64_t experts = 1; ///< experts in the largest mixture
  bool hasRmsNorm = false, hasRope = false, hasSwiglu = false;
  bool hasBias = false; ///< of GEMMs other than those of q, k and v
  ModelKind kind = ModelKind::other;
  int64_t parameters = 0;   ///< trained and frozen
  int64_t positions = 0;    ///< rows of the table of learned positions
  std::string activation{}; ///< "gelu", "gelu_tanh", "silu", ...
  double normEps = 0, ropeBase = 0;
  bool isTied = false; ///< The head is the table of the embedding.
  bool hasQkvBias = false;
  bool hasHeadNorms = false;      ///< Norms of the queries and keys of a head.
  std::vector<bool> hasExperts{}; ///< of each layer
  int64_t expertsPerToken = 0, expertWidth = 0, sharedWidth = 0;
  bool sharesSumToOne = false; ///< of the chosen experts of a token
  /// The slots of all experts per choice of a token; 0: no token is dropped.
  double slotsPerChoice = 0;
  std::set<Oddity> oddities{};

  /// Whether all sizes of a layer are known.
  bool isTransformer() const {
    return layers > 0 && sequence > 0 && hidden > 0 && heads > 0 &&
           headSize > 0 && feedForward > 0;
  }
};

/// The optimizer. The parameters are those of PyTorch.
struct OptimizerChoice {
  std::string name; ///< "adamw" or "sgd".
  double lr = 0, beta1 = 0, beta2 = 0, eps = 0, weightDecay = 0, momentum = 0;
  double clipGradNorm = 0; ///< 0: no clipping.
};

/// --lr-schedule; see LrSchedule in runtime/plan/Plan.h.
struct RateSchedule {
  std::string kind = "constant"; ///< Or "cosine", "linear".
  int64_t warmup = 0, total = 0; ///< Steps.
  double min = 0;

  bool isPlain() const { return kind == "constant" && warmup == 0; }
};

struct LossScale {
  bool isUsed = false;
  double initial = 1;
  /// The scale doubles after this many steps without overflow; 0: never.
  int64_t interval = 0;
};

/// A training run to be executed by another program.
struct Job {
  cost::Strategy strategy;
  int64_t devicesPerNode = 1;
  int64_t globalBatch = 1;
  std::string precision = "fp32"; ///< Or "bf16", "fp16", "fp8".
  bool trains = true;
  OptimizerChoice optimizer;
  RateSchedule schedule;
  LossScale lossScale;
  std::vector<std::string> frozen;
  ModelShape model;
  /// The number of layers in each virtual stage of the plan. Empty if there is
  /// one stage or if layers cannot be counted.
  std::vector<int64_t> stageLayers;
  /// True if layers are not yet assigned to stages: a stage may have any number
  /// of layers.
  bool cutsStagesFreely = false;
  /// For each axis ("tp", "pp", "dp"), the outermost level of the cluster,
  /// counted from 0, that connects its ranks.
  std::map<std::string, int64_t> levels;

  int64_t ranks() const { return strategy.ranks(); }
  int64_t nodes() const {
    return (ranks() + devicesPerNode - 1) / devicesPerNode;
  }
  /// The largest number of samples that a data-parallel rank takes in a step.
  int64_t localBatch() const {
    return (globalBatch + strategy.dp - 1) / strategy.dp;
  }
  int64_t microBatch() const {
    return strategy.microBatch > 0 ? strategy.microBatch : localBatch();
  }
  int64_t microBatches() const { return strategy.microBatches(globalBatch); }
  /// The number of virtual stages.
  int64_t stages() const { return strategy.pp * strategy.vpp; }
  bool hasUnevenStages() const;
  /// Whether tensor-parallel ranks share each expert. Otherwise each rank holds
  /// different experts.
  bool splitsEachExpert() const { return strategy.dp % strategy.ep == 0; }
};

struct ExportedFile {
  std::string name; ///< relative to the output folder
  std::string text;
};

struct Exported {
  std::vector<ExportedFile> files;
  std::vector<std::string> remarks; ///< for the user, one line each
};

} // namespace dpc::exports
