//===- CompileOptions.h - The options of a compilation ----------*- C++ -*-===//
#pragma once

#include "codegen/export/Import.h"
#include "cost-model/report/JobTerms.h"
#include "cost-model/strategy/Routing.h"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace dpc {

struct OtherCluster {
  std::string file;
  std::optional<double> price; ///< of a device and hour
};

/// Fields have the names of the options.
struct CompileOptions {
  std::string model;
  std::string cluster;
  std::vector<OtherCluster> otherClusters; ///< to compare with `cluster`
  std::string output;                      ///< The plan folder.

  std::map<std::string, int64_t> bind;
  int64_t globalBatch = 0;
  int64_t microBatch = 0;
  int64_t bucketMb = 25;
  std::string compressGradients; ///< "", "int8" or "topk:SHARE".
  std::string compressWeights;   ///< "" or "int8".
  std::vector<std::string> frozen, trainable;
  int64_t seed = 0; ///< Of dropout.

  std::string train; ///< "", "adamw" or "sgd".
  bool infer = false;
  std::string loss; ///< "", "cross_entropy[:output]" or "mse[:output]".
  std::string lossOutput;
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  std::optional<double> weightDecay; ///< absent: 0.01 for adamw, 0 for sgd
  double momentum = 0.0, clipGradNorm = 0.0;
  std::string lrSchedule = "constant";
  double balanceExperts = 0; ///< rate of router biases; 0: constant
  int64_t warmup = 0, totalSteps = 0;
  double minLr = 0;

  std::string strategy = "auto";
  std::string plansFor = "dpc"; ///< --for (PlanTarget.h).
  /// The share of device memory that plans leave free; absent:
  /// cost::kDefaultHeadroom, unless no plan fits then.
  std::optional<double> headroom;
  cost::Routing routing; ///< of tokens to experts
  cost::JobTerms job;    ///< --tokens, --price, --mtbf, ...
  double deadlineSeconds = 0;
  std::string objective = "throughput";
  int64_t top = 10;
  std::string precision = "fp32";
  bool givesPrecision = false;
  std::string whyPrecision; ///< if the user did not give it: "default on ..."
  /// The loss scale of the first step, and the number of finite steps after
  /// which it doubles (0: never). The defaults are those of PyTorch's
  /// GradScaler. See scalesLoss.
  double lossScale = 65536;
  int64_t lossScaleInterval = 2000;
  std::string targetCpu = "native";
  std::string targetGpu;
  std::string attention = "auto";
  std::string init;
  bool initPartial = false; ///< see WeightMatch::check()
  std::set<std::string> emit = {"plan", "report"};
  std::string verify = "auto";
  std::string report = "text"; ///< "text" or "json".
  bool whatIf = false;
  bool printPipeline = false;
  std::string dumpIrDir;
  std::string calibrate;
  std::string calibrated; ///< "cpu", "cuda" or a file of measurements.
  std::vector<std::string> links;
  std::string device;
  std::vector<std::string> diff;
  std::string explain;
  std::vector<std::string> notes;
  std::string strategyFile;
  std::string readAs; ///< the options that FILE states, for the report
  std::vector<exports::StatedSize> statedSizes;
  exports::ChunkLayers chunks; ///< that FILE states, and that give vpp
  /// The words that affect the computation of a step
  /// (runtime/plan/PlanCommand.h).
  std::vector<std::string> words;
};

} // namespace dpc
