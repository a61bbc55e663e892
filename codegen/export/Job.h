//===- Job.h - What exporters know of a plan --------------------*- C++ -*-===//
#ifndef DPC_CODEGEN_EXPORT_JOB_H
#define DPC_CODEGEN_EXPORT_JOB_H

#include "cost-model/strategy/Strategy.h"

#include <map>
#include <string>
#include <vector>

namespace dpc::exports {

/// What a model of transformer layers is of tokens: it predicts the one after
/// each, or, from all of them, those that are masked; or it is something else,
/// of images perhaps.
enum class ModelKind { other, decoder, encoder };

/// Sizes of a model made of transformer layers, as far as its graph shows them;
/// 0 where it does not.
struct ModelShape {
  int64_t layers = 0;
  int64_t sequence = 0, hidden = 0, heads = 0, kvHeads = 0, headSize = 0;
  int64_t feedForward = 0, vocabulary = 0;
  int64_t experts = 1; ///< Of a mixture's largest block.
  bool hasRmsNorm = false, hasRope = false, hasSwiglu = false;
  bool hasBias = false; ///< Some product is followed by one.
  ModelKind kind = ModelKind::other;

  /// All of a layer is known.
  bool isTransformer() const {
    return layers > 0 && sequence > 0 && hidden > 0 && heads > 0 &&
           headSize > 0 && feedForward > 0;
  }
};

/// The optimizer, in PyTorch's words.
struct OptimizerChoice {
  std::string name; ///< "adamw" or "sgd".
  double lr = 0, beta1 = 0, beta2 = 0, eps = 0, weightDecay = 0, momentum = 0;
  double clipGradNorm = 0; ///< 0: no clipping.
};

/// --lr-schedule: see LrSchedule in runtime/plan/Plan.h.
struct RateSchedule {
  std::string kind = "constant"; ///< Or "cosine", "linear".
  int64_t warmup = 0, total = 0; ///< Steps.
  double min = 0;

  bool isPlain() const { return kind == "constant" && warmup == 0; }
};

/// What the loss is multiplied by, where it is.
struct LossScale {
  bool isUsed = false;
  double initial = 1;
  int64_t interval = 0; ///< Good steps until it doubles; 0: it stays.
};

/// A strategy for a model on devices, as a training program of others is to run
/// it.
struct Job {
  cost::Strategy strategy; ///< With the placement that was found.
  int64_t devicesPerNode = 1;
  int64_t globalBatch = 1;
  std::string precision = "fp32"; ///< Or "bf16", "fp16", "fp8".
  bool trains = true;
  OptimizerChoice optimizer;
  RateSchedule schedule;
  LossScale lossScale;
  std::vector<std::string> frozen; ///< Names and patterns of --frozen.
  ModelShape model;
  /// Layers of each virtual stage as the plan cuts them; empty where there are
  /// no stages, or no layers to count.
  std::vector<int64_t> stageLayers;
  /// They are not known yet, and may be any.
  bool cutsStagesFreely = false;
  /// The outermost level of the cluster that an axis ("tp", "pp", "dp")
  /// reaches, from 0.
  std::map<std::string, int64_t> levels;

  int64_t ranks() const { return strategy.ranks(); }
  int64_t nodes() const {
    return (ranks() + devicesPerNode - 1) / devicesPerNode;
  }
  /// Samples of a step on one data-parallel rank, of a micro-batch, and how
  /// many of these there are.
  int64_t localBatch() const {
    return (globalBatch + strategy.dp - 1) / strategy.dp;
  }
  int64_t microBatch() const {
    return strategy.microBatch > 0 ? strategy.microBatch : localBatch();
  }
  int64_t microBatches() const { return strategy.microBatches(globalBatch); }
  /// Stages of the model: of every rank, its chunks.
  int64_t stages() const { return strategy.pp * strategy.vpp; }
  /// True when stages have unlike numbers of layers.
  bool hasUnevenStages() const;
  /// Experts lie on data-parallel ranks, each split over the tensor-parallel
  /// ones as all else is; else tensor-parallel ranks hold experts of their own.
  bool splitsEachExpert() const { return strategy.dp % strategy.ep == 0; }
};

struct ExportedFile {
  std::string name; ///< In the output folder.
  std::string text;
};

/// Files of one target, and what the user should know beside them.
struct Exported {
  std::vector<ExportedFile> files;
  std::vector<std::string> remarks;
};

} // namespace dpc::exports

#endif // DPC_CODEGEN_EXPORT_JOB_H
