//===- Views.h - Values that share memory -----------------------*- C++ -*-===//
//
// A write to a tensor also changes all other values that share its memory.
// Views records these values as one tree per memory: the root owns the memory,
// and each edge is a node that creates a view. A write updates the written
// value, its bases up to the root, and all other values that are read later.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/torch/Call.h"

namespace dpc::frontend::pt2 {

class Views {
public:
  /// How a view shares memory with its base.
  struct Link {
    std::string base;            ///< value that this is a view of
    const Node *maker = nullptr; ///< node that creates the view
    size_t result = 0;           ///< index among the node's results
    bool isCertain = true;       ///< false: possibly a copy
  };

  explicit Views(const Graph &graph);

  /// Returns the value that owns the memory of `name`, possibly `name` itself.
  llvm::StringRef rootOf(llvm::StringRef name) const;
  /// Returns how `name` is a view of another value; null if it is not a view.
  const Link *linkOf(llvm::StringRef name) const;
  /// Whether `name` certainly shares the memory of its root.
  bool isCertain(llvm::StringRef name) const;
  /// Returns all values that share the memory of `name`, in order of creation.
  llvm::ArrayRef<std::string> sharing(llvm::StringRef name) const;

private:
  llvm::StringMap<Link> links;
  llvm::StringMap<std::vector<std::string>> trees; ///< by root
};

/// Returns `base` after a write of `part` to the view that `maker` created from
/// it. Fails if the view cannot be inverted, such as an expand.
Val writtenBack(Call &maker, Val base, Val part);

} // namespace dpc::frontend::pt2
