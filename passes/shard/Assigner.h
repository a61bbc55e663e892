//===- Assigner.h - The state of one assignment ------------------*- C++
//-*-===//
//
// Private to Assign.cpp (ops), AssignArguments.cpp (the function's boundary,
// ZeRO) and AssignGradients.cpp (sums of gradients). See Assign.h.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_SHARD_ASSIGNER_H
#define DPC_PASSES_SHARD_ASSIGNER_H

#include "passes/shard/Assign.h"

#include <map>
#include <memory>

namespace dpc {

/// How one op will be split: the sharding each operand must have, and the
/// results' shardings that follow.
struct OpPlan {
  std::vector<ShardingSpec> operands, results;
  double bytes = 0; ///< One rank sends this much for the reshards.
};

/// The same as types: those that operands are resharded to, null where one lies
/// that way already, and those of the results.
struct OpTypes {
  llvm::SmallVector<mlir::RankedTensorType, 4> operands;
  llvm::SmallVector<mlir::RankedTensorType, 2> results;
};

class Assigner {
public:
  Assigner(const ProgramFacts &facts, const ShardChoices &choices,
           const LoweringSpec &degrees);
  llvm::LogicalResult run();

private:
  const ProgramFacts &facts;
  const ShardChoices &choices;
  mlir::func::FuncOp func;
  MeshAttr mesh;
  /// Mesh indices: axes that split the batch, those that ZeRO splits over, the
  /// solved ones in their order, and time.
  llvm::SmallVector<int64_t, 2> dataAxes, zeroAxes, solvedAxes;
  std::optional<int64_t> mbAxis;
  int64_t zero = 0;
  /// `dpc.compress` of reshards, or null.
  mlir::Attribute gradientCompression, weightCompression;

  /// By value, target sharding, and for parameters gathered at use the phase.
  llvm::DenseMap<
      std::pair<mlir::Value, std::pair<mlir::Attribute, mlir::Attribute>>,
      mlir::Value>
      reshards;
  /// Values that exist only when all micro-batches of a step are done.
  llvm::DenseSet<mlir::Value> late;
  /// Parameter whose gradient a value is.
  llvm::DenseMap<mlir::Value, mlir::BlockArgument> parameterOf;
  /// Where a parameter's states lie and its update is computed.
  llvm::DenseMap<mlir::Value, ShardingSpec> updateSpecs;
  /// Parameters in the type that the model computes with.
  llvm::DenseSet<mlir::Value> copies;
  /// Ops that others have taken the place of; erased when it is their turn.
  llvm::DenseSet<mlir::Operation *> replaced;
  std::string why;

  // Axes of a factor.
  llvm::SmallVector<int64_t, 2> batchAxes() const;
  /// The batch is seen as [data ranks, micro-batches, ..] (statistics of a
  /// micro-batch): `mb` splits the second factor instead of the first.
  bool separatesMicroBatches() const;
  llvm::SmallVector<int64_t, 2>
  inOrder(int64_t factorClass, llvm::function_ref<bool(size_t)> isSplit) const;

  // Arguments and results of the function.
  ShardingSpec argumentSpec(mlir::BlockArgument arg);
  llvm::LogicalResult assignArguments();
  ShardingSpec splitOverData(ShardingSpec spec) const;
  bool isGatheredAtUse(mlir::Value value) const;
  bool hasCopy(mlir::BlockArgument parameter) const;
  bool makesCopy(mlir::Operation *op) const;
  void reduceNarrowGradients();
  void findParameterGradients();
  void reshardGradient(mlir::OpBuilder &builder, mlir::Value gradient,
                       mlir::BlockArgument parameter, mlir::Attribute phase);
  void compressReduction(mlir::Value gradient, mlir::Value reduced,
                         mlir::BlockArgument parameter);
  void assignReturn(mlir::func::ReturnOp op);

  // Sums of gradients.
  void assignGradientSum(BinaryOp root);
  ConvertOp conversionOf(BinaryOp root) const;
  void convertSums(mlir::OpBuilder &builder,
                   llvm::MutableArrayRef<std::pair<int64_t, mlir::Value>> sums,
                   ConvertOp like);
  mlir::Value addUp(mlir::OpBuilder &builder,
                    llvm::ArrayRef<mlir::Value> values, mlir::Operation *like);
  mlir::Value sumUp(mlir::OpBuilder &builder,
                    llvm::ArrayRef<mlir::Value> addends, mlir::Operation *like);
  mlir::Value
  sumOverStages(mlir::OpBuilder &builder,
                llvm::ArrayRef<std::pair<int64_t, mlir::Value>> sums,
                mlir::BlockArgument parameter, mlir::Operation *root);
  mlir::Value sumBackwards(mlir::OpBuilder &builder,
                           llvm::ArrayRef<std::pair<int64_t, mlir::Value>> sums,
                           mlir::Operation *root);
  ShardingSpec cheapestCommon(llvm::ArrayRef<mlir::Value> values) const;

  // Ops.
  llvm::LogicalResult assignOp(mlir::Operation *op);
  AxisChoice gradientChoice(mlir::Operation *op, mlir::Operation *forward,
                            const AxisChoice &choice) const;
  AxisChoices everywhere(AxisChoice::Kind kind) const;
  std::optional<AxisChoices> decided(mlir::Operation *op) const;
  std::optional<OpPlan> cheapest(mlir::Operation *op);
  std::vector<DimFactors> iterSplits(mlir::Operation *op,
                                     const AxisChoices &choice) const;
  std::optional<OpPlan> plan(mlir::Operation *op, const AxisChoices &choice);
  bool leadsToParameter(mlir::Operation *op) const;
  void keepPartials(mlir::Operation *op, const AxisChoices &choice,
                    const std::vector<DimFactors> &splits, OpPlan &plan) const;
  ShardingSpec specFor(const TensorMap &map, llvm::ArrayRef<int64_t> shape,
                       const std::vector<DimFactors> &splits) const;
  std::optional<OpPlan> bestPlan(mlir::Operation *op,
                                 const std::optional<AxisChoices> &choice);
  OpTypes typesOf(mlir::Operation *op, const OpPlan &plan) const;
  std::vector<int64_t> keyOf(mlir::Operation *op,
                             const std::optional<AxisChoices> &choice);
  void apply(mlir::Operation *op, const OpTypes &types);
  mlir::Value reshard(mlir::OpBuilder &builder, mlir::Value value,
                      mlir::RankedTensorType to, mlir::Attribute phase);
  mlir::Value reshard(mlir::OpBuilder &builder, mlir::Value value,
                      const ShardingSpec &to, mlir::Attribute phase);

  /// The types of ops by all that decides them: layers repeat the same ones.
  std::map<std::vector<int64_t>, OpTypes> known;

  /// How a value lies. Types are few, values many: read once per type.
  const ShardingSpec &actual(mlir::Value value) const {
    auto [it, isNew] = specs.try_emplace(value.getType());
    if (isNew)
      it->second = std::make_unique<ShardingSpec>(*ShardingSpec::get(
          mlir::cast<mlir::RankedTensorType>(value.getType())));
    return *it->second;
  }
  mutable llvm::DenseMap<mlir::Type, std::unique_ptr<ShardingSpec>> specs;
  /// What one rank holds of a value of this type.
  int64_t localBytes(mlir::Type type) {
    auto [it, isNew] = bytes.try_emplace(type);
    if (isNew)
      it->second =
          sizeInBytes(localType(mlir::cast<mlir::RankedTensorType>(type)));
    return it->second;
  }
  llvm::DenseMap<mlir::Type, int64_t> bytes;
};

/// Equal without looking for a canonical form; false may still be equal.
inline bool isSamePlacement(const ShardingSpec &a, const ShardingSpec &b) {
  return a.partial == b.partial && a.dims == b.dims;
}

/// An addition that differentiation made to sum up gradients.
bool isGradientSum(mlir::Operation *op);
/// Part of a larger sum, which is handled at its root.
bool isInnerSum(mlir::Operation *op);

} // namespace dpc

#endif // DPC_PASSES_SHARD_ASSIGNER_H
