//===- Losses.cpp - Loss operators ----------------------------------------===//
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

std::optional<Rows> rowsOf(NodeContext &c) {
  Emitter &e = c.emit;
  Val scores = c.in(0), labels = c.in(1);
  if (!scores || !labels)
    return std::nullopt;
  Shape expected(scores.shape());
  if (scores.rank() >= 2)
    expected.erase(expected.begin() + 1);
  if (scores.rank() < 2 || labels.shape() != llvm::ArrayRef(expected) ||
      labels.isFloat()) {
    c.fail("scores " + describe(scores.type()) + " do not fit labels " +
           describe(labels.type()));
    return std::nullopt;
  }
  Rows rows;
  rows.labelShape = expected;
  rows.ignores = c.hasAttr("ignore_index");
  rows.ignore = c.intAttr("ignore_index", kNoIgnore);
  Shape perm = {0};
  for (int64_t d = 2; d < scores.rank(); ++d)
    perm.push_back(d);
  perm.push_back(1);
  int64_t count = numElements(expected);
  rows.scores = e.reshape(e.transpose(scores, perm), {count, scores.dim(1)});
  rows.labels = e.reshape(labels, {count});
  return rows;
}

/// 1 for rows that count and 0 for ignored rows.
Val countedRows(Emitter &e, const Rows &rows, Type element) {
  if (!rows.ignores)
    return e.splat(1, element, rows.labels.shape());
  Val ignored =
      e.scalar(static_cast<double>(rows.ignore), rows.labels.element());
  return e.convert(e.compare(CompareKind::ne, rows.labels, ignored), element);
}

/// The class weight of each row's label, and 0 for ignored rows.
Val rowWeights(NodeContext &c, const Rows &rows) {
  Emitter &e = c.emit;
  Val weights = c.in(2);
  if (!weights)
    return {};
  // An ignored label is possibly not a class, so it looks up class 0.
  Val counted = countedRows(e, rows, e.builder.getI1Type());
  Val safe = e.select(counted, rows.labels, e.scalar(0, rows.labels.element()));
  Val table = e.reshape(weights, {numElements(weights.shape()), 1});
  Val picked = e.reshape(e.embedding(table, safe), rows.labels.shape());
  return e.select(counted, picked, e.scalar(0, weights.element()));
}

/// Applies weights and reduction to the losses of the rows. The mean is
/// sum(loss) / sum(weight), one division of two sums.
Val finishLoss(NodeContext &c, const Rows &rows, Val loss) {
  Emitter &e = c.emit;
  llvm::StringRef reduction = c.stringAttr("reduction", "mean");
  if (!loss)
    return {};
  Val weights = c.has(2) ? rowWeights(c, rows) : Val();
  if (weights)
    loss = e.binary(BinaryKind::mul, loss, e.convert(weights, loss.element()));
  if (reduction == "none")
    return e.reshape(loss, rows.labelShape);
  Val sum = e.reduce(ReduceKind::sum, loss, {0});
  if (reduction == "sum")
    return sum;
  if (reduction != "mean")
    return c.fail("reduction '" + reduction +
                  "' is not known; accepted: none, sum, mean");
  if (!weights && !rows.ignores)
    return e.binary(BinaryKind::mul, sum,
                    1.0 / static_cast<double>(numElements(rows.labelShape)));
  if (!weights)
    weights = countedRows(e, rows, loss.element());
  Val count =
      e.reduce(ReduceKind::sum, e.convert(weights, loss.element()), {0});
  return e.binary(BinaryKind::div, sum, count);
}

void softmaxCrossEntropy(NodeContext &c) {
  Emitter &e = c.emit;
  auto rows = rowsOf(c);
  if (!rows)
    return;
  Type element = rows->scores.element();
  Val loss = finishLoss(
      c, *rows, e.crossEntropy(rows->scores, rows->labels, rows->ignore));
  c.out(0, e.convert(loss, element));
  if (!c.wants(1))
    return;
  // log_prob has the layout of the scores.
  Val x = c.in(0);
  Shape perm = iotaDims(x.rank());
  std::swap(perm[1], perm.back());
  c.out(1, e.transpose(e.logSoftmax(e.transpose(x, perm)), perm));
}

void negativeLogLikelihood(NodeContext &c) {
  Emitter &e = c.emit;
  auto rows = rowsOf(c);
  if (!rows)
    return;
  // An ignored label can be a valid class; it must not be picked then.
  int64_t count = rows->scores.dim(0), classes = rows->scores.dim(1);
  Val labels =
      e.reshape(e.convert(rows->labels, e.builder.getI64Type()), {count, 1});
  Val hot = e.compare(CompareKind::eq, e.iota({count, classes}, 1), labels);
  Val picked = e.select(hot, rows->scores, e.scalar(0, rows->scores.element()));
  Val loss = e.unary(UnaryKind::neg, e.reduce(ReduceKind::sum, picked, {1}));
  if (rows->ignores && loss)
    loss = e.select(countedRows(e, *rows, e.builder.getI1Type()), loss,
                    e.scalar(0, loss.element()));
  c.out(finishLoss(c, *rows, loss));
}

} // namespace

void addLossOps(OpTable &table) {
  table["SoftmaxCrossEntropyLoss"] = softmaxCrossEntropy;
  table["NegativeLogLikelihoodLoss"] = negativeLogLikelihood;
}

} // namespace dpc::frontend
