//===- Import.h - Strategies that others wrote ------------------*- C++ -*-===//
//
// `--strategy=@ds_config.json`, `--strategy=@pretrain.sh`: what a configuration
// of DeepSpeed, or flags of Megatron-LM, say of the strategy. What changes how
// ranks share the work and has no key of --strategy is refused; what does not
// is listed as ignored. What a file says of the model is compared with the one
// that is read: a strategy of another model is no answer for this one.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_CODEGEN_EXPORT_IMPORT_H
#define DPC_CODEGEN_EXPORT_IMPORT_H

#include "codegen/export/Job.h"
#include "cost-model/strategy/Strategy.h"
#include "runtime/base/Status.h"

namespace dpc::exports {

/// A size of the model that a file states.
struct StatedSize {
  std::string flag; ///< As it stands there: "--num-layers".
  int64_t value = 0;
  int64_t ModelShape::*size = nullptr;
  /// Of tokens: other models' sequences and vocabularies are counted otherwise.
  bool isOfTokens = false;
  /// The model's may be this, or up to that much more.
  int64_t most = 0;
};

struct Imported {
  /// A micro-batch of 0: the file leaves it open.
  cost::Strategy strategy;
  int64_t globalBatch = 0; ///< 0: the file does not say it.
  std::string precision;   ///< "" where the file does not say it.
  bool usesSgd = false;
  std::vector<std::string> ignored; ///< Keys or flags without effect on it.
  std::vector<StatedSize> sizes;
};

/// "--num-layers 24, but the model has 4 layers": the first of `sizes` that the
/// model has not; "" where all agree, or do not show.
std::string whyOtherModel(const std::vector<StatedSize> &sizes,
                          const ModelShape &model);

/// Of `devices`, all are used, unless a file says fewer. One line on what
/// cannot be read, or has no key of --strategy.
Expected<Imported> readDeepSpeed(const std::string &text, int64_t devices);
Expected<Imported> readMegatron(const std::string &text, int64_t devices);

/// By what the text looks like: JSON is DeepSpeed's.
Expected<Imported> readStrategy(const std::string &text, int64_t devices);

} // namespace dpc::exports

#endif // DPC_CODEGEN_EXPORT_IMPORT_H
