//===- LoopTarget.h - Runs the loops of a kernel ----------------*- C++ -*-===//
#pragma once

#include "codegen/kernel/KernelMemory.h"

namespace dpc::codegen {

using ElementsBody = std::function<Values(ArrayRef<Index>)>;

/// Accumulates over the columns of a row. `init` emits the initial values, and
/// `combine` merges the results for two parts of the row.
struct RowFold {
  SmallVector<Type> types;
  std::function<Values()> init;
  Combine combine;
};

/// A box of indices, the values to compute there, and the memory for them.
struct Nest {
  ArrayRef<Value> values; ///< empty if a constant is stored
  ArrayRef<MemoryRef> targets;
  ArrayRef<int64_t> begin, sizes;
};

/// Emits loops over nests and rows, for a CPU or for the threads of a GPU. The
/// code of row ops uses only these functions, so it is written once. `limit` is
/// the number of columns to visit (null: all `size` columns).
class LoopTarget {
public:
  virtual ~LoopTarget() = default;

  virtual Values rowFold(const RowFold &fold, int64_t size, Value limit,
                         const ColumnBody &body) = 0;
  virtual void rowLoop(int64_t size, Value limit,
                       const std::function<void(Index)> &body) = 0;
  /// Visits the columns from `limit` to the end.
  virtual void restLoop(int64_t size, Value limit, const LoopBody &body) = 0;
  /// Emits `body` once per row; `body` may store values.
  virtual void once(const std::function<void()> &body) = 0;
  /// Computes all elements at an index before it stores any of them, since
  /// results may share the memory of operands.
  virtual void nest(const Nest &nest, const ElementsBody &elements) = 0;

  /// Called before each load, which must see all earlier stores.
  virtual void beforeLoad() {}
  /// Returns true if the target keeps the store in order to emit it later.
  virtual bool keepsStore(Value /*scalar*/, const MemoryRef & /*memory*/,
                          ArrayRef<Index> /*indices*/) {
    return false;
  }
};

} // namespace dpc::codegen
