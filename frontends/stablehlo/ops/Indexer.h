//===- Indexer.h - Common indexing of gather and scatter --------*- C++ -*-===//
//
// Both ops see their operand as [batching.., indexed.., rest..] and their
// indices as [batching.., others..]: each batch element has a table whose rows
// the op picks or adds to. Embeddings, take, take_along_axis, single elements
// or boxes at an index, and the gradients of these have this form.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_FRONTENDS_STABLEHLO_OPS_INDEXER_H
#define DPC_FRONTENDS_STABLEHLO_OPS_INDEXER_H

#include "frontends/emit/Indexing.h"
#include "frontends/stablehlo/Call.h"

namespace dpc::frontend::hlo {

/// The dimension numbers of both ops under common names.
struct Numbers {
  Shape window;    ///< offset_dims, update_window_dims
  Shape collapsed; ///< collapsed_slice_dims, inserted_window_dims
  Shape batching, indexBatching;
  Shape indexed; ///< start_index_map, scatter_dims_to_operand_dims
  int64_t vectorDim = 0;
};

/// Reads the dimension numbers; notes a failure and returns nullopt if the op
/// has none.
std::optional<Numbers> readNumbers(Call &c, bool isGather);

/// The float type in which sums of elements are computed: f64 for integers.
mlir::Type wideFloat(Emitter &e, mlir::Type element);

class Indexer {
public:
  Indexer(Call &c, Numbers numbers, Val x, Val indices)
      : c(c), e(c.emit), n(std::move(numbers)), x(x), indices(indices) {}

  /// Normalizes the indices; returns false after a failure.
  bool prepare(const Shape &windowSizes);
  Val gather(mlir::RankedTensorType type);
  Val scatter(Combiner kind, Val updates, bool isUnique);

private:
  template <typename... Args> bool bad(const Args &...args) {
    c.fail(args...);
    return false;
  }
  bool arrangeIndices();
  bool isSingle() const { return batchShape.empty() || product == 1; }
  llvm::SmallVector<Val> starts() const;
  Val column(int64_t j) const;
  Val linear(bool drops) const;
  Val tableOf(Val value) const;
  Val fromTable(Val table) const;
  Val pick(Val table, Val places, size_t batching) const;
  Val pickOneByOne() const;
  Val inResultOrder(Val picked, Shape ordered, const Shape &kept) const;
  Val spreadOneByOne(Val updates, bool counts) const;
  Val addUpRows(Val places, Val values, int64_t count) const;
  Val clamped(int64_t j) const;
  Shape inRows(llvm::ArrayRef<int64_t> shape) const;
  Val scatterBox(Combiner kind, Val updates) const;
  Val scatterRows(Combiner kind, Val table, Val places, Val rows,
                  bool isUnique) const;
  Val spreadRows(Val places, Val rows) const;
  Val add(Val table, Val more) const;

  Call &c;
  Emitter &e;
  Numbers n;
  Val x, indices;   ///< indices: [dims.., vector]
  Shape sizes;      ///< the window's size per operand dimension
  Shape batchShape; ///< the indices' shape without the vector
  int64_t product = 1;
  Shape batchOrder; ///< batching dimensions of the indices, then the others
  Shape rest;       ///< the other operand dimensions
  Shape order;      ///< batching, indexed, rest
  int64_t rows = 1, columns = 1;
  /// Whether several dimensions are indexed one after the other.
  bool oneByOne = false;
};

} // namespace dpc::frontend::hlo

#endif // DPC_FRONTENDS_STABLEHLO_OPS_INDEXER_H
