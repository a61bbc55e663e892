//===- Stages.h - Which pipeline stage an op runs on ------------*- C++ -*-===//
//
// The forward program, in its order, is cut into contiguous virtual stages; an
// op's gradient runs where the op runs. Written as the attribute `dpc.stage`.
//
// Not every op has a home. What no trained parameter, product or attention has
// entered (masks, positions, counts of labels) and what only moves a
// parameter's data is left unmarked: every stage that needs it makes its own
// copy, which is cheaper than a message. So are the optimizer and all else that
// runs once per step.
//
// The cuts minimize the time of the slowest stage,
//
//   min over cuts  max over stages s  C(s) + p2p(s - 1 | s) + p2p(s | s + 1)
//
// C(s): seconds of the stage's ops and of their gradients for one micro-batch
// on its own devices (embeddings and loss included), p2p: a message of what
// crosses the cut, both ways; one for all micro-batches where computation goes
// on meanwhile. Solved exactly by dynamic programming over the cuts at which
// locally fewest bytes cross; with n of them O(stages * n^2).
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_SHARD_STAGES_H
#define DPC_PASSES_SHARD_STAGES_H

#include "passes/shard/StrategyGraph.h"

namespace dpc {

/// The ops with a home, in program order, as far as balancing them goes.
struct HomedOps {
  /// Seconds of the whole batch on one device, with the op's gradients.
  std::vector<double> seconds;
  /// Bytes of the whole batch that an op or one before it makes, and one behind
  /// it reads.
  std::vector<double> crossingBytes;
  std::vector<mlir::StringRef> names;
  /// `seconds`, which are those of the slowest device, on the device of every
  /// group of the cluster; empty where these are alike.
  std::vector<std::vector<double>> secondsOfGroup;

  int64_t size() const { return seconds.size(); }
};
HomedOps findHomedOps(const ProgramFacts &facts, const cost::Cluster &cluster);

/// The first op of every stage but the first, see the file comment. Needs at
/// least as many ops as stages.
std::vector<int64_t> chooseStageStarts(const HomedOps &ops, bool trains,
                                       const cost::Cluster &cluster,
                                       const LoweringSpec &spec);

/// Marks the ops of `facts.func`: stages begin where `spec.stageStarts`
/// says, or where they are balanced. Fails with a diagnostic when the program
/// has fewer ops with a home than stages.
mlir::LogicalResult markStages(const ProgramFacts &facts,
                               const cost::Cluster &cluster,
                               const LoweringSpec &spec);

/// Ops worth cutting behind, rising: those with no cheaper neighbour. All of
/// them when there are few, or fewer good ones than `wanted`.
std::vector<int64_t> goodCuts(llvm::ArrayRef<double> cutSeconds,
                              int64_t wanted);

/// The balance problem of the file comment on plain numbers: `seconds[i]` of
/// op i, `cutSeconds[i]` of the message between ops i and i + 1. Returns the
/// first op of every stage but the first, ascending. Among equals the earliest
/// cuts. Needs 1 <= stages <= seconds.size().
std::vector<int64_t> balanceStages(llvm::ArrayRef<double> seconds,
                                   llvm::ArrayRef<double> cutSeconds,
                                   int64_t stages);

/// The same where stages are not equally fast.
struct StageProblem {
  std::vector<std::vector<double>> seconds; ///< By kind of stage and op.
  std::vector<double> cutSeconds;
  std::vector<int64_t> kinds; ///< Of every stage, an index of `seconds`.
  /// Most seconds of kind 0 that a stage has memory for; empty = any.
  std::vector<double> room;
};
/// Rooms that cannot hold all ops together are left out of account.
std::vector<int64_t> balanceStages(const StageProblem &problem);

} // namespace dpc

#endif // DPC_PASSES_SHARD_STAGES_H
