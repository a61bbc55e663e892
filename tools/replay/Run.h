//===- Run.h - A published run as input of dpc ----------------*- C++ -*-===//
//
// If the columns do not state a value, it follows from the software that was
// used:
//   * the software profile (cost-model/software) follows from the title, the
//     repository, the framework, the ZeRO stage, the overlap and the notes; the
//     first match applies:
//       InternEvo                          internevo-2023
//       Alpa, not its Megatron baseline    alpa-2022
//       FSDP, MPT (ALiBi in Triton)        pytorch-fsdp-2023
//       other FSDP                         pytorch-fsdp-2024
//       DeepSpeed or zero3, ZeRO 1 to 3    megatron-deepspeed-2022: its engine
//       DeepSpeed, no ZeRO                 megatron-eager: Megatron's schedule
//       NeMo, Megatron-Bridge, Transformer
//       Engine                             megatron-core-2025
//       FlashAttention, GPUs after A100,
//       Llama models except on V100        megatron-core-2024
//       sequence parallelism, selective
//       recomputation, or published from
//       2022 on                            megatron-2022
//       else                               megatron-2021
//   * memory_allocated_gib, if the file has the column, is the memory of
//     tensors alone; peak_mem_gib is all memory in use;
//   * the optimizer is AdamW with fp32 master weights and states;
//   * the ZeRO stage is 0.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cost-model/machine/Cluster.h"
#include "cost-model/search/PredictionErrors.h"
#include "cost-model/strategy/Strategy.h"
#include "tools/replay/Model.h"

namespace dpc::validate {

/// The input of a prediction, and the measured results.
struct PublishedRun {
  std::string id;
  std::string source;
  model::ModelDims dims;
  cost::Cluster cluster;
  cost::Strategy strategy;
  std::string precision;
  int64_t globalBatch = 1;
  /// Seconds per step and bytes of the fullest rank; 0 if not published.
  double measuredSeconds = 0;
  double measuredMemoryBytes = 0;

  std::string programKey() const;
  std::string clusterKey() const;
  /// Runs with equal keys have the same model, batch and cluster, so their
  /// strategies can be compared.
  std::string sweepKey() const;
};

/// Returns `run` with the buffers of dpc's plan instead of those of the
/// software. This changes the memory but not the speed.
PublishedRun withOwnMemory(const PublishedRun &run);

/// Returns the properties of `run` that its prediction error depends on.
cost::Situation situationOf(const PublishedRun &run);

const std::vector<std::string> &runColumns();

/// Returns the run that `row` describes, or an error that says why the row is
/// skipped.
Expected<PublishedRun> runOf(const Row &row);

} // namespace dpc::validate
