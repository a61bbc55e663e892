//===- Shrink.h - A small program of the same structure ---------*- C++ -*-===//
//
// A large model is verified on a small model with the same graph. Any valid
// program with the same kinds of ops in the same combinations tests a strategy
// as well as the large one. The numbers of the small model have no meaning.
//
// Depth. Ops i and i + p match if they read the same values, or values of ops
// at a distance of p; the parameters that they read may differ. A run of r ops
// that match the op at distance p is (r + p) / p repeats of a layer of p ops.
// All repeats except the first few are cut: users of the last repeat then read
// the values of the last remaining repeat. Values and parameters without users
// are removed.
//
// Width. FactorAnalysis (passes/shard/Factors.h) divides every dimension into
// factors, and groups factors that have one index into classes. A class gets
// one new size, and every dimension is the product of its new factors. So heads
// * head_dim = hidden remains true in all layers. Classes whose size cannot
// change are *pinned*: classes in parts of slices and concatenations, in
// windows, after reshapes that do not align, and in ops without a rule.
// Constants are cut to the first indices of their factors.
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_SHRINK_SHRINK_H
#define DPC_PASSES_SHRINK_SHRINK_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <map>
#include <set>

namespace dpc {

struct ShrinkOptions {
  /// The number of repeats of a layer that remain.
  int64_t layers = 2;
  /// Factors up to this size do not change. Larger factors get about this size.
  int64_t size = 8;
  /// The number of samples; 0 treats the batch like other dimensions.
  int64_t batch = 0;
  /// A new size is a multiple of `newParts` if and only if the old size is a
  /// multiple of `oldParts`, and even if and only if the old size is even.
  int64_t oldParts = 2, newParts = 2;
};

/// The changes of a program.
struct ShrinkSummary {
  /// A layer of `ops` ops had `before` repeats and has `after` repeats.
  struct Repeat {
    int64_t ops, before, after;
  };
  llvm::SmallVector<Repeat> repeats;
  /// The new sizes of dimensions of inputs and parameters, by old size.
  std::map<int64_t, std::set<int64_t>> sizes;
};

/// Shrinks `forward`, which has no encodings, in place. bf16 and f16 become
/// f32. Fails with one diagnostic if the result would not be a valid program.
mlir::FailureOr<ShrinkSummary> shrinkProgram(mlir::func::FuncOp forward,
                                             const ShrinkOptions &options);

/// Cuts the depth: all repeats of every layer except `layers`.
llvm::SmallVector<ShrinkSummary::Repeat> cutRepeats(mlir::func::FuncOp forward,
                                                    int64_t layers);

/// Cuts only the repeats that cutRepeats cuts first, down to exactly `layers`
/// repeats. Returns nullopt and changes nothing if there are at most `layers`
/// repeats, or if results replace arguments.
std::optional<ShrinkSummary::Repeat> cutLayers(mlir::func::FuncOp forward,
                                               int64_t layers);

/// Cuts the width. Fails with one diagnostic.
llvm::LogicalResult shrinkSizes(mlir::func::FuncOp forward,
                                const ShrinkOptions &options);

} // namespace dpc

#endif // DPC_PASSES_SHRINK_SHRINK_H
