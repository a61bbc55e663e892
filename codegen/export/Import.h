//===- Import.h - Reads strategies of other programs ------------*- C++ -*-===//
//
// `--strategy=@FILE` reads the strategy from a configuration of another
// program. A setting without a key of --strategy is an error if it changes how
// ranks share the work; otherwise it is listed as without effect. Model sizes
// in the file are compared with the model.
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

/// The chunks of pipeline stages, if the file states their layers.
struct ChunkLayers {
  int64_t each = 0;  ///< Layers in a chunk; 0 if the file does not state them.
  int64_t fewer = 0; ///< Layers that the first and last chunk lack in total.
};

/// Returns vpp for a model with this number of layers and `pp` stages.
int64_t chunksPerStage(const ChunkLayers &chunks, int64_t layers, int64_t pp);

struct Imported {
  std::string kind;        ///< "a DeepSpeed configuration"
  cost::Strategy strategy; ///< micro-batch 0 if the file states none
  int64_t globalBatch = 0; ///< 0 if the file states none
  /// Micro-batches of a step if the strategy has no micro-batch; 0 if unknown.
  int64_t microBatches = 0;
  ChunkLayers chunks; ///< If set, the number of layers of the model gives vpp.
  std::string precision; ///< "" if the file states none
  bool usesSgd = false;
  bool compressesWeights = false;   ///< as with --compress-weights=int8
  std::vector<std::string> ignored; ///< settings without effect
  std::vector<StatedSize> sizes;
};

/// Describes the first of `sizes` that differs from `model`, such as
/// "--num-layers 24, but the model has 4 layers". Returns "" if all sizes
/// match.
std::string whyOtherModel(const std::vector<StatedSize> &sizes,
                          const ModelShape &model);

/// What the command line says about a strategy in a file.
struct AskedStrategy {
  int64_t devices = 1; ///< of the cluster
  /// The keys of --strategy after the name of the file, which replace those of
  /// the file, with the text of their values.
  std::map<std::string, std::string> keys = {};
  int64_t devicesPerNode = 0; ///< 0: one node has all devices.
};

/// Reads the configuration `text` from the file `path`. Reads DeepSpeed's JSON,
/// Accelerate's and MaxText's YAML, torchtitan's TOML, Python and flags,
/// Colossal-AI's and Open-Sora's plugins, Galvatron's and Calculon's JSON, and
/// commands or scripts with Megatron-LM's flags. The degrees are those of
/// `asked.keys`, or else of the file; other keys of `asked` only allow settings
/// of the file that have no equivalent. The strategy uses all devices unless
/// the file starts fewer ranks. Fails if no reader recognizes the file. Error
/// messages have one line.
Expected<Imported> readStrategy(const std::string &text,
                                const std::string &path,
                                const AskedStrategy &asked);

} // namespace dpc::exports
