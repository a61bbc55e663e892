//===- DescribeStep.h - A strategy's step for the report --------*- C++ -*-===//
#ifndef DPC_PASSES_PRICE_DESCRIBESTEP_H
#define DPC_PASSES_PRICE_DESCRIBESTEP_H

#include "cost-model/report/StepDetail.h"
#include "passes/price/StepRecord.h"
#include "passes/shard/Degrees.h"

#include "mlir/IR/BuiltinOps.h"

namespace dpc {

/// Collects what there is to see of a step while it is compiled and simulated.
struct StepDescription {
  StepRecord record; ///< Filled by estimateTime.
  std::vector<cost::OperatorSharding> operators;

  /// A PhaseObserver of lowerForStrategy.
  void observe(llvm::StringRef phase, mlir::ModuleOp lowered);
  /// Of the stages that were lowered, of which `fullest` is the nearest to its
  /// limit of memory; once.
  cost::StepDetail finish(llvm::ArrayRef<mlir::func::FuncOp> steps,
                          int64_t fullest, const cost::Cluster &cluster,
                          const LoweringSpec &degrees);
};

/// Compiles all of `program` as evaluating a strategy whole does (`degrees`:
/// see pricedDegrees), and describes the step that is simulated. Fails with one
/// diagnostic.
mlir::FailureOr<cost::StepDetail> describeStep(mlir::ModuleOp program,
                                               const cost::Cluster &cluster,
                                               const LoweringSpec &degrees);

/// What `record` says, by plain numbers; without memory and operators.
cost::StepDetail detailOf(const StepRecord &record,
                          const cost::Cluster &cluster);

/// How a value's elements lie on ranks: "[dp, -, tp]", "[-, -], partial over
/// tp"; "" without a sharding.
std::string shardingText(mlir::Value value);

/// A name with the numbers of layers taken out: "h.*.attn.weight".
std::string patternOf(llvm::StringRef name);

/// How the operators of a sharded function's forward are split: those with a
/// weight, and attentions. Rows of layers that are alike are one.
std::vector<cost::OperatorSharding>
describeOperators(mlir::func::FuncOp sharded);

} // namespace dpc

#endif // DPC_PASSES_PRICE_DESCRIBESTEP_H
