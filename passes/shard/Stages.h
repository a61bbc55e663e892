//===- Stages.h - Pipeline stages of ops ------------------------*- C++ -*-===//
//
// The forward program is cut, in program order, into contiguous virtual stages.
// A gradient runs on the stage of its forward op. The attribute `dpc.stage`
// holds the stage.
//
// Only some ops have a home. Two kinds of ops stay unmarked: ops that do not
// depend on a trained parameter, GEMM or attention (masks, positions, counts of
// labels), and ops that only move the data of a parameter. Every stage that
// needs the result of an unmarked op repeats the op, which is cheaper than a
// message. The optimizer and other ops that run once per step are unmarked too.
//
// The cuts minimize the time of the slowest stage,
//
//   min over cuts  max over stages s  C(s) + p2p(s - 1 | s) + p2p(s | s + 1)
//
// C(s) is the seconds of the stage's ops and their gradients for one
// micro-batch on the devices of the stage, including embeddings and loss. p2p
// is the seconds of the messages over a cut in both directions; if computation
// hides messages, it is divided by the number of micro-batches. Dynamic
// programming solves this problem exactly over the n cuts whose bytes are a
// local minimum, in O(stages * n^2).
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_SHARD_STAGES_H
#define DPC_PASSES_SHARD_STAGES_H

#include "passes/shard/StrategyGraph.h"

namespace dpc {

/// The ops with a home, in program order.
struct HomedOps {
  /// Seconds of each op with its gradients, for the whole batch on one device,
  /// the slowest.
  std::vector<double> seconds;
  /// Bytes of the whole batch that are produced up to an op and read after the
  /// op.
  std::vector<double> crossingBytes;
  std::vector<mlir::StringRef> names;
  /// `seconds` for each group of a heterogeneous cluster; else empty.
  std::vector<std::vector<double>> secondsOfGroup;

  int64_t size() const { return seconds.size(); }
};
HomedOps findHomedOps(const ProgramFacts &facts, const cost::Cluster &cluster);

/// The first op of every stage except the first. There must be at least as many
/// ops as stages.
std::vector<int64_t> chooseStageStarts(const HomedOps &ops, bool trains,
                                       const cost::Cluster &cluster,
                                       const LoweringSpec &spec);

/// Marks the ops of `facts.func`: stages begin at `spec.stageStarts`, or are
/// balanced. Fails with a diagnostic if fewer ops than stages have a home.
mlir::LogicalResult markStages(const ProgramFacts &facts,
                               const cost::Cluster &cluster,
                               const LoweringSpec &spec);

/// The ops after which to cut, ascending: those whose neighbors are not
/// cheaper. Returns all ops if there are few ops, or if fewer than `wanted`
/// qualify.
std::vector<int64_t> goodCuts(llvm::ArrayRef<double> cutSeconds,
                              int64_t wanted);

/// Solves the problem of the file comment for the seconds of each op i and of
/// the message between ops i and i + 1. Returns the first op of every stage
/// except the first, ascending; the earliest cuts on ties. Needs 1 <= stages <=
/// seconds.size().
std::vector<int64_t> balanceStages(llvm::ArrayRef<double> seconds,
                                   llvm::ArrayRef<double> cutSeconds,
                                   int64_t stages);

/// The problem of the file comment for stages of different speeds.
struct StageProblem {
  std::vector<std::vector<double>> seconds; ///< By kind of stage and op.
  std::vector<double> cutSeconds;
  std::vector<int64_t> kinds; ///< For each stage, an index of `seconds`.
  /// For each stage, the maximum seconds of kind 0 that fit its memory; empty:
  /// no limit.
  std::vector<double> room;
};
/// Ignores `room` if the memory of all stages together is too small.
std::vector<int64_t> balanceStages(const StageProblem &problem);

} // namespace dpc

#endif // DPC_PASSES_SHARD_STAGES_H
