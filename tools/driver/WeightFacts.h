//===- WeightFacts.h - Facts about the weights of @forward -----*- C++ -*-===//
#pragma once

#include "ir/Dialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/DenseSet.h"

#include <limits>
#include <string>
#include <vector>

namespace dpc {

/// Returns the name of an argument of @forward, or "".
std::string nameOf(mlir::BlockArgument argument);

/// Whether `argument` is a weight that is not trained.
bool isFrozen(mlir::BlockArgument argument);

/// Whether `argument` is a weight that is trained.
bool isTrained(mlir::BlockArgument argument);

/// Returns the numbers of a constant of floats, or nothing for another one.
std::vector<double> numbersOf(ConstantOp constant);

/// What the values of a function depend on.
struct Reach {
  explicit Reach(mlir::func::FuncOp forward);

  bool readsInput(mlir::Value value) const { return inputs.contains(value); }
  /// Whether the gradients of `value` reach a weight that is trained.
  bool reachesWeights(mlir::Value value) const {
    return weights.contains(value);
  }

private:
  llvm::DenseSet<mlir::Value> inputs, weights;
};

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

/// Returns a remark on weights with several names that differ in numbers alone,
/// as those of one module that is several times in a list do, or "".
std::string remarkOnRepeatedModules(mlir::func::FuncOp forward);

/// Returns a remark on trained weights that are probably constants: a number
/// that is subtracted from an input, and another that divides the difference.
/// If the format does not tell buffers from parameters (`hasBuffers`), such as
/// ONNX, also one of the two, and tables of sines. Returns "" if there are
/// none.
std::string remarkOnLikelyConstants(mlir::func::FuncOp forward,
                                    bool hasBuffers);

/// Returns a remark if the model has narrow floats, which --precision=fp32
/// leaves as they are, or "".
std::string remarkOnNarrowWeights(mlir::func::FuncOp forward);

} // namespace dpc
