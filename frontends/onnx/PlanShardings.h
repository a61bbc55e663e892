//===- PlanShardings.h - What a plan says of a model's values --*- C++ -*-===//
#ifndef DPC_FRONTENDS_ONNX_PLANSHARDINGS_H
#define DPC_FRONTENDS_ONNX_PLANSHARDINGS_H

#include "ir/Sharding.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"

#include <map>

namespace dpc::frontend {

/// Shardings of the source model's values, by their names.
class PlanShardings {
public:
  /// Reads them off `sharded`, and follows them through `forward`, the function
  /// as it was imported, to values that the plan has fused away.
  PlanShardings(mlir::func::FuncOp sharded, mlir::func::FuncOp forward);

  MeshAttr mesh() const { return meshAttr; }

  /// How `value`, called `name`, lies where it is made.
  std::optional<ShardingSpec> made(llvm::StringRef name,
                                   mlir::Value value) const;
  /// How the node whose first output is `reader` reads it; never partial.
  std::optional<ShardingSpec> read(llvm::StringRef reader, llvm::StringRef name,
                                   mlir::Value value) const;
  /// The virtual pipeline stage that makes `value`, if there are any.
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
  llvm::DenseMap<mlir::Value, ShardingSpec> specs; ///< of `forward`
  llvm::DenseMap<mlir::Value, int64_t> stages;     ///< of `forward`
};

} // namespace dpc::frontend

#endif // DPC_FRONTENDS_ONNX_PLANSHARDINGS_H
