//===- Model.h - The model of a published run -------------------*- C++ -*-===//
//
// Families: gpt (BLOOM if the notes mention ALiBi, MPT if the title does),
// llama, qwen (a llama; Qwen3 norms the heads of queries and keys) and moe, a
// llama with experts that drop no token. The sizes of a mixture stand in the
// columns (experts, top_k, moe_ffn, shared_experts, dense_layers, mtp,
// head_dim) or in the notes ("moe E=256 top8 +1 shared, moe_ffn=2048, MLA
// q_lora 1536 kv_lora 512, first 3 layers dense"). What neither states follows
// from the published model of this name (dpc-model), if dpc has it. Runs that
// drop tokens do so at a capacity factor of 1 with forced balance, and compute
// as many products as if they dropped none.
//
// Megatron-LM pads the vocabulary of the families gpt and bloom to a multiple
// of 128 x tp, which aligns the GEMMs of all shards.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/dims/ModelDims.h"
#include "tools/replay/Table.h"

namespace dpc::validate {

/// Reads the cells of a row, and keeps the first error.
class RowReader {
public:
  explicit RowReader(const Row &row) : row(row) {}

protected:
  const Row &row;
  std::string error;

  void fail(const std::string &why) {
    if (error.empty())
      error = why;
  }
  /// Returns the positive integer in `column`, or `otherwise` if the cell is
  /// empty.
  int64_t size(const char *column, std::optional<int64_t> otherwise = {});
};

/// Returns the completed dims of the model that `row` describes, trained with
/// tensor parallelism over `tp` ranks.
Expected<model::ModelDims> dimsOf(const Row &row, int64_t tp);

/// Returns the FLOPs of one step of a GPT on a global batch, as publications
/// count them (Narayanan et al., 2021, appendix): `passes` x 24 B s l h^2 (1 +
/// s / 6h + V / 4 passes l h). `passes` is 4 with recomputation and 3 without.
/// The head has 3 x 2 B s h V in both cases.
double tableFlops(const model::ModelDims &dims, double globalBatch, int passes);

/// Returns the FLOPs of the GEMMs of one step of a llama or a mixture on a
/// global batch, without recomputation: three times those of the forward pass.
/// Attention counts the masked scores too, and experts count the chosen ones
/// (nanotron, LlamaForTraining.get_flops_per_sec).
double gemmFlops(const model::ModelDims &dims, double globalBatch);

} // namespace dpc::validate
