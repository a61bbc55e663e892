//===- Losses.cpp - Loss operators ----------------------------------------===//
#include "frontends/emit/Layers.h"
#include "frontends/onnx/NodeContext.h"

using namespace mlir;

namespace dpc::frontend {

namespace {

/// Means that no label is ignored: no class has a negative index.
constexpr int64_t kNoIgnore = -100;

/// A classification loss with scores [N, C, d..] as rows [N * d.., C].
struct Rows {
  Val scores; ///< [rows, classes]
  Val labels; ///< [rows]
  Shape labelShape;
  int64_t ignore;
  bool ignores;
};

std::optional<Rows> rowsOf(NodeContext &c, Val scores, Val labels) {
  Shape expected(scores.shape());
  if (scores.rank() >= 2)
    expected.erase(expected.begin() + 1);
  if (scores.rank() < 2 || labels.shape() != llvm::ArrayRef(expected) ||
      labels.isFloat()) {
    c.fail("scores {0} do not fit labels {1}", scores, labels);
    return std::nullopt;
  }
  Rows rows;
  rows.labelShape = expected;
  rows.ignores = c.hasAttr("ignore_index");
  rows.ignore = c.intAttr("ignore_index", kNoIgnore);
  rows.scores = classRows(c.emit, scores);
  rows.labels = c.emit.reshape(labels, {numElements(expected)});
  return rows;
}

/// 1 for rows that count and 0 for ignored rows.
Val countedRows(Emitter &e, const Rows &rows, Type element) {
  if (!rows.ignores)
    return e.splat(1, element, rows.labels.shape());
  return e.convert(e.ne(rows.labels, rows.ignore), element);
}

/// Applies weights and reduction to the losses of the rows. The mean is
/// sum(loss) / sum(weight), one division of two sums.
Val finishLoss(NodeContext &c, const Rows &rows, Val loss) {
  Emitter &e = c.emit;
  llvm::StringRef reduction = c.stringAttr("reduction", "mean");
  if (!loss)
    return {};
  Val weights;
  if (c.has(2))
    weights = classWeights(e, c.in(2), rows.labels,
                           countedRows(e, rows, e.boolean()));
  if (weights)
    loss = e.mul(loss, e.convert(weights, loss.element()));
  if (reduction == "none")
    return e.reshape(loss, rows.labelShape);
  Val sum = e.reduce(ReduceKind::sum, loss, {0});
  if (reduction == "sum")
    return sum;
  if (reduction != "mean")
    return c.fail("reduction '{0}' is not known; accepted: none, sum, mean",
                  reduction);
  if (!weights && !rows.ignores)
    return e.mul(sum, 1.0 / static_cast<double>(numElements(rows.labelShape)));
  if (!weights)
    weights = countedRows(e, rows, loss.element());
  Val count =
      e.reduce(ReduceKind::sum, e.convert(weights, loss.element()), {0});
  return e.div(sum, count);
}

Val softmaxCrossEntropy(NodeContext &c, Val scores, Val labels) {
  Emitter &e = c.emit;
  auto rows = rowsOf(c, scores, labels);
  if (!rows)
    return {};
  Type element = rows->scores.element();
  Val loss = finishLoss(
      c, *rows, e.crossEntropy(rows->scores, rows->labels, rows->ignore));
  c.out(0, e.convert(loss, element));
  if (!c.wants(1))
    return {};
  // log_prob has the layout of the scores.
  c.out(1, e.swapWithLast(e.logSoftmax(e.swapWithLast(scores, 1)), 1));
  return {};
}

Val negativeLogLikelihood(NodeContext &c, Val scores, Val labels) {
  Emitter &e = c.emit;
  auto rows = rowsOf(c, scores, labels);
  if (!rows)
    return {};
  // An ignored label can be a valid class; it must not be picked then.
  Val loss = pickedLoss(e, rows->scores, rows->labels);
  if (rows->ignores)
    loss = e.select(countedRows(e, *rows, e.boolean()), loss, 0);
  return finishLoss(c, *rows, loss);
}

} // namespace

void addLossOps(OpTable &table) {
  table["SoftmaxCrossEntropyLoss"] = softmaxCrossEntropy;
  table["NegativeLogLikelihoodLoss"] = negativeLogLikelihood;
}

} // namespace dpc::frontend
