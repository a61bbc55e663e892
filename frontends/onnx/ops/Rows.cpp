//===- Rows.cpp - Softmax, norms and reductions ---------------------------===//
#include "frontends/onnx/NodeContext.h"

using namespace mlir;

namespace dpc::frontend {

namespace {

//===----------------------------------------------------------------------===//
// Softmax
//===----------------------------------------------------------------------===//

/// Swaps dimension `axis` with the last one; the operation is its own inverse.
Shape swapWithLast(int64_t rank, int64_t axis) {
  Shape perm = iotaDims(rank);
  std::swap(perm[axis], perm[rank - 1]);
  return perm;
}

template <bool isLog> void softmax(NodeContext &c) {
  Emitter &e = c.emit;
  Val x = c.in(0);
  if (!x)
    return;
  // Before operator set 13, all dimensions from the axis on formed one row.
  bool flat = c.opset() < 13;
  int64_t axis = c.axis(c.intAttr("axis", flat ? 1 : -1), x.rank());
  if (e.failed())
    return;
  auto rows = [&](Val v) { return isLog ? e.logSoftmax(v) : e.softmax(v); };
  if (flat) {
    Shape shape(x.shape().take_front(axis));
    shape.push_back(numElements(x.shape().drop_front(axis)));
    return c.out(e.reshape(rows(e.reshape(x, shape)), x.shape()));
  }
  Shape perm = swapWithLast(x.rank(), axis);
  c.out(e.transpose(rows(e.transpose(x, perm)), perm));
}

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

/// dpc.norm over dimensions [axis, rank) of x, merged into one.
void norm(NodeContext &c, NormKind kind) {
  Emitter &e = c.emit;
  Val x = c.in(0);
  if (!x)
    return;
  int64_t axis = c.axis(c.intAttr("axis", -1), x.rank());
  if (e.failed())
    return;
  Shape rows(x.shape().take_front(axis));
  int64_t columns = numElements(x.shape().drop_front(axis));
  Shape flat(rows);
  flat.push_back(columns);
  auto vector = [&](int64_t i) -> Value {
    if (!c.has(i))
      return {};
    Val v = c.in(i);
    if (numElements(v.shape()) != columns)
      v = e.broadcastTo(v, x.shape().drop_front(axis));
    v = e.reshape(v, {columns});
    return v ? e.materialize(v) : Value();
  };
  Value scale = vector(1);
  Value bias = kind == NormKind::layer ? vector(2) : Value();
  Val input = e.reshape(x, flat);
  if (e.failed())
    return;
  Type statElement = x.element().isF64() ? x.element() : e.builder.getF32Type();
  auto stats = RankedTensorType::get(rows, statElement);
  auto op = NormOp::create(e.builder, e.loc, input.type(), stats, stats, kind,
                           e.materialize(input), scale, bias,
                           llvm::APFloat(c.floatAttr("epsilon", 1e-5)));
  c.out(0, e.reshape(Val(op.getY()), x.shape()));
  Shape kept(rows);
  kept.append(x.rank() - axis, 1);
  if (c.wants(1))
    c.out(1, e.reshape(Val(op.getMean()), kept));
  if (c.wants(2))
    c.out(2, e.reshape(Val(op.getRstd()), kept));
}

void layerNorm(NodeContext &c) { norm(c, NormKind::layer); }
void rmsNorm(NodeContext &c) { norm(c, NormKind::rms); }

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

/// The functions that a reduction applies to its input and to its result.
enum class Form { Plain, Mean, Abs, Square, Root, Log, LogExp };

Val reduceAs(Emitter &e, Form form, ReduceKind kind, Val x,
             llvm::ArrayRef<int64_t> dims) {
  switch (form) {
  case Form::Plain:
    return e.reduce(kind, x, dims);
  case Form::Mean:
    return e.mean(x, dims);
  case Form::Abs:
    return e.reduce(kind, e.unary(UnaryKind::abs, x), dims);
  case Form::Square:
    return e.reduce(kind, e.binary(BinaryKind::mul, x, x), dims);
  case Form::Root:
    return e.unary(UnaryKind::sqrt,
                   e.reduce(kind, e.binary(BinaryKind::mul, x, x), dims));
  case Form::Log:
    return e.unary(UnaryKind::log, e.reduce(kind, x, dims));
  case Form::LogExp: {
    Val top = e.reduce(ReduceKind::max, x, dims);
    Val shifted = e.binary(BinaryKind::sub, x, e.keepDims(top, x, dims));
    Val sum = e.reduce(kind, e.unary(UnaryKind::exp, shifted), dims);
    return e.binary(BinaryKind::add, e.unary(UnaryKind::log, sum), top);
  }
  }
  llvm_unreachable("all forms handled");
}

template <Form form, ReduceKind kind> void reduce(NodeContext &c) {
  Emitter &e = c.emit;
  Val x = c.in(0);
  auto axes = c.intsAttrOrIn("axes", 1);
  if (!x || e.failed())
    return;
  if (!axes || axes->empty()) {
    if (c.intAttr("noop_with_empty_axes", 0))
      return c.out(reduceAs(e, form, kind, x, {}));
    axes = iotaDims(x.rank());
  }
  Shape dims;
  for (int64_t a : *axes)
    dims.push_back(c.axis(a, x.rank()));
  llvm::sort(dims);
  if (std::adjacent_find(dims.begin(), dims.end()) != dims.end())
    c.fail("axes " + describe(*axes) + " repeat a dimension");
  if (e.failed())
    return;
  Val result = reduceAs(e, form, kind, x, dims);
  c.out(c.intAttr("keepdims", 1) ? e.keepDims(result, x, dims) : result);
}

} // namespace

void addRowOps(OpTable &table) {
  table["Softmax"] = softmax<false>;
  table["LogSoftmax"] = softmax<true>;
  table["LayerNormalization"] = layerNorm;
  table["RMSNormalization"] = rmsNorm;
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
}

} // namespace dpc::frontend
