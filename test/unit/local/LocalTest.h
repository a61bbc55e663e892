//===- LocalTest.h - Helpers of the tests of passes/local -------*- C++ -*-===//
#pragma once

#include "mlir/Pass/PassManager.h"
#include "test/support/RankInterpreter.h"

#include <gtest/gtest.h>

namespace dpc::test {

mlir::MLIRContext &testContext();

/// Parses `source`. The test fails if `source` does not parse.
mlir::OwningOpRef<mlir::ModuleOp> parse(const std::string &source);

/// Runs a pipeline, for example "dpc-partition,dpc-verify-local".
bool runPasses(mlir::ModuleOp module, const std::string &pipeline);

/// Returns one input per argument of `func`. All values are small integers, but
/// with `fractions`, floats are between -1 and 1.
std::vector<HostArray> makeInputs(mlir::func::FuncOp func, bool fractions);

/// Partitions the sharded function of the module, runs all ranks and compares
/// with the sharded function on one device. `tolerance` is relative to 1 + |x|;
/// 0 compares exactly. First `passes` (",name,..") and then `mutate` run after
/// dpc-partition. Returns the first difference; empty if there is none.
std::string
compareWithOneDevice(mlir::ModuleOp module, double tolerance,
                     const std::string &passes = "",
                     llvm::function_ref<void(mlir::ModuleOp)> mutate = nullptr);

/// Replaces every dpc.mask by its operand and returns the number of masks.
int dropMasks(mlir::ModuleOp module);

int countOps(mlir::ModuleOp module, llvm::StringRef name);

/// Replaces every $NAME in `text` by bindings[NAME].
std::string fillIn(std::string text,
                   const std::map<std::string, std::string> &bindings);

} // namespace dpc::test
