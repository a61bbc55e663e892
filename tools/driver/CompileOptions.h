//===- CompileOptions.h - What a compilation is asked for -------*- C++ -*-===//
#ifndef DPC_TOOLS_DRIVER_COMPILEOPTIONS_H
#define DPC_TOOLS_DRIVER_COMPILEOPTIONS_H

#include "codegen/export/Import.h"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace dpc {

/// What the user asked for; the fields are named like the options.
struct CompileOptions {
  std::string model;
  std::string cluster;
  std::string output; ///< Plan folder; MODEL.plan when not given.

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
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  std::optional<double> weightDecay; ///< PyTorch's: 0.01 for adamw, 0 for sgd.
  double momentum = 0.0, clipGradNorm = 0.0;
  std::string lrSchedule = "constant";
  int64_t warmup = 0, totalSteps = 0; ///< Of lrSchedule.
  double minLr = 0;                   ///< Where lrSchedule ends.

  std::string strategy = "auto";
  std::string objective = "throughput";
  int64_t top = 10;
  std::string precision = "fp32";
  bool givesPrecision = false; ///< The command line does.
  /// The loss scale of the first step, and after how many good steps in a row
  /// it doubles (0: it stays); GradScaler's of PyTorch. See Pipelines.h.
  double lossScale = 65536;
  int64_t lossScaleInterval = 2000;
  std::string targetCpu = "native";
  std::string targetGpu;
  std::string attention = "auto";
  std::string init;
  std::set<std::string> emit = {"plan", "report"};
  std::string verify = "auto";
  std::string report = "text"; ///< What is printed: "text" or "json".
  bool whatIf = false;
  bool printPipeline = false; ///< Print the winner's passes and stop.
  std::string dumpIrDir;
  std::string calibrate;  ///< Write a measured device file (cluster) here.
  std::string calibrated; ///< "cpu", "cuda" or a file of measurements.
  std::vector<std::string> links; ///< Tables of measured collectives.
  std::string device;             ///< Device file used for local:N.
  std::vector<std::string> diff;  ///< Two folders to compare, or none.
  std::string explain;            ///< A weight, or a part of its name.
  std::vector<std::string> notes; ///< For the report's remarks.
  /// The FILE of --strategy=@FILE, and what it says of the model.
  std::string strategyFile;
  std::string readAs; ///< As the report shows it.
  std::vector<exports::StatedSize> statedSizes;
  /// Of the command line, those that say what a step computes
  /// (runtime/plan/PlanCommand.h).
  std::vector<std::string> words;
};

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_COMPILEOPTIONS_H
