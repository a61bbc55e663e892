//===- DescribeStep.h - The step of a strategy in the report ----*- C++ -*-===//
#pragma once

#include "cost-model/report/StepDetail.h"
#include "passes/price/StepRecord.h"
#include "passes/shard/LoweringSpec.h"

#include "mlir/IR/BuiltinOps.h"

namespace dpc {

struct StepDescription {
  StepRecord record; ///< Filled by estimateTime.
  std::vector<cost::OperatorSharding> operators;

  /// A PhaseObserver for lowerForStrategy.
  void observe(llvm::StringRef phase, mlir::ModuleOp lowered);
  /// Describes the lowered stages. `fullest` is the stage that uses the largest
  /// part of its memory. May be called only once.
  cost::StepDetail finish(llvm::ArrayRef<mlir::func::FuncOp> steps,
                          int64_t fullest, const cost::Cluster &cluster,
                          const LoweringSpec &spec);
};

/// Compiles the whole `program`, and simulates and describes its step. `spec`
/// must come from pricedSpec. Fails with one diagnostic.
mlir::FailureOr<cost::StepDetail> describeStep(mlir::ModuleOp program,
                                               const cost::Cluster &cluster,
                                               const LoweringSpec &spec);

/// Describes `record`, without memory and operators.
cost::StepDetail detailOf(const StepRecord &record,
                          const cost::Cluster &cluster);

/// Returns the sharding of a value as text, such as "[dp, -, tp]" or "[-, -],
/// partial over tp", or "" if the value has no sharding.
std::string shardingText(mlir::Value value);

/// Replaces layer numbers in `name` by "*", as in "h.*.attn.weight".
std::string patternOf(llvm::StringRef name);

/// Returns the shardings of attention ops, and of forward ops that have a
/// weight. Equal rows of different layers are merged.
std::vector<cost::OperatorSharding>
describeOperators(mlir::func::FuncOp sharded);

} // namespace dpc
