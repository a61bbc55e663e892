//===- Views.h - Values that share memory ----------------------*- C++ -*-===//
//
// A program may write a tensor in place while others show the same memory. Here
// is which values do: a tree per memory, whose edges are the nodes that make a
// view. A write changes the value written, then what it is a view of, up to the
// root, then is seen by every other value of the tree that is read later.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_FRONTENDS_TORCH_VIEWS_H
#define DPC_FRONTENDS_TORCH_VIEWS_H

#include "frontends/torch/Call.h"

namespace dpc::frontend::pt2 {

class Views {
public:
  /// How a value shares memory with another.
  struct Link {
    std::string base;            ///< the value that it is a view of
    const Node *maker = nullptr; ///< the node that made the view
    size_t result = 0;           ///< which of the node's results it is
    bool isCertain = true;       ///< false: may be a copy instead
  };

  explicit Views(const Graph &graph);

  /// The value that holds the memory which `name` shows; may be itself.
  llvm::StringRef rootOf(llvm::StringRef name) const;
  /// What `name` is a view of, or null.
  const Link *linkOf(llvm::StringRef name) const;
  /// Whether `name` shows its root's memory for certain.
  bool isCertain(llvm::StringRef name) const;
  /// All values that share the memory of `name`, in the order in which they are
  /// made.
  llvm::ArrayRef<std::string> sharing(llvm::StringRef name) const;

private:
  llvm::StringMap<Link> links;
  llvm::StringMap<std::vector<std::string>> trees; ///< by root
};

/// `base` once the view of it that `maker` makes has the values of `part`.
/// Fails for views that leave no way back, as expand.
Val writtenBack(Call &maker, Val base, Val part);

} // namespace dpc::frontend::pt2

#endif // DPC_FRONTENDS_TORCH_VIEWS_H
