//===- Run.h - A published run as dpc's model, cluster, strategy *- C++ -*-===//
//
// What the columns leave open is filled in as the software of the time does it:
//   * Megatron pads the vocabulary to a multiple of 128 x tp (families gpt and
//     bloom), so that every shard's product is aligned;
//   * the software profile (cost-model/software) follows from what the row says
//     of its title, repository, ZeRO stage and notes, the first that holds:
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

/// Everything to predict a row, and what was measured.
struct PublishedRun {
  std::string id;
  std::string source; ///< The id without its number.
  model::ModelDims dims;
  cost::Cluster cluster;
  cost::Strategy strategy;
  std::string precision; ///< As --precision of dpc-opt.
  int64_t globalBatch = 1;
  /// Of a step, and of the fullest rank; 0 where not published.
  double measuredSeconds = 0;
  double measuredMemoryBytes = 0;

  /// The same for runs of one program.
  std::string programKey() const;
  /// The same for runs on one cluster.
  std::string clusterKey() const;
  /// The same for runs of one model and batch on one cluster, whose strategies
  /// compete.
  std::string sweepKey() const;
};

/// The same run with no buffers but the plan's own: what is kept is decided by
/// this compiler instead of the software, which runs it as fast as before.
PublishedRun withOwnMemory(const PublishedRun &run);

/// Columns that a file has to have.
const std::vector<std::string> &runColumns();

/// The run of a row. The error is a reason to leave the row out, the same for
/// rows that lack the same.
Expected<PublishedRun> runOf(const Row &row);

/// Floating-point operations of one step of a GPT on a global batch as tables
/// count them (Narayanan et al., 2021, appendix): `passes` x 24 B s l h^2
/// (1 + s / 6h + V / 4 passes l h); 4 passes with recomputation, 3 without,
/// of which the head has 3 x 2 B s h V each time.
double tableFlops(const model::ModelDims &dims, double globalBatch, int passes);

} // namespace dpc::validate

#endif // DPC_TOOLS_REPLAY_RUN_H
