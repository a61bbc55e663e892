//===- WeightFacts.h - Facts about the weights of @forward -----*- C++ -*-===//
#pragma once

#include "ir/Dialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <limits>
#include <string>
#include <vector>

namespace dpc {

/// Returns the name of an argument of @forward, or "".
std::string nameOf(mlir::BlockArgument argument);

/// Whether `argument` is a weight that is not trained.
bool isFrozen(mlir::BlockArgument argument);

/// Whether the gradients of `value` reach a weight that is trained.
bool reachesWeights(mlir::Value value);

/// Returns the first `most` values that the file of the model has for a weight
/// or constant of f32, or nothing if `argument` is none or they cannot be read.
std::vector<float>
valuesInFile(mlir::BlockArgument argument,
             int64_t most = std::numeric_limits<int64_t>::max());

/// Returns the elements that the file of the model has for a weight or
/// constant, or null if they cannot be read.
mlir::DenseElementsAttr elementsInFile(mlir::BlockArgument argument);

/// Marks each weight that a norm of `forward` reads only as its scale (1) or as
/// its bias (0) with this initial value (attr::kInit).
void markNormWeights(mlir::func::FuncOp forward);

/// Returns "frozen: 12 of 74 weights (3.1 M of 7.2 M parameters)", or "" if all
/// parameters of the model are trained.
std::string remarkOnFrozen(mlir::func::FuncOp forward);

/// Returns a remark on trained weights that are probably constants, because
/// ONNX does not tell them from parameters: numbers that are subtracted
/// from an input or divide it, and tables of sines. Returns "" if there are
/// none.
std::string remarkOnLikelyConstants(mlir::func::FuncOp forward);

/// Returns a remark if the model has narrow floats, which --precision=fp32
/// leaves as they are, or "".
std::string remarkOnNarrowWeights(mlir::func::FuncOp forward);

} // namespace dpc
