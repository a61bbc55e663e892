//===- PlanShardings.h - Shardings of model values in a plan ----*- C++ -*-===//
#pragma once

#include "ir/Sharding.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"

#include <map>

namespace dpc::frontend {

/// The shardings that a plan gives to the values of the source model.
class PlanShardings {
public:
  /// Reads the shardings from `sharded` and propagates them through `forward`,
  /// the imported function, to values that the plan fused away.
  PlanShardings(mlir::func::FuncOp sharded, mlir::func::FuncOp forward);

  MeshAttr mesh() const { return meshAttr; }

  /// Returns the sharding with which `value`, called `name`, is computed.
  std::optional<ShardingSpec> made(llvm::StringRef name,
                                   mlir::Value value) const;
  /// Returns the sharding with which a node reads `value`, without partial
  /// sums. `reader` is the node's first output.
  std::optional<ShardingSpec> read(llvm::StringRef reader, llvm::StringRef name,
                                   mlir::Value value) const;
  /// Returns the virtual pipeline stage that computes `value`, if any.
  std::optional<int64_t> stage(mlir::Value value) const;

private:
  using Key = std::pair<std::string, std::string>;

  void readProgram(mlir::func::FuncOp sharded);
  void readOperands(mlir::Operation &op, mlir::func::FuncOp sharded);
  void follow(mlir::func::FuncOp forward);
  void followOp(mlir::Operation &op);
  void addStage(mlir::Operation &op);

  MeshAttr meshAttr;
  llvm::StringMap<llvm::SmallVector<mlir::RankedTensorType, 2>> byName;
  std::map<Key, mlir::RankedTensorType> byReader;
  llvm::StringMap<int64_t> stageByName;
  llvm::DenseMap<mlir::Value, ShardingSpec> specs; ///< in `forward`
  llvm::DenseMap<mlir::Value, int64_t> stages;     ///< in `forward`
};

} // namespace dpc::frontend
