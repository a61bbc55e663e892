//===- Run.h - A published run as input of dpc ----------------*- C++ -*-===//
//
// Values that the columns do not state are those of the software of the time:
//   * Megatron pads the vocabulary to a multiple of 128 x tp (families gpt and
//     bloom), which aligns the GEMMs of all shards;
//   * the software profile (cost-model/software) follows from the title, the
//     repository, the ZeRO stage and the notes; the first match counts:
//       InternEvo                          internevo-2023
//       Alpa, not its Megatron baseline    alpa-2022
//       FSDP, MPT (ALiBi in Triton)        pytorch-fsdp-2023
//       FSDP, else                         pytorch-fsdp-2024
//       DeepSpeed or zero3, ZeRO 1 to 3    megatron-deepspeed-2022: its engine
//       DeepSpeed, no ZeRO                 megatron-eager: Megatron's schedule
//       FlashAttention, GPUs after A100,
//       Llama models but on V100           megatron-core-2024
//       sequence parallelism, selective
//       recomputation, or published from
//       2022 on                            megatron-2022
//       else                               megatron-2021
//   * optimizer: AdamW with fp32 masters and states;
//   * an unstated ZeRO stage is 0.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_TOOLS_REPLAY_RUN_H
#define DPC_TOOLS_REPLAY_RUN_H

#include "cost-model/machine/Cluster.h"
#include "cost-model/strategy/Strategy.h"
#include "frontends/dims/ModelDims.h"
#include "tools/replay/Table.h"

namespace dpc::validate {

/// The input of a prediction, and the measurements.
struct PublishedRun {
  std::string id;
  std::string source; ///< The id without its number.
  model::ModelDims dims;
  cost::Cluster cluster;
  cost::Strategy strategy;
  std::string precision; ///< A value of --precision.
  int64_t globalBatch = 1;
  /// Seconds of a step and bytes of the fullest rank; 0 if not published.
  double measuredSeconds = 0;
  double measuredMemoryBytes = 0;

  /// Equal for runs of one program.
  std::string programKey() const;
  /// Equal for runs on one cluster.
  std::string clusterKey() const;
  /// Equal for runs of one model and batch on one cluster, whose strategies can
  /// be compared.
  std::string sweepKey() const;
};

/// Returns `run` with the buffers of dpc's plan instead of the buffers of the
/// software. The speed does not change.
PublishedRun withOwnMemory(const PublishedRun &run);

/// The required columns of a file.
const std::vector<std::string> &runColumns();

/// The run that `row` describes, or an error that says why the row is skipped.
Expected<PublishedRun> runOf(const Row &row);

/// Floating-point operations of one step of a GPT on a global batch, as
/// publications count them (Narayanan et al., 2021, appendix): `passes` x 24 B
/// s l h^2 (1 + s / 6h + V / 4 passes l h); 4 passes with recomputation, 3
/// without, of which the head has 3 x 2 B s h V each time.
double tableFlops(const model::ModelDims &dims, double globalBatch, int passes);

} // namespace dpc::validate

#endif // DPC_TOOLS_REPLAY_RUN_H
