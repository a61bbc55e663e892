//===- Stages.h - Pipeline stages of ops ------------------------*- C++ -*-===//
//
// The forward program is cut, in program order, into contiguous virtual stages.
// A gradient runs on the stage of its forward op. The attribute `dpc.stage`
// stores the stage.
//
// *Staged* ops are assigned to one stage. Two kinds of ops are not: ops that do
// not depend on a trained parameter, GEMM or attention (masks, positions,
// counts of labels), and ops that only move the data of a parameter. Every
// stage that needs their result repeats them, which is cheaper than a message.
// The optimizer and other ops that run once per step are not assigned either.
//
// The cuts minimize the time of the slowest stage,
//
//   min over cuts  max over stages s  C(s) + p2p(s - 1 | s) + p2p(s | s + 1)
//
// C(s) is how long the ops of stage s and their gradients take for one
// micro-batch on the devices of the stage, including embeddings and loss. p2p
// is how long the messages over a cut take in both directions, divided by the
// number of micro-batches if computation hides messages. Only the n cuts whose
// bytes are a local minimum are considered. For these cuts, dynamic programming
// finds the optimum in O(stages * n^2).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/shard/StrategyGraph.h"

namespace dpc {

/// The ops that are assigned to a stage, in program order.
struct StagedOps {
  /// The seconds of each op with its gradients, for the whole batch on the
  /// slowest device.
  std::vector<double> seconds;
  /// What the gradients of parameters of an op take in addition for every
  /// micro-batch but the first one, without any split.
  struct Sums {
    double writeSeconds = 0; ///< Of gradients; a GEMM writes them meanwhile.
    double addSeconds = 0;   ///< To add them to their f32 sums.
  };
  std::vector<Sums> sums; ///< Of each op.
  /// The bytes produced up to each op and read after it, for the whole batch.
  std::vector<double> crossingBytes;
  std::vector<mlir::StringRef> names;
  /// `seconds` for each group of a heterogeneous cluster; otherwise empty.
  std::vector<std::vector<double>> secondsOfGroup;

  int64_t size() const { return seconds.size(); }
  /// Returns `seconds` with the sums of the micro-batches of `spec`. With ep,
  /// returns `seconds`: with sums, stages are also cut inside layers with
  /// experts, and a published layout of DeepSeek-V3 is estimated to take 15.5 s
  /// instead of 9.7 s.
  std::vector<double> secondsFor(const LoweringSpec &spec) const;
};
StagedOps findStagedOps(const ProgramFacts &facts,
                        const cost::Cluster &cluster);

/// Returns the first op of every stage except the first. There must be at least
/// as many ops as stages.
std::vector<int64_t> chooseStageStarts(const StagedOps &ops, bool trains,
                                       const cost::Cluster &cluster,
                                       const LoweringSpec &spec);

/// Assigns stages to the ops of `facts.func`. Stages begin at
/// `spec.stageStarts`; if it is empty, they are balanced. Fails with a
/// diagnostic if there are fewer staged ops than stages.
mlir::LogicalResult markStages(const ProgramFacts &facts,
                               const cost::Cluster &cluster,
                               const LoweringSpec &spec);

/// Returns the ops after which to cut, ascending: those at which the seconds
/// are a local minimum. Returns all ops if few ops or minima exist.
std::vector<int64_t> goodCuts(llvm::ArrayRef<double> cutSeconds,
                              int64_t wanted);

/// Solves the problem of the file comment. `cutSeconds[i]` is for the message
/// between ops i and i + 1. Returns the first op of every stage except the
/// first, ascending; the earliest cuts on ties. Each stage must have an op.
std::vector<int64_t> balanceStages(llvm::ArrayRef<double> seconds,
                                   llvm::ArrayRef<double> cutSeconds,
                                   int64_t stages);

/// The problem of the file comment, for stages on devices of different speeds.
struct StageProblem {
  std::vector<std::vector<double>> seconds; ///< By kind of device and op.
  std::vector<double> cutSeconds;
  std::vector<int64_t> kinds; ///< For each stage, an index of `seconds`.
  /// For each stage, the most seconds of kind 0 that fit its memory. If empty,
  /// there is no limit.
  std::vector<double> room;
};
/// Ignores `room` if all stages together have too little memory.
std::vector<int64_t> balanceStages(const StageProblem &problem);

} // namespace dpc
