//===- Shrink.h - A small program of the same structure ---------*- C++ -*-===//
//
//
// Makes of a model that is too large to run here one that is not, by its graph
// alone. Any program that is valid and has every kind of op in every kind of
// neighbourhood is as good for checking what a strategy makes of it; its
// numbers mean nothing.
//
// Depth. Ops i and i + p are alike when they agree in everything but the
// parameters they read, and read values made p ops apart (or the same one). A
// run of alike ops of length r is (r + p) / p repeats of a layer of p ops. All
// but some of them are cut: who reads the last repeat's values now reads those
// of the last that stays. What nobody reads any more goes, parameters too.
//
// Width. FactorAnalysis (passes/shard/Factors.h) gives every dimension its
// factors, and factors that are one index a class. A class gets one new size;
// every dimension is the product of its factors as before. So heads * head_dim
// = hidden holds by itself, through all layers. Classes that cannot change are
// *pinned*: parts of slices and concatenations, windows, what is behind a
// reshape that does not align or an op without a rule. Constants are cut to
// the leading indices of their factors.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_SHRINK_SHRINK_H
#define DPC_PASSES_SHRINK_SHRINK_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <map>
#include <set>

namespace dpc {

/// How small.
struct ShrinkOptions {
  /// Repeats of a layer that stay.
  int64_t layers = 2;
  /// Factors up to this size stay, larger ones become this large or a little
  /// larger.
  int64_t size = 8;
  /// Samples; 0 = treat the batch like any other dimension.
  int64_t batch = 0;
  /// A new size is a multiple of `newParts` if and only if the old one is a
  /// multiple of `oldParts`, and even if and only if the old one is.
  int64_t oldParts = 2, newParts = 2;
};

/// What was done.
struct ShrinkSummary {
  /// A layer of `ops` ops occurred `before` times and stays `after` times.
  struct Repeat {
    int64_t ops, before, after;
  };
  llvm::SmallVector<Repeat> repeats;
  /// New sizes of the dimensions of inputs and parameters, by old size.
  std::map<int64_t, std::set<int64_t>> sizes;
};

/// Shrinks `forward` (no encodings) in place; bf16 and f16 become f32. Fails
/// with one diagnostic when the result would not be a valid program.
mlir::FailureOr<ShrinkSummary> shrinkProgram(mlir::func::FuncOp forward,
                                             const ShrinkOptions &options);

/// The part of the above that cuts depth.
llvm::SmallVector<ShrinkSummary::Repeat> cutRepeats(mlir::func::FuncOp forward,
                                                    int64_t layers);

/// Cuts only the repeats that cutRepeats would cut first, to exactly `layers`
/// of them. Nothing, and nothing changed, when there are none, when they are
/// not more, or when results replace arguments.
std::optional<ShrinkSummary::Repeat> cutLayers(mlir::func::FuncOp forward,
                                               int64_t layers);

/// The part of it that cuts sizes, without `sizes` of the summary. Fails with
/// one diagnostic.
llvm::LogicalResult shrinkSizes(mlir::func::FuncOp forward,
                                const ShrinkOptions &options);

} // namespace dpc

#endif // DPC_PASSES_SHRINK_SHRINK_H
