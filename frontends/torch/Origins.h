//===- Origins.h - Where values of a graph come from ------------*- C++ -*-===//
#pragma once

#include "frontends/torch/Liveness.h"

namespace dpc::frontend::pt2 {

/// Returns the name of a tensor operand, or "".
std::string operand(const Node &node, size_t index);

std::string textOf(const Size &size);
/// "[s0, 1]"
std::string textOf(const std::vector<Size> &sizes);

class Origins {
public:
  explicit Origins(const Graph &graph);

  /// Returns the node that makes `name`, or null if it is an input.
  const Node *makerOf(llvm::StringRef name) const {
    return makers.lookup(name);
  }
  /// Returns the value that has the elements of `name`, before nodes that only
  /// move or convert them.
  std::string sourceOf(std::string name) const;

private:
  llvm::StringMap<const Node *> makers;
};

} // namespace dpc::frontend::pt2
