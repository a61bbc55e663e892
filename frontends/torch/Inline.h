//===- Inline.h - Inlining of graphs within a program -----------*- C++ -*-===//
//
// torch.export wraps code that runs in a special mode, without gradients or
// with autocast, in a graph that one node calls. This file replaces the call by
// the nodes of that graph, so that views are tracked across it: a write to a
// view that was created inside reaches the tensor that it is a view of.
//===----------------------------------------------------------------------===//
#ifndef DPC_FRONTENDS_TORCH_INLINE_H
#define DPC_FRONTENDS_TORCH_INLINE_H

#include "frontends/torch/Program.h"

namespace dpc::frontend::pt2 {

/// Replaces the calls in `graph`, which belongs to a program in `file`. Values
/// of an inner graph are prefixed by the name of its call. Its results are
/// copied by `aten.alias`, or by `aten.detach` where gradients stop.
llvm::Error inlineCalls(Graph &graph, llvm::StringRef file);

} // namespace dpc::frontend::pt2

#endif // DPC_FRONTENDS_TORCH_INLINE_H
