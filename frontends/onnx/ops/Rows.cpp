//===- Rows.cpp - Softmax, norms, reductions and losses -------------------===//
#include "frontends/emit/Layers.h"
#include "frontends/onnx/NodeContext.h"

using namespace mlir;

namespace dpc::frontend {

namespace {

template <bool isLog> Val softmax(NodeContext &c, Val x) {
  Emitter &e = c.emit;
  // Before operator set 13, dimensions `axis` and later formed one row.
  bool flat = c.opset() < 13;
  int64_t axis = c.axis(c.intAttr("axis", flat ? 1 : -1), x.rank());
  if (e.failed())
    return {};
  auto rows = [&](Val v) { return isLog ? e.logSoftmax(v) : e.softmax(v); };
  if (flat) {
    Val merged = e.reshape(x, mergedFrom(x.shape(), axis));
    return e.reshape(rows(merged), x.shape());
  }
  return e.swapWithLast(rows(e.swapWithLast(x, axis)), axis);
}

/// dpc.norm over dimensions `axis` and later, merged into one.
template <NormKind kind> Val norm(NodeContext &c, Val x) {
  Emitter &e = c.emit;
  int64_t axis = c.axis(c.intAttr("axis", -1), x.rank());
  if (e.failed())
    return {};
  Shape flat = mergedFrom(x.shape(), axis), rows(flat.begin(), flat.end() - 1);
  auto vector = [&](int64_t i) -> Val {
    if (!c.has(i))
      return {};
    Val v = c.in(i);
    if (numElements(v.shape()) != flat.back())
      v = e.broadcastTo(v, x.shape().drop_front(axis));
    return e.materialize(e.reshape(v, {flat.back()}));
  };
  Val scale = vector(1);
  Val bias = kind == NormKind::layer ? vector(2) : Val();
  Val input = e.reshape(x, flat);
  if (e.failed())
    return {};
  NormOp op =
      makeNorm(e, kind, input, scale, bias, c.floatAttr("epsilon", 1e-5));
  c.out(0, e.reshape(Val(op.getY()), x.shape()));
  Shape kept = joinShapes({rows, Shape(x.rank() - axis, 1)});
  if (c.wants(1))
    c.out(1, e.reshape(Val(op.getMean()), kept));
  if (c.wants(2))
    c.out(2, e.reshape(Val(op.getRstd()), kept));
  return {};
}

/// Abs, Square and Exp apply before the reduction; Mean, Root and Log after it.
enum class Form { Plain, Mean, Abs, Square, Root, Log, LogExp };

Val reduceAs(Emitter &e, Form form, ReduceKind kind, Val x,
             llvm::ArrayRef<int64_t> dims) {
  switch (form) {
  case Form::Plain:
    return e.reduce(kind, x, dims);
  case Form::Mean:
    return e.mean(x, dims);
  case Form::Abs:
    return e.reduce(kind, e.abs(x), dims);
  case Form::Square:
    return e.reduce(kind, e.mul(x, x), dims);
  case Form::Root:
    return e.sqrt(e.reduce(kind, e.mul(x, x), dims));
  case Form::Log:
    return e.log(e.reduce(kind, x, dims));
  case Form::LogExp:
    return e.logSumExp(x, dims);
  }
  llvm_unreachable("all forms handled");
}

template <Form form, ReduceKind kind> Val reduce(NodeContext &c, Val x) {
  Emitter &e = c.emit;
  auto axes = c.intsAttrOrIn("axes", 1);
  if (e.failed())
    return {};
  if (!axes || axes->empty()) {
    if (c.intAttr("noop_with_empty_axes", 0))
      return reduceAs(e, form, kind, x, {});
    axes = iotaDims(x.rank());
  }
  Shape dims;
  for (int64_t a : *axes)
    dims.push_back(c.axis(a, x.rank()));
  llvm::sort(dims);
  if (std::adjacent_find(dims.begin(), dims.end()) != dims.end())
    c.fail("axes {0} repeat a dimension", *axes);
  if (e.failed())
    return {};
  Val result = reduceAs(e, form, kind, x, dims);
  return c.intAttr("keepdims", 1) ? e.keepDims(result, x, dims) : result;
}

/// A classification loss whose scores [N, C, d..] became rows.
struct Rows {
  Val scores; ///< [rows, classes]
  Val labels; ///< [rows]
  Shape labelShape;
  std::optional<int64_t> ignore;
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
  if (c.hasAttr("ignore_index"))
    rows.ignore = c.intAttr("ignore_index", 0);
  rows.scores = classRows(c.emit, scores);
  rows.labels = c.emit.reshape(labels, {numElements(expected)});
  return rows;
}

/// Returns 0 for rows whose label is ignored and 1 for all others.
Val countedRows(Emitter &e, const Rows &rows, Type element) {
  if (!rows.ignore)
    return e.splat(1, element, rows.labels.shape());
  return e.convert(e.ne(rows.labels, *rows.ignore), element);
}

/// Weights and reduces losses of rows. The mean is sum(loss) / sum(weight).
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
  if (!weights && !rows.ignore)
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
  c.out(1, e.swapWithLast(e.logSoftmax(e.swapWithLast(scores, 1)), 1));
  return {};
}

Val negativeLogLikelihood(NodeContext &c, Val scores, Val labels) {
  Emitter &e = c.emit;
  auto rows = rowsOf(c, scores, labels);
  if (!rows)
    return {};
  // An ignored label can be a valid class, so its loss must be set to 0.
  Val loss = pickedLoss(e, rows->scores, rows->labels, rows->ignore);
  if (rows->ignore)
    loss = e.select(countedRows(e, *rows, e.boolean()), loss, 0);
  return finishLoss(c, *rows, loss);
}

} // namespace

void addRowOps(OpTable &table) {
  table["Softmax"] = softmax<false>;
  table["LogSoftmax"] = softmax<true>;
  table["LayerNormalization"] = norm<NormKind::layer>;
  table["RMSNormalization"] = norm<NormKind::rms>;
  table["ReduceSum"] = reduce<Form::Plain, ReduceKind::sum>;
  table["ReduceMax"] = reduce<Form::Plain, ReduceKind::max>;
  table["ReduceMin"] = reduce<Form::Plain, ReduceKind::min>;
  table["ReduceProd"] = reduce<Form::Plain, ReduceKind::prod>;
  table["ReduceMean"] = reduce<Form::Mean, ReduceKind::sum>;
  table["ReduceL1"] = reduce<Form::Abs, ReduceKind::sum>;
  table["ReduceL2"] = reduce<Form::Root, ReduceKind::sum>;
  table["ReduceSumSquare"] = reduce<Form::Square, ReduceKind::sum>;
  table["ReduceLogSum"] = reduce<Form::Log, ReduceKind::sum>;
  table["ReduceLogSumExp"] = reduce<Form::LogExp, ReduceKind::sum>;
  table["SoftmaxCrossEntropyLoss"] = softmaxCrossEntropy;
  table["NegativeLogLikelihoodLoss"] = negativeLogLikelihood;
}

} // namespace dpc::frontend
