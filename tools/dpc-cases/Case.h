//===- Case.h - One model, compiled and run once -----------------*- C++
//-*-===//
#ifndef DPC_TOOLS_DPC_CASES_CASE_H
#define DPC_TOOLS_DPC_CASES_CASE_H

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace mlir {
class MLIRContext;
}

namespace dpc {

/// A model and the folder with its inputs, `in/NAME.npy`, which also takes its
/// outputs, `out/NAME.npy`. In file names a '/' of a name is a '_'.
struct Case {
  std::string name;
  std::string model;
  std::string folder;
};

/// Reads a list of cases, one a line: name, model and folder between tabs.
/// On failure `error` has one line and the result is empty.
std::vector<Case> readCases(const std::string &path, std::string &error);

/// What all cases of a run need; made once, before processes are forked.
class CaseRunner {
public:
  /// `ranks`: over so many the batch (dimension 0 of inputs) is split.
  explicit CaseRunner(int64_t ranks);
  ~CaseRunner();

  /// Imports, compiles and runs the model. Returns "" or one line that says
  /// why there are no outputs.
  std::string run(const Case &one) const;

  /// Takes the gradient of the model's loss in its parameters, all of f64.
  /// Writes `gradient/NAME.npy`, what a step of SGD with learning rate 1
  /// subtracts on all ranks; `numeric/NAME.npy`, central differences of the
  /// compiled loss on one rank; and `ops.txt`, the ops that gradients passed
  /// through, as listDifferentiable names them. Parameters of an .mlir are in
  /// `in/NAME.npy`. Returns "" or one line.
  std::string differentiate(const Case &one) const;

  /// The ops that have a gradient, with their kinds: "dpc.unary exp".
  std::vector<std::string> listDifferentiable() const;

  struct State;

private:
  /// `work`, with the first diagnostic in place of what it returns.
  std::string
  attempt(const std::function<std::string(mlir::MLIRContext &)> &work) const;

  std::unique_ptr<State> state;
};

} // namespace dpc

#endif // DPC_TOOLS_DPC_CASES_CASE_H
