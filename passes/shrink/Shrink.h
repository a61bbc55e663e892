//===- Shrink.h - A small program of the same structure ---------*- C++ -*-===//
//
// Verification runs a small model in place of a large one. The small model
// needs the same graph, that is, the same kinds of ops in the same
// combinations. Its results have no meaning.
//
// Depth. Ops i and i + p match if they read the same values, or values of ops
// at distance p; the parameters that they read may differ. A run of r ops that
// each match the op p positions later is (r + p) / p repeats of a layer of p
// ops. Only the first repeats are kept. Users of the last repeat then read the
// last kept repeat. Values and parameters without users are removed.
//
// Width. FactorAnalysis (passes/shard/Factors.h) divides every dimension into
// factors and groups the factors that share an index into classes. A class gets
// one new size, and every dimension becomes the product of its new factors, so
// that heads * head_dim = hidden size remains true in all layers. Classes whose
// size cannot change are *pinned*: classes in parts of slices and
// concatenations, in windows, after reshapes that do not align, and in ops
// without a rule. Constants are cut to the first indices of their factors.
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <map>
#include <set>

namespace dpc {

struct ShrinkOptions {
  /// The number of repeats of each layer that are kept.
  int64_t layers = 2;
  /// Factors up to this size do not change. Larger factors get about this size.
  int64_t size = 8;
  /// The number of samples; 0 treats the batch like other dimensions.
  int64_t batch = 0;
  /// A new size is a multiple of `newParts` if and only if the old size is a
  /// multiple of `oldParts`. Even sizes stay even, and odd sizes stay odd.
  int64_t oldParts = 2, newParts = 2;
};

struct ShrinkSummary {
  /// A layer of `ops` ops had `before` repeats and has `after` repeats.
  struct Repeat {
    int64_t ops, before, after;
  };
  llvm::SmallVector<Repeat> repeats;
  /// Maps old sizes of input and parameter dimensions to new sizes.
  std::map<int64_t, std::set<int64_t>> sizes;
};

/// Shrinks `forward`, which has no encodings, in place. bf16 and f16 become
/// f32. Fails with one diagnostic if the result would not be a valid program.
mlir::FailureOr<ShrinkSummary> shrinkProgram(mlir::func::FuncOp forward,
                                             const ShrinkOptions &options);

/// Cuts the depth to `layers` repeats of every layer.
llvm::SmallVector<ShrinkSummary::Repeat> cutRepeats(mlir::func::FuncOp forward,
                                                    int64_t layers);

/// Cuts only the layer whose repeats have the most ops, to exactly `layers`
/// repeats. Returns nullopt and changes nothing if there are at most `layers`
/// repeats, or if a result is the next value of an argument.
std::optional<ShrinkSummary::Repeat> cutLayers(mlir::func::FuncOp forward,
                                               int64_t layers);

/// Cuts the width. Fails with one diagnostic.
llvm::LogicalResult shrinkSizes(mlir::func::FuncOp forward,
                                const ShrinkOptions &options);

} // namespace dpc
