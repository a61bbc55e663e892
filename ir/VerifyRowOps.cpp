//===- VerifyRowOps.cpp - Verifiers of row, transformer, optimizer ops ----===//
#include "ir/TensorUtils.h"
#include "ir/VerifyUtils.h"

using namespace mlir;
using namespace dpc;
using namespace dpc::verify;

LogicalResult SoftmaxOp::verify() {
  return Checks(*this)
      .minRank("C1", "operand", getX(), 1)
      .like("C1", "result", getType(), getX());
}

LogicalResult SoftmaxGradOp::verify() {
  return Checks(*this)
      .minRank("C1", "y", getY(), 1)
      .like("C1", "dy", getDy(), getY())
      .like("C1", "dx", getType(), getY());
}

LogicalResult TopKOp::verify() {
  RankedTensorType x = getX().getType(), values = getValues().getType();
  Type index = elementTypeOf(getIndices());
  Checks checks(*this);
  checks.element("C1", "values", values, x.getElementType())
      .require("C1", index.isInteger(64), "indices have element type ", index,
               ", expected i64")
      .minRank("C2", "x", x, 1)
      .rank("C2", "values", values, x.getRank());
  if (checks.failed())
    return failure();
  SmallVector<int64_t> expected(x.getShape());
  int64_t size = expected.back(), count = values.getShape().back();
  expected.back() = count;
  return checks
      .require("C2", count >= 1 && count <= size, "cannot pick ", count, " of ",
               size, " elements")
      .shape("C2", "values", values, expected)
      .shape("C2", "indices", getIndices(), expected);
}

LogicalResult CumSumOp::verify() {
  return Checks(*this)
      .minRank("C1", "operand", getX(), 1)
      .like("C1", "result", getType(), getX());
}

/// Checks that `value` is null or a float vector with one element per column of
/// x. The element type may be narrower than that of x (a parameter) or wider (a
/// sum over rows).
static void checkColumns(Checks &checks, StringRef name, Value value,
                         RankedTensorType x) {
  if (value && !checks.failed())
    checks.floats("C1", name, value)
        .shape("C1", name, value, x.getShape().take_back(1));
}

static void checkRowStatistics(Checks &checks, Value mean, Value rstd,
                               RankedTensorType x) {
  if (checks.failed())
    return;
  ArrayRef<int64_t> rows = x.getShape().drop_back();
  Type element = statisticsType(x.getElementType());
  checks.like("C2", "mean", mean, rows, element)
      .like("C2", "rstd", rstd, rows, element);
}

LogicalResult NormOp::verify() {
  RankedTensorType x = getX().getType();
  Checks checks(*this);
  checks.floats("C1", "x", x)
      .minRank("C1", "x", x, 1)
      .like("C1", "y", getY(), x);
  checkColumns(checks, "scale", getScale(), x);
  checkColumns(checks, "bias", getBias(), x);
  checkRowStatistics(checks, getMean(), getRstd(), x);
  return checks.require("C3", getKind() != NormKind::rms || !getBias(),
                        "rms takes no bias");
}

LogicalResult NormGradOp::verify() {
  RankedTensorType x = getX().getType();
  Checks checks(*this);
  checks.floats("C1", "x", x)
      .minRank("C1", "x", x, 1)
      .like("C1", "dy", getDy(), x)
      .like("C1", "dx", getDx(), x);
  checkColumns(checks, "scale", getScale(), x);
  checkColumns(checks, "dscale", getDscale(), x);
  checkColumns(checks, "dbias", getDbias(), x);
  checkRowStatistics(checks, getMean(), getRstd(), x);
  return checks;
}

Checks &Checks::mask(StringRef c, Value mask, ArrayRef<int64_t> scores) {
  if (!mask || rank(c, "mask", mask, 4).floats(c, "mask", mask).failed())
    return *this;
  for (int64_t i = 0; i < 4; ++i) {
    int64_t size = shapeOf(mask)[i];
    require(c, size == scores[i] || (size == 1 && i < 3), "mask dimension ", i,
            " has size ", size, ", expected ", i == 3 ? "" : "1 or ",
            scores[i]);
  }
  return *this;
}

/// Checks the tensors of attention. Messages cite constraint `shapes` for D, S
/// and the outputs, and constraint `masks` for the mask.
template <typename Op>
static Checks checkAttention(Op op, StringRef shapes, StringRef masks) {
  RankedTensorType q = op.getQ().getType(), k = op.getK().getType(),
                   v = op.getV().getType();
  Type element = q.getElementType();
  Checks checks(op);
  for (auto [name, type] :
       {std::pair<StringRef, RankedTensorType>("q", q), {"k", k}, {"v", v}})
    checks.rank("C1", name, type, 4).element("C1", name, type, element);
  if (checks.floats("C1", "q", q).failed())
    return checks;
  int64_t batch = q.getDimSize(0), heads = q.getDimSize(1);
  int64_t rows = q.getDimSize(2), columns = k.getDimSize(2);
  int64_t groups = k.getDimSize(1);
  checks
      .require("C1", k.getDimSize(0) == batch && v.getDimSize(0) == batch,
               "batch sizes differ: ", batch, ", ", k.getDimSize(0), " and ",
               v.getDimSize(0))
      .require("C1", v.getDimSize(1) == groups, "k and v have ", groups,
               " and ", v.getDimSize(1), " heads")
      .require("C1", groups >= 1 && heads % std::max<int64_t>(groups, 1) == 0,
               heads, " query heads are no multiple of ", groups, " key heads")
      .require(shapes, q.getDimSize(3) == k.getDimSize(3),
               "head sizes of q and k differ: ", q.getDimSize(3), " and ",
               k.getDimSize(3))
      .require(shapes, columns == v.getDimSize(2),
               "lengths of k and v differ: ", columns, " and ", v.getDimSize(2))
      .like(shapes, "out", op.getOut(), {batch, heads, rows, v.getDimSize(3)},
            element)
      .like(shapes, "lse", op.getLse(), {batch, heads, rows},
            statisticsType(element));
  // In a ring, a rank's mask has the rows of the rank and all columns.
  Value mask = op.getMask();
  if (mask && op->hasAttr(attr::kRing) && op->hasAttr(attr::kGlobal) &&
      tensorType(mask).getRank() == 4)
    columns = shapeOf(mask)[3];
  return checks.mask(masks, mask, {batch, heads, rows, columns});
}

LogicalResult AttentionOp::verify() {
  Checks checks = checkAttention(*this, "C2", "C3");
  if (Value sinks = getSinks())
    checks.like("C4", "sinks", sinks, {shapeOf(getQ())[1]},
                elementTypeOf(getLse()));
  return checks.require("C5", getWindow().value_or(1) >= 1, "the window is ",
                        getWindow().value_or(1));
}

LogicalResult AttentionGradOp::verify() {
  return checkAttention(*this, "C1", "C1")
      .require("C1", getWindow().value_or(1) >= 1, "the window is ",
               getWindow().value_or(1))
      .like("C1", "dout", getDout(), getOut())
      .like("C2", "dq", getDq(), getQ())
      .like("C2", "dk", getDk(), getK())
      .like("C2", "dv", getDv(), getV());
}

LogicalResult RopeOp::verify() {
  RankedTensorType x = getX().getType();
  Checks checks(*this);
  checks.minRank("C1", "x", x, 2).like("C1", "result", getType(), x);
  if (checks.failed())
    return failure();
  ArrayRef<int64_t> table = x.getShape().take_back(2);
  return checks
      .require("C1", table.back() % 2 == 0,
               "the last dimension is odd: ", table.back())
      .like("C2", "cos", getCos(), table, x.getElementType())
      .like("C2", "sin", getSin(), table, x.getElementType());
}

LogicalResult EmbeddingOp::verify() {
  RankedTensorType table = getTable().getType();
  Checks checks(*this);
  checks.rank("C1", "table", table, 2).integers("C1", "ids", getIds());
  if (checks.failed())
    return failure();
  SmallVector<int64_t> shape(shapeOf(getIds()));
  shape.push_back(table.getDimSize(1));
  return checks.like("C2", "result", getType(), shape, table.getElementType());
}

LogicalResult EmbeddingGradOp::verify() {
  RankedTensorType dy = getDy().getType();
  SmallVector<int64_t> shape(shapeOf(getIds()));
  Checks checks(*this);
  checks.integers("C1", "ids", getIds()).rank("C1", "dy", dy, shape.size() + 1);
  if (checks.failed())
    return failure();
  int64_t columns = dy.getShape().back();
  shape.push_back(columns);
  if (checks.shape("C1", "dy", dy, shape)
          .rank("C2", "result", getType(), 2)
          .failed())
    return failure();
  return checks.like("C2", "result", getType(),
                     {getType().getDimSize(0), columns}, dy.getElementType());
}

/// Checks that `rows` has some first dimensions of `ids`, and columns.
static Checks &checkExpertRows(Checks &checks, const Twine &what, Value rows,
                               Value ids) {
  ArrayRef<int64_t> shape = shapeOf(rows), all = shapeOf(ids);
  checks.minRank("C1", what, rows, 2).floats("C1", what, rows);
  if (checks.failed())
    return checks;
  ArrayRef<int64_t> leading = shape.drop_back();
  return checks.require("C1", all.take_front(leading.size()) == leading, what,
                        " has shape ", shapeText(shape), ", expected [",
                        shapeText(all),
                        "] or its first dimensions, and columns");
}

/// Returns the type that a product of `element` may have besides `element`.
static Type productType(Type element, RankedTensorType result) {
  Type wide = statisticsType(element);
  return result.getElementType() == wide ? wide : element;
}

LogicalResult ExpertMatmulOp::verify() {
  RankedTensorType w = getW().getType();
  Checks checks(*this);
  checks.integers("C1", "ids", getIds());
  checkExpertRows(checks, "x", getX(), getIds()).rank("C2", "w", w, 3);
  if (checks.failed())
    return failure();
  int64_t columns = shapeOf(getX()).back();
  int64_t contracted = w.getDimSize(getTb() ? 2 : 1);
  SmallVector<int64_t> shape(shapeOf(getIds()));
  shape.push_back(w.getDimSize(getTb() ? 1 : 2));
  Type element = elementTypeOf(getX());
  return checks
      .require("C2", columns == contracted,
               "contracted dimensions differ: ", columns, " and ", contracted)
      .element("C3", "w", w, element)
      .like("C3", "result", getType(), shape, productType(element, getType()));
}

LogicalResult ExpertMatmulGradOp::verify() {
  Type element = elementTypeOf(getA());
  Checks checks(*this);
  checks.integers("C1", "ids", getIds());
  checkExpertRows(checks, "a", getA(), getIds());
  checkExpertRows(checks, "b", getB(), getIds())
      .element("C1", "b", getB(), element)
      .rank("C2", "result", getType(), 3);
  if (checks.failed())
    return failure();
  return checks.like(
      "C2", "result", getType(),
      {getType().getDimSize(0), shapeOf(getA()).back(), shapeOf(getB()).back()},
      productType(element, getType()));
}

template <typename Op>
static Checks checkLogits(Op op,
                          ArrayRef<std::pair<StringRef, Value>> rows = {}) {
  RankedTensorType logits = op.getLogits().getType();
  Checks checks(op);
  checks.rank("C1", "logits", logits, 2)
      .floats("C1", "logits", logits)
      .integers("C1", "labels", op.getLabels());
  if (checks.failed())
    return checks;
  ArrayRef<int64_t> shape = logits.getShape().take_front();
  checks.shape("C1", "labels", op.getLabels(), shape);
  for (auto [name, value] : rows)
    checks.shape("C1", name, value, shape).floats("C1", name, value);
  return checks;
}

LogicalResult CrossEntropyOp::verify() {
  Checks checks = checkLogits(*this);
  if (checks.failed())
    return failure();
  ArrayRef<int64_t> shape = shapeOf(getLogits()).take_front();
  Type element = statisticsType(elementTypeOf(getLogits()));
  return checks.like("C2", "loss", getLoss(), shape, element)
      .like("C2", "lse", getLse(), shape, element);
}

LogicalResult CrossEntropySumsOp::verify() {
  return checkLogits(*this, {{"rowmax", getRowmax()},
                             {"sumexp", getSumexp()},
                             {"picked", getPicked()}});
}

LogicalResult CrossEntropyGradOp::verify() {
  return checkLogits(*this, {{"lse", getLse()}, {"dloss", getDloss()}})
      .like("C1", "result", getType(), getLogits());
}

static LogicalResult checkSumOfSquares(Operation *op) {
  Checks checks(op);
  checks.require("C1", op->getNumOperands() > 0, "no operands");
  for (auto [i, operand] : llvm::enumerate(op->getOperands()))
    checks.floats("C1", "operand " + Twine(i), operand);
  return checks.rank("C1", "result", op->getResult(0), 0)
      .floats("C1", "result", op->getResult(0));
}

LogicalResult GlobalNormOp::verify() { return checkSumOfSquares(*this); }
LogicalResult SumSquaresOp::verify() { return checkSumOfSquares(*this); }

/// Checks an optimizer's update. The first operands are the states, one per
/// result, followed by the gradient. All have one shape, each result has the
/// type of its state, and the remaining operands are scalars.
template <typename Op> static LogicalResult checkUpdate(Op op) {
  ArrayRef<int64_t> shape = shapeOf(op->getOperand(0));
  Checks checks(op);
  checks.shape("C1", "gradient", op.getG(), shape);
  for (auto [i, result] : llvm::enumerate(op->getResults()))
    checks.shape("C1", "operand " + Twine(i), op->getOperand(i), shape)
        .like("C1", "result " + Twine(i), result, op->getOperand(i));
  checks.rank("C1", "scale", op.getScale(), 0)
      .rank("C1", "lr", op.getLr(), 0)
      .rank("C1", "step", op.getStep(), 0);
  if (Value apply = op.getApply())
    checks.require("C2",
                   shapeOf(apply).empty() && elementTypeOf(apply).isInteger(1),
                   "the operand of 'if' is of type ", apply.getType(),
                   ", expected a scalar of i1");
  return checks;
}

LogicalResult AdamWOp::verify() { return checkUpdate(*this); }
LogicalResult SgdOp::verify() { return checkUpdate(*this); }
