//===- Views.h - Values that share memory -----------------------*- C++ -*-===//
//
// A program can write a tensor in place while other values share its memory.
// Views records which values share memory: one tree for each memory, whose
// edges are the nodes that create views. A write changes the written value,
// then the values that it is a view of, up to the root, and then every other
// value of the tree that is read later.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_FRONTENDS_TORCH_VIEWS_H
#define DPC_FRONTENDS_TORCH_VIEWS_H

#include "frontends/torch/Call.h"

namespace dpc::frontend::pt2 {

class Views {
public:
  /// How a view shares memory with `base`.
  struct Link {
    std::string base;            ///< the value that it is a view of
    const Node *maker = nullptr; ///< the node that created the view
    size_t result = 0;           ///< which of the node's results it is
    bool isCertain = true;       ///< false: possibly a copy
  };

  explicit Views(const Graph &graph);

  /// The value that owns the memory of `name`, possibly `name` itself.
  llvm::StringRef rootOf(llvm::StringRef name) const;
  /// The link of `name` to the value that it is a view of, or null.
  const Link *linkOf(llvm::StringRef name) const;
  /// Whether `name` certainly shares its root's memory.
  bool isCertain(llvm::StringRef name) const;
  /// All values that share the memory of `name`, in the order of their
  /// creation.
  llvm::ArrayRef<std::string> sharing(llvm::StringRef name) const;

private:
  llvm::StringMap<Link> links;
  llvm::StringMap<std::vector<std::string>> trees; ///< by root
};

/// Returns `base` after `part` was written to the view of `base` that `maker`
/// created. Fails for views that cannot be inverted, such as expand.
Val writtenBack(Call &maker, Val base, Val part);

} // namespace dpc::frontend::pt2

#endif // DPC_FRONTENDS_TORCH_VIEWS_H
