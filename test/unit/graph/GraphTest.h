//===- GraphTest.h - Running graph functions in tests -----------*- C++ -*-===//
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "test/support/RankInterpreter.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace dpc::test {

/// Returns the context that all tests share, with the dpc dialect and
/// gradients.
mlir::MLIRContext &context();

/// Parses and verifies a module. If this fails, the test fails and the result
/// is null.
mlir::OwningOpRef<mlir::ModuleOp> parse(const std::string &text);

/// Returns true on success.
bool runPasses(mlir::ModuleOp module, const std::string &pipeline);

/// Returns random values for all arguments of `func`: floats in [low, high] and
/// integers in [0, integers). They depend only on `seed`.
std::vector<HostArray> randomInputs(mlir::func::FuncOp func, unsigned seed = 1,
                                    double low = -1.0, double high = 1.0,
                                    int64_t integers = 4);

int64_t countOps(mlir::ModuleOp module, llvm::StringRef name);

/// Returns the largest |a - b| / (1 + |b|), or infinity if the shapes differ.
double distance(const HostArray &a, const HostArray &b);

} // namespace dpc::test
