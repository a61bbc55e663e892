//===- Liveness.h - Live nodes of a program ---------------------*- C++ -*-===//
#pragma once

#include "frontends/torch/Program.h"

#include "llvm/ADT/StringSet.h"

namespace dpc::frontend::pt2 {

/// Returns the pure form of a target that writes its first argument
/// ("aten.add.Tensor" for "aten.add_.Tensor"); "" for other targets.
std::string pureForm(llvm::StringRef target);

/// Whether the node writes its first argument.
bool writesFirst(const Node &node);

/// Returns the values whose data the node changes: those that it writes, and
/// the running statistics of a batch norm in training mode.
llvm::SmallVector<llvm::StringRef> changedBy(const Node &node);

/// Whether a ScalarType of the schema is a float type.
bool isFloatType(int64_t dtype);

/// Calls `visit` with the name of each value in an argument.
void forEachName(const Argument &argument,
                 llvm::function_ref<void(llvm::StringRef)> visit);

/// Which nodes the program's results and the next values of its weights depend
/// on. An integer buffer that nothing but its own update reads, such as
/// `num_batches_tracked`, has no next value.
struct Liveness {
  std::vector<bool> nodes; ///< by position: whether the node is live
  llvm::StringSet<> values;
  llvm::StringMap<size_t> lastUse; ///< last live node that uses it
  /// Inputs of the graph that live nodes or outputs change.
  llvm::StringSet<> changed;
};

Liveness findLive(const Program &program);

} // namespace dpc::frontend::pt2
