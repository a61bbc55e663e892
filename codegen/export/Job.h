//===- Job.h - The plan, as exporters see it ------------------*- C++ -*-===//
#pragma once

#include "cost-model/strategy/Strategy.h"

#include <map>
#include <string>
#include <vector>

namespace dpc::exports {

/// A decoder predicts the next token, an encoder predicts masked tokens.
enum class ModelKind { other, decoder, encoder };

/// The sizes of a transformer; unknown sizes are 0.
struct ModelShape {
  int64_t layers = 0;
  int64_t sequence = 0, hidden = 0, heads = 0, kvHeads = 0, headSize = 0;
  int64_t feedForward = 0, vocabulary = 0;
  int64_t experts = 1; ///< experts in the largest mixture
  bool hasRmsNorm = false, hasRope = false, hasSwiglu = false;
  bool hasBias = false;
  ModelKind kind = ModelKind::other;

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
