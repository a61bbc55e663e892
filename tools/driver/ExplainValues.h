//===- ExplainValues.h - What has a name in a sharded program ---*- C++ -*-===//
#ifndef DPC_TOOLS_DRIVER_EXPLAINVALUES_H
#define DPC_TOOLS_DRIVER_EXPLAINVALUES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace dpc {

/// An argument of a sharded step function, or the operators that an operator of
/// the model became; those of layers that are alike are one.
struct NamedValue {
  std::string name;              ///< "*" where layers differ by a number.
  std::set<std::string> members; ///< The names in full.
  std::string role;              ///< Of an argument, as in ir/Dialect.h; or "".
  /// How it lies, a line each, and how many are alike.
  std::vector<std::pair<std::string, int64_t>> lines;

  /// By the model's name of an operator, or of its first result.
  bool isCalled(llvm::StringRef asked) const;
  /// Whether `part` is in a name of it.
  bool contains(llvm::StringRef part) const;
};

std::vector<NamedValue> namedValues(mlir::func::FuncOp sharded);

/// "; near: a, b, c", of at most five of `names`, or "".
std::string nearNames(llvm::StringRef asked,
                      const std::set<std::string> &names);

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_EXPLAINVALUES_H
