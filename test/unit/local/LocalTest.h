//===- LocalTest.h - Helpers of the tests of passes/local -------*- C++ -*-===//
#ifndef DPC_TEST_UNIT_LOCAL_LOCALTEST_H
#define DPC_TEST_UNIT_LOCAL_LOCALTEST_H

#include "mlir/Pass/PassManager.h"
#include "test/support/RankInterpreter.h"

#include <gtest/gtest.h>

namespace dpc::test {

/// A context with the dialects that the passes use.
mlir::MLIRContext &testContext();

/// Parses `source`; the test fails when it does not parse.
mlir::OwningOpRef<mlir::ModuleOp> parse(const std::string &source);

/// Runs a pipeline such as "dpc-partition,dpc-verify-local".
bool runPasses(mlir::ModuleOp module, const std::string &pipeline);

/// One input per argument of `func`. Integers are small (ids, labels); floats
/// are small integers unless `fractions`.
std::vector<HostArray> makeInputs(mlir::func::FuncOp func, bool fractions);

/// Partitions the sharded function of the module, runs all ranks and compares
/// with the sharded function on one device. `tolerance` is relative to 1 + |x|;
/// 0 compares exactly. `passes` (",name,..") run after dpc-partition, and
/// `mutate` after those. Returns the first difference; empty if there is none.
std::string
compareWithOneDevice(mlir::ModuleOp module, double tolerance,
                     const std::string &passes = "",
                     llvm::function_ref<void(mlir::ModuleOp)> mutate = nullptr);

/// Replaces every dpc.mask by its operand; returns how many there were.
int dropMasks(mlir::ModuleOp module);

/// Number of ops of the given name in @step.
int countOps(mlir::ModuleOp module, llvm::StringRef name);

/// Replaces every $NAME in `text` by bindings[NAME].
std::string fillIn(std::string text,
                   const std::map<std::string, std::string> &bindings);

} // namespace dpc::test

#endif // DPC_TEST_UNIT_LOCAL_LOCALTEST_H
