//===- SplitStages.h - Places of ops in a pipeline --------------*- C++ -*-===//
#ifndef DPC_PASSES_LOCAL_SPLITSTAGES_H
#define DPC_PASSES_LOCAL_SPLITSTAGES_H

#include "ir/Dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <set>

namespace dpc {

/// The stage of the op that produces `value`. If the op has none, the first
/// stage among the ops it reads through ops without one; nullopt if there is
/// none.
std::optional<int64_t> homeOf(mlir::Value value);

/// The places where the ops of a program with stages run.
class StageDemand {
public:
  static constexpr int64_t kNoStage = -1;

  /// Where an instance of an op runs.
  struct Place {
    int64_t stage = kNoStage; ///< Virtual; kNoStage in setup and update.
    int64_t rank = 0;         ///< Rank stage.
    auto operator<=>(const Place &) const = default;
  };

  /// `step` is the function of all `ranks` rank stages. Its ops must keep their
  /// phases and stages while this is used.
  StageDemand(mlir::func::FuncOp step, int64_t ranks);

  /// The places of `op`, sorted; empty if no op needs it.
  llvm::ArrayRef<Place> placesOf(mlir::Operation *op) const {
    return of(op).places;
  }
  /// The instance of `op` whose results a reader at `reader` reads.
  Place placeFor(mlir::Operation *op, Place reader) const {
    return placeFor(of(op), reader);
  }
  Phase phaseOf(mlir::Operation *op) const { return of(op).phase; }
  /// The rank stages that have the argument; those that return the result.
  const std::set<int64_t> &holdersOf(unsigned argument) const {
    return holders[argument];
  }
  const std::set<int64_t> &ranksOfResult(unsigned result) const {
    return results[result];
  }

private:
  /// Properties of an op, computed once.
  struct Info {
    mlir::Operation *op = nullptr;
    std::optional<int64_t> home;
    Phase phase = Phase::forward;
    llvm::SmallVector<Place, 1> places;
  };
  const Info &of(mlir::Operation *op) const {
    return infos[indices.find(op)->second];
  }
  Place placeFor(const Info &info, Place reader) const;
  void want(mlir::Value value, Place reader);
  void wantOp(Info &info, Place place);
  bool wantResults(mlir::func::FuncOp step, bool alsoUnread);

  int64_t ranks;
  std::vector<Info> infos; ///< In program order.
  llvm::DenseMap<mlir::Operation *, int32_t> indices;
  std::vector<std::set<int64_t>> holders, results;
  bool isHeldMore = false; ///< `holders` has grown.
};

} // namespace dpc

#endif // DPC_PASSES_LOCAL_SPLITSTAGES_H
