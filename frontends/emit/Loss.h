//===- Loss.h - The output that training minimizes --------------*- C++ -*-===//
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/Support/Error.h"

namespace dpc::frontend {

/// Returns the results that a model can be trained on: float scalars, except
/// the next values of arguments.
llvm::SmallVector<unsigned> possibleLosses(mlir::func::FuncOp function);

/// Says how a model makes a loss, a float scalar, of an output of this type.
std::string adviceOnLoss(mlir::RankedTensorType type);

/// Marks the result called `name` as the loss. If `name` is empty, marks the
/// result called "loss", or else the only possible loss. Marks nothing if the
/// choice is not clear. Fails if `name` names no possible loss of `file`.
llvm::Error markLoss(mlir::func::FuncOp function, llvm::StringRef name,
                     llvm::StringRef file);

} // namespace dpc::frontend
