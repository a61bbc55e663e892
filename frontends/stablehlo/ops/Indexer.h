//===- Indexer.h - What gather and scatter share ---------------*- C++ -*-===//
//
// Both see their operand as [batching.., indexed.., rest..] and their indices
// as [batching.., others..]: a table of rows for each sample, of which some are
// picked, or to which some are added. Embeddings, take, take_along_axis, one
// element or box at a place, and the gradients of all these have this form.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_FRONTENDS_STABLEHLO_OPS_INDEXER_H
#define DPC_FRONTENDS_STABLEHLO_OPS_INDEXER_H

#include "frontends/emit/Indexing.h"
#include "frontends/stablehlo/Call.h"

namespace dpc::frontend::hlo {

/// The dimension numbers of either op under common names.
struct Numbers {
  Shape window;    ///< offset_dims, update_window_dims
  Shape collapsed; ///< collapsed_slice_dims, inserted_window_dims
  Shape batching, indexBatching;
  Shape indexed; ///< start_index_map, scatter_dims_to_operand_dims
  int64_t vectorDim = 0;
};

/// Nullopt (noted) when the op has no such attribute.
std::optional<Numbers> readNumbers(Call &c, bool isGather);

/// Floats that hold what is multiplied by ones and zeros.
mlir::Type wideFloat(Emitter &e, mlir::Type element);

class Indexer {
public:
  Indexer(Call &c, Numbers numbers, Val x, Val indices)
      : c(c), e(c.emit), n(std::move(numbers)), x(x), indices(indices) {}

  /// Brings the indices into order; false after a failure.
  bool prepare(const Shape &windowSizes);
  Val gather(mlir::RankedTensorType type);
  Val scatter(Combiner kind, Val updates, bool isUnique);

private:
  bool bad(const llvm::Twine &why) {
    c.fail(why);
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
  Shape sizes;      ///< of the window, by operand dimension
  Shape batchShape; ///< of the indices without the vector
  int64_t product = 1;
  Shape batchOrder; ///< batching dimensions of the indices, then the others
  Shape rest;       ///< operand dimensions that are neither
  Shape order;      ///< batching, indexed, rest
  int64_t rows = 1, columns = 1;
  /// Several dimensions are indexed, one after the other.
  bool oneByOne = false;
};

} // namespace dpc::frontend::hlo

#endif // DPC_FRONTENDS_STABLEHLO_OPS_INDEXER_H
