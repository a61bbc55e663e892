//===- Suspicions.h - Graph patterns that are probably mistakes -*- C++ -*-===//
#pragma once

#include "tools/driver/WeightFacts.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/DenseSet.h"

#include <optional>
#include <string>
#include <vector>

namespace dpc {

struct Suspicion {
  std::string text; ///< A line: the node, what is wrong, and what it does.
  bool ruins;       ///< The model cannot learn what it should.
};

/// Returns a line for each place of `forward`, a fused @forward that is
/// trained, that is probably a mistake in the model.
std::vector<Suspicion> suspicionsOf(mlir::func::FuncOp forward);

/// What patterns read besides their op.
struct SuspectModel {
  explicit SuspectModel(mlir::func::FuncOp forward) : reach(forward) {}

  Reach reach;
  /// Values of which each one makes the loss 0 if it is 0.
  llvm::DenseSet<mlir::Value> factors;
  /// Sums over the batch that the loss contains and does not divide.
  llvm::DenseSet<mlir::Operation *> totals;
  /// Cross entropies whose classes are the samples of the batch.
  llvm::DenseSet<mlir::Operation *> betweenSamples;
  /// Cross entropies that the loss contains with a negative factor.
  llvm::DenseSet<mlir::Operation *> negated;
  /// Sums over the batch.
  llvm::DenseSet<mlir::Operation *> batchSums;
  /// The scores of binary cross entropies, before their sigmoids.
  llvm::DenseSet<mlir::Value> binaryScores;
  /// The scores that each op compares with labels or targets.
  llvm::DenseMap<mlir::Operation *, mlir::Value> scores;
};

// Each matcher returns what fills the text of its pattern, or nullopt if `op`
// is no such place.

using Detail = std::optional<std::string>;

/// Attention whose mask keeps exactly the keys up to the next one.
Detail keepsNext(mlir::Operation *op, const SuspectModel &model);
/// Attention whose mask keeps exactly the keys before the own one.
Detail hidesItself(mlir::Operation *op, const SuspectModel &model);
/// Attention that adds a mask of 0 and 1 to its scores.
Detail addsZeroOne(mlir::Operation *op, const SuspectModel &model);
/// Attention of heads that a reshape makes of rows of positions, or of which it
/// makes rows, without a transpose.
Detail cutsHeads(mlir::Operation *op, const SuspectModel &model);
/// Attention whose queries or keys are scaled already.
Detail scalesTwice(mlir::Operation *op, const SuspectModel &model);
/// Attention with rotary embeddings of either its queries or its keys.
Detail rotatesOne(mlir::Operation *op, const SuspectModel &model);
/// A product with a weight of the result of another one, without an op between
/// that is not linear, and without fewer numbers between than before and after.
Detail isLineOfLine(mlir::Operation *op, const SuspectModel &model);
/// A choice of the log-probabilities of labels that are normalized over another
/// dimension than that of the classes.
Detail picksUnnormalized(mlir::Operation *op, const SuspectModel &model);
/// A cross entropy of a tanh or of cosines, unless they are scaled, as for soft
/// caps of scores and by a temperature.
Detail getsBounded(mlir::Operation *op, const SuspectModel &model);
/// A cross entropy with a label_smoothing above 0.5.
Detail smoothsMost(mlir::Operation *op, const SuspectModel &model);
/// A comparison of the scores of a binary cross entropy with 0.5.
Detail comparesWithHalf(mlir::Operation *op, const SuspectModel &model);
/// A cosine over the samples of two results that are not centered, as those of
/// a correlation are.
Detail sumsOverSamples(mlir::Operation *op, const SuspectModel &model);

/// Whether the square or the absolute value of `value` is taken.
bool isSquaredOrAbsolute(mlir::Value value);

// Each of these says what is probably a mistake in `forward`, or returns "".

/// An output of one number, such as an accuracy, that compares something with
/// an integer input, but does not depend on the labels of the loss.
std::string textOnOtherLabels(mlir::func::FuncOp forward);
/// An output of one number that compares the scores of a position with another
/// label than the loss does.
std::string textOnOtherShift(mlir::func::FuncOp forward);
/// An output that is a mean over all labels of a cross entropy, also over those
/// that the loss ignores.
struct MeanOfLabels {
  std::string output;
  mlir::BlockArgument labels;
  int64_t ignored;
};
std::optional<MeanOfLabels> meanOfAllLabels(mlir::func::FuncOp forward);
/// An output of one number that counts labels that the loss ignores.
std::string textOnIgnoredLabels(mlir::func::FuncOp forward);
/// A cross entropy whose classes are the positions of an input.
std::string textOnClassAxis(mlir::func::FuncOp forward);
/// A loss that only compares results of trained weights with each other.
std::string textOnFreeTargets(mlir::func::FuncOp forward,
                              const SuspectModel &model);
/// Random numbers that are constants and meet values of samples.
std::string textOnNoise(mlir::func::FuncOp forward, const Reach &reach);
/// Random numbers that are constants and stand where weights do.
std::string textOnConstantWeights(mlir::func::FuncOp forward);
/// Weights of the classes of a loss that are trained.
std::string textOnTrainedFactors(mlir::func::FuncOp forward);
/// An output that adds terms to the loss that is trained.
std::string textOnTotal(mlir::func::FuncOp forward);

} // namespace dpc
