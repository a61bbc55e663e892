//===- Index.h - Affine element indices of a loop nest ----------*- C++ -*-===//
//
// An index is sum(coefs[d] * loop d) + constant + opaque, where loop d runs
// from 0 to size[d] - 1. It stays symbolic for two reasons:
// * A reshape of an affine index stays affine and needs no division at run
//   time. For example, with loops i < 8 and j < 64, (64 i + j) / 64 = i and (64
//   i + j) % 64 = j.
// * A nest can be flattened: loops d and d + 1 become one loop if every access
//   has coefs[d] = size[d+1] * coefs[d+1].
//
//===----------------------------------------------------------------------===//
#pragma once

#include "codegen/kernel/Arithmetic.h"

namespace dpc::codegen {

struct Index {
  SmallVector<int64_t, 6> coefs;
  int64_t constant = 0;
  /// A value that is known only at run time, or null. During the analysis of a
  /// nest, when nothing is emitted, `isOpaque` is set and `opaque` is null.
  Value opaque;
  bool isOpaque = false;
  /// The opaque part is a multiple of this number.
  int64_t multiple = 1;

  bool operator==(const Index &) const = default;
  bool isConstant() const;
};
using Indices = SmallVector<Index, 6>;

/// The loops around the insertion point.
class LoopSpace {
public:
  /// Adds a loop and returns its number. `var` is null during analysis. The
  /// loop variable is a multiple of `multiple` and less than `size`.
  int64_t push(int64_t size, Value var, int64_t multiple = 1);
  void pop();
  int64_t numLoops() const { return static_cast<int64_t>(sizes.size()); }
  int64_t size(int64_t loop) const { return sizes[loop]; }
  Value var(int64_t loop) const { return vars[loop]; }
  int64_t multiple(int64_t loop) const { return multiples[loop]; }
  int64_t largest(int64_t loop) const { return sizes[loop] - multiples[loop]; }

  Index loop(int64_t loop) const;
  static Index constant(int64_t value);
  static Index opaque(Value value);

  /// Add and multiply indices. `b` emits opaque terms (null during analysis).
  static Index add(ImplicitLocOpBuilder *b, const Index &x, const Index &y);
  static Index shift(Index x, int64_t offset) {
    x.constant += offset;
    return x;
  }
  static Indices advance(Indices indices, int64_t offset) {
    if (!indices.empty())
      indices.back() = shift(indices.back(), offset);
    return indices;
  }
  static Index scale(ImplicitLocOpBuilder *b, const Index &x, int64_t factor);
  /// Returns offset + sum(indices[d] * strides[d]).
  static Index linearize(ImplicitLocOpBuilder *b, ArrayRef<Index> indices,
                         ArrayRef<int64_t> strides, int64_t offset);

  /// Divides by `divisor`. Returns the quotient and the remainder, or nullopt
  /// if one of them is not affine.
  std::optional<std::pair<Index, Index>> divide(const Index &index,
                                                int64_t divisor) const;

  /// Emits the index as an i64. A loop without a variable must have been merged
  /// into a later loop (see the file comment).
  Value materialize(ImplicitLocOpBuilder &b, const Index &index) const;

private:
  SmallVector<int64_t, 6> sizes, multiples;
  SmallVector<Value, 6> vars;
};

} // namespace dpc::codegen
