//===- Run.h - A published run as dpc's model, cluster, strategy *- C++ -*-===//
//
// What the columns leave open is filled in as the software of the time does it:
//   * Megatron pads the vocabulary to a multiple of 128 x tp (families gpt and
//     bloom), so that every shard's product is aligned;
//   * the software profile (cost-model/software) is the one of the source's
//   era;
//     where the source is unknown, attention writes its scores to memory on
//     V100 and A100 unless the notes say FlashAttention; Llama models and newer
//     GPUs came after it;
//   * optimizer: AdamW with fp32 masters and states;
//   * an unstated ZeRO stage is 0.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_TOOLS_DPC_VALIDATE_RUN_H
#define DPC_TOOLS_DPC_VALIDATE_RUN_H

#include "cost-model/Cluster.h"
#include "cost-model/Strategy.h"
#include "tools/dpc-model/ModelDims.h"
#include "tools/dpc-validate/Table.h"

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

/// Columns that a file has to have.
const std::vector<std::string> &runColumns();

/// The run of a row. The error is a reason to leave the row out, the same for
/// rows that lack the same.
cost::Result<PublishedRun> runOf(const Row &row);

/// Floating-point operations of one step of a GPT on a global batch as tables
/// count them (Narayanan et al., 2021, appendix): `passes` x 24 B s l h^2
/// (1 + s / 6h + V / 4 passes l h); 4 passes with recomputation, 3 without,
/// of which the head has 3 x 2 B s h V each time.
double tableFlops(const model::ModelDims &dims, double globalBatch, int passes);

} // namespace dpc::validate

#endif // DPC_TOOLS_DPC_VALIDATE_RUN_H
