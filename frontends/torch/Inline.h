//===- Inline.h - Graphs within a program -----------------------*- C++ -*-===//
//
// torch.export wraps what runs in a mode of its own, without gradients or with
// autocast, in a graph that one node calls. Here the nodes of such graphs take
// the place of the call, so that views are followed across its border: what is
// written to a view that was made inside reaches the tensor behind it.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_FRONTENDS_TORCH_INLINE_H
#define DPC_FRONTENDS_TORCH_INLINE_H

#include "frontends/torch/Program.h"

namespace dpc::frontend::pt2 {

/// Replaces the calls of `graph`, of a program in `file`. Values of an inner
/// graph are named after its call; its results are what `aten.alias`, or
/// `aten.detach` where gradients stop, makes of them.
llvm::Error inlineCalls(Graph &graph, llvm::StringRef file);

} // namespace dpc::frontend::pt2

#endif // DPC_FRONTENDS_TORCH_INLINE_H
