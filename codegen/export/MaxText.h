//===- MaxText.h - Parts of the export for MaxText --------------*- C++ -*-===//
//
// MaxText names mesh axes, and its logical_axis_rules say which tensors each
// axis shards. An axis has dcn_AXIS_parallelism times ici_AXIS_parallelism
// ranks:
//   * data: dp with zero=0, with shard_optimizer_over_data zero=1;
//   * data and fsdp: dp / N and N with zero=3 and hybrid_shard=N;
//   * expert: ep, a part of dp that also shards all other weights;
//   * context: cp, which shards all weights too;
//   * tensor: tp; tensor_sequence: tp with sp=true;
//   * pipeline (stage): pp with schedule=gpipe. vpp is num_pipeline_repeats.
// A micro-batch is a pass of gradient accumulation or, with pp, one of
// num_pipeline_microbatches. remat_policy is full for recompute=full, and
// minimal_with_context, which keeps all products, for recompute=selective.
// MaxText reads remat_policy=none as full.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "codegen/export/Targets.h"

#include <yaml-cpp/yaml.h>

namespace dpc::exports {

/// The rules for models: MaxText's keys describe every term of the model.
Rules maxTextModelRules();

/// The rules for the sizes of shards. MaxText replicates a dimension that its
/// mesh axes do not divide.
Rules maxTextSizeRules();

/// A part of the file: keys and their values, after a comment.
struct MaxTextPart {
  std::string comment;
  YAML::Node keys;
};

/// The keys that define the model.
MaxTextPart maxTextModel(const ModelShape &model);

/// The keys of the optimizer and its learning rates.
MaxTextPart maxTextOptimizer(const Job &job);

std::vector<std::string> maxTextModelRemarks(const Job &job);

/// Returns a number that every parser of YAML reads as a float: 1e-8 without a
/// dot is a string for some.
std::string yamlFloat(double value);
/// The same with the digits of a float.
std::string yamlFloat(float value);

/// The ranks over which ZeRO shards.
int64_t shardRanks(const cost::Strategy &strategy);

} // namespace dpc::exports
