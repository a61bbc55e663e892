//===- FrameworkMemory.h - What frameworks keep of a step -------*- C++ -*-===//
//
// Peaks are published of the frameworks that ran, which keep other things than
// a plan of this compiler. From the dims, the strategy and the software profile
// (cost-model/Software.h, `memory`), per rank of a stage:
//
//   parameters P   layers of the stage, and the embedding on the first and the
//                  last stage, over tp
//   states         2 P, gradients P and update P, each over the ranks that its
//                  ZeRO stage splits it over
//   a layer keeps  (Korthikanti et al. 2022, table 2; t tokens, h hidden, f
//   ffn,
//                  k width of keys and values; SP divides the first part too)
//     GPT          t (10 h + (4 h + 4 k + 4 f) / tp)
//     Llama        t (8 h + (4 h + 4 k + 6 f) / tp)
//     scores       unfused attention only: a s^2 b / tp times 2 bytes, 5 with
//                  dropout
//   recomputation  full: 2 t h; selective: all but scores; what is recomputed
//   is
//                  there once, for the layer that is in work
//   in flight      min(pp, micro-batches) on the first stage, 1 on the last;
//                  interleaved stages: 1 + (pp - 1) / (pp vpp) times as much
//   device         no more than it has: allocators give back what they hold
//                  free before they fail
//   head           10 bytes per logit: as made, as f32, and their gradient
//
//===----------------------------------------------------------------------===//
#ifndef DPC_TOOLS_DPC_VALIDATE_FRAMEWORKMEMORY_H
#define DPC_TOOLS_DPC_VALIDATE_FRAMEWORKMEMORY_H

#include "tools/dpc-validate/Run.h"

namespace dpc::validate {

/// Bytes at the peak of the fullest rank, or nothing where the software of the
/// run does not say what it keeps.
std::optional<double> frameworkMemory(const PublishedRun &run);

} // namespace dpc::validate

#endif // DPC_TOOLS_DPC_VALIDATE_FRAMEWORKMEMORY_H
