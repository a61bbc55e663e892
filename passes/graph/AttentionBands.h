//===- AttentionBands.h - Masks by the distance of keys ---------*- C++ -*-===//
#pragma once

#include "passes/graph/Match.h"

namespace dpc {

/// The keys that a mask keeps. Query t stands at key t + S - T, and a key has
/// the distance from there to itself, backward.
struct Band {
  bool causal = false;             ///< hides negative distances
  std::optional<int64_t> window{}; ///< hides distances from this number on

  bool keeps(int64_t distance) const {
    return (!causal || distance >= 0) && (!window || distance < *window);
  }
  /// Hides what either band hides.
  void add(const Band &other);
};

/// Finds masks [B, H, T, S] that are bands. Caches answers, because layers
/// share masks, which are large. No op may be erased while the reader exists.
class BandReader {
public:
  /// Returns the band of the elements of `condition` that equal `keeps`;
  /// nullopt if they are no band.
  std::optional<Band> ofCondition(mlir::Value condition, bool keeps);

  /// Returns the band of the elements of `mask` that are 0 if all other
  /// elements are at most `limit` < 0; else nullopt.
  std::optional<Band> ofTerm(mlir::Value mask, double limit);

private:
  struct Term {
    std::optional<Band> band;
    double largest; ///< of the masked elements
  };

  llvm::DenseMap<mlir::Value, Term> terms;
  llvm::DenseMap<std::pair<mlir::Value, unsigned>, std::optional<Band>>
      conditions;
};

/// Returns a mask [1, 1, T, S] that hides the keys s <= t + S - T - `window` of
/// attention to `element`s.
mlir::Value windowMask(GraphBuilder g, int64_t queries, int64_t keys,
                       int64_t window, mlir::Type element);

/// Replaces the window of `op`, an attention or its gradient, by `mask`, the
/// mask of this window. Adds it to the mask that the op has.
void hideByMask(GraphBuilder g, mlir::Operation *op, mlir::Value mask);

} // namespace dpc
