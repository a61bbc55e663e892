//===- Import.h - Reads strategies of other programs ------------*- C++ -*-===//
//
// `--strategy=@FILE` reads the strategy from a DeepSpeed configuration or from
// Megatron-LM flags. A setting without a key of --strategy is an error if it
// changes how ranks share the work; otherwise it is listed as ignored. Model
// sizes in the file are compared with the model.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "codegen/export/Job.h"
#include "cost-model/strategy/Strategy.h"
#include "runtime/base/Status.h"

namespace dpc::exports {

struct StatedSize {
  std::string flag; ///< The name in the file: "--num-layers".
  int64_t value = 0;
  int64_t ModelShape::*size = nullptr;
  /// The size is compared only if the model reads tokens.
  bool isOfTokens = false;
  /// The largest model size that matches: padding may increase `value`.
  int64_t most = 0;
};

struct Imported {
  cost::Strategy strategy; ///< micro-batch 0 if the file states none
  int64_t globalBatch = 0; ///< 0 if the file states none
  std::string precision;   ///< "" if the file states none
  bool usesSgd = false;
  std::vector<std::string> ignored; ///< keys or flags without effect
  std::vector<StatedSize> sizes;
};

/// Describes the first of `sizes` that differs from `model`, such as
/// "--num-layers 24, but the model has 4 layers". Returns "" if all sizes
/// match.
std::string whyOtherModel(const std::vector<StatedSize> &sizes,
                          const ModelShape &model);

/// Reads a DeepSpeed configuration (JSON), or a command or script with
/// Megatron-LM flags. The strategy uses all `devices` unless the file starts
/// fewer ranks. Error messages have one line.
Expected<Imported> readStrategy(const std::string &text, int64_t devices);

} // namespace dpc::exports
