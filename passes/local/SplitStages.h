//===- SplitStages.h - Places of ops in a pipeline --------------*- C++ -*-===//
#pragma once

#include "ir/Dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <set>

namespace dpc {

/// Returns the stage of the op that produces `value`. For an op without a
/// stage, returns the lowest stage on which it depends through other ops
/// without a stage, or nullopt if there is none.
std::optional<int64_t> homeOf(mlir::Value value);

/// Decides where the ops of a pipeline run (see SplitStages.cpp).
class StageDemand {
public:
  static constexpr int64_t kNoStage = -1;

  struct Place {
    int64_t stage = kNoStage; ///< Virtual stage; kNoStage in setup and update.
    int64_t rank = 0;         ///< Rank stage.
    auto operator<=>(const Place &) const = default;
  };

  /// `step` is the program of all `ranks` rank stages. A pass over the
  /// micro-batches has `stages` virtual stages: those of pass p are numbered
  /// from p * stages. The phases, stages and passes of `step` must not change
  /// while this object is used.
  StageDemand(mlir::func::FuncOp step, int64_t ranks, int64_t stages);

  /// Returns the places of `op`, sorted; empty if no op needs its results.
  llvm::ArrayRef<Place> placesOf(mlir::Operation *op) const {
    return of(op).places;
  }
  /// Returns the place of the instance of `op` that a reader at `reader` reads.
  Place placeFor(mlir::Operation *op, Place reader) const {
    return placeFor(of(op), reader);
  }
  Phase phaseOf(mlir::Operation *op) const { return of(op).phase; }
  /// Returns the pass of an op of the loop.
  int64_t passOf(mlir::Operation *op) const { return of(op).pass; }
  /// holdersOf: the rank stages that have the argument. ranksOfResult: the rank
  /// stages that return the result.
  const std::set<int64_t> &holdersOf(unsigned argument) const {
    return holders[argument];
  }
  const std::set<int64_t> &ranksOfResult(unsigned result) const {
    return results[result];
  }

private:
  struct Info {
    mlir::Operation *op = nullptr;
    std::optional<int64_t> home;
    Phase phase = Phase::forward;
    int64_t pass = 0;
    llvm::SmallVector<Place, 1> places;
  };
  const Info &of(mlir::Operation *op) const {
    return infos[indices.find(op)->second];
  }
  Place placeFor(const Info &info, Place reader) const;
  void want(mlir::Value value, Place reader);
  void wantOp(Info &info, Place place);
  bool wantResults(mlir::func::FuncOp step, bool alsoUnread);

  int64_t ranks, stages;
  std::vector<Info> infos; ///< In program order.
  llvm::DenseMap<mlir::Operation *, int32_t> indices;
  std::vector<std::set<int64_t>> holders, results;
  bool isHeldMore = false;
};

} // namespace dpc
