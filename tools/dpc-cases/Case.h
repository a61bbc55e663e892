//===- Case.h - Compiles and runs one model -----------*- C++ -*-===//
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mlir {
class MLIRContext;
}

namespace dpc {

/// A model, and the folder with its inputs `in/NAME.npy` and its outputs
/// `out/NAME.npy`. In file names, '_' replaces '/'.
struct Case {
  std::string name;
  std::string model;
  std::string folder;
};

/// Reads a list with one case per line: name, model and folder, separated by
/// tabs. On failure sets `error` to one line and returns an empty list.
std::vector<Case> readCases(const std::string &path, std::string &error);

/// The state that all cases share, created before processes are forked.
class CaseRunner {
public:
  /// Cases run with the batch (dimension 0 of inputs) split over `ranks`.
  explicit CaseRunner(int64_t ranks);
  ~CaseRunner();

  /// Imports, compiles and runs the model. Returns "" or a one-line error.
  std::string run(const Case &one) const;

  /// Computes gradients of the model's loss in f64, and writes three results:
  /// * `gradient/NAME.npy`: the change of a parameter in one SGD step with
  /// learning
  ///   rate 1 on all ranks
  /// * `numeric/NAME.npy`: central differences of the compiled loss on one rank
  /// * `ops.txt`: the ops that gradients pass through, as in listDifferentiable
  /// The parameters of an .mlir file are in `in/NAME.npy`. Returns "" or a
  /// one-line error.
  std::string differentiate(const Case &one) const;

  /// Returns the ops that have a gradient, with their kinds: "dpc.unary exp".
  std::vector<std::string> listDifferentiable() const;

private:
  std::unique_ptr<mlir::MLIRContext> context;
  int64_t ranks;
};

} // namespace dpc
