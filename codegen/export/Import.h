//===- Import.h - Reads strategies of other programs ------------*- C++ -*-===//
//
// `--strategy=@FILE` reads the strategy of a configuration of DeepSpeed or of
// the flags of Megatron-LM. A setting that changes how ranks share the work and
// has no key of --strategy is an error; other settings are listed as ignored.
// Sizes of the model that the file states are compared with the model.
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
  std::string flag; ///< The name in the file: "--num-layers".
  int64_t value = 0;
  int64_t ModelShape::*size = nullptr;
  /// The size is compared only for models of tokens.
  bool isOfTokens = false;
  /// The model may have any size from `value` to `most`, because of padding.
  int64_t most = 0;
};

struct Imported {
  cost::Strategy strategy; ///< Its micro-batch is 0 if the file has none.
  int64_t globalBatch = 0; ///< 0 if the file has none.
  std::string precision;   ///< "" if the file has none.
  bool usesSgd = false;
  std::vector<std::string> ignored; ///< Keys or flags without effect.
  std::vector<StatedSize> sizes;
};

/// The first of `sizes` that contradicts `model`, as "--num-layers 24, but the
/// model has 4 layers"; "" if none does.
std::string whyOtherModel(const std::vector<StatedSize> &sizes,
                          const ModelShape &model);

/// Reads a configuration of DeepSpeed (JSON), or a command or script with flags
/// of Megatron-LM. The strategy uses all `devices` unless the file starts fewer
/// ranks. An error is one line.
Expected<Imported> readStrategy(const std::string &text, int64_t devices);

} // namespace dpc::exports

#endif // DPC_CODEGEN_EXPORT_IMPORT_H
