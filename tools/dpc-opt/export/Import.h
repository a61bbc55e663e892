//===- Import.h - Strategies that others wrote ------------------*- C++ -*-===//
//
// `--strategy=@ds_config.json`, `--strategy=@pretrain.sh`: what a configuration
// of DeepSpeed, or flags of Megatron-LM, say of the strategy. What changes how
// ranks share the work and has no key of --strategy is refused; what does not
// is listed as ignored.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_TOOLS_DPC_OPT_EXPORT_IMPORT_H
#define DPC_TOOLS_DPC_OPT_EXPORT_IMPORT_H

#include "cost-model/Result.h"
#include "cost-model/Strategy.h"

namespace dpc::exports {

struct Imported {
  /// A micro-batch of 0: the file leaves it open.
  cost::Strategy strategy;
  int64_t globalBatch = 0; ///< 0: the file does not say it.
  std::string precision;   ///< "" where the file does not say it.
  bool usesSgd = false;
  std::vector<std::string> ignored; ///< Keys or flags without effect on it.
};

/// Of `devices`, all are used, unless a file says fewer. One line on what
/// cannot be read, or has no key of --strategy.
cost::Result<Imported> readDeepSpeed(const std::string &text, int64_t devices);
cost::Result<Imported> readMegatron(const std::string &text, int64_t devices);

/// By what the text looks like: JSON is DeepSpeed's.
cost::Result<Imported> readStrategy(const std::string &text, int64_t devices);

} // namespace dpc::exports

#endif // DPC_TOOLS_DPC_OPT_EXPORT_IMPORT_H
