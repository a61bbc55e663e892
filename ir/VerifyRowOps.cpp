//===- VerifyRowOps.cpp - Verifiers of row, transformer, optimizer ops ----===//
//
// One verifier per op; the constraint numbers are those of the td files.
//
//===----------------------------------------------------------------------===//
#include "ir/Dialect.h"
#include "ir/TensorUtils.h"
#include "ir/VerifyUtils.h"

using namespace dpc;
using namespace dpc::verify;
using llvm::ArrayRef;
using llvm::failure;
using llvm::LogicalResult;
using llvm::StringRef;
using llvm::success;
using mlir::Operation;
using mlir::RankedTensorType;
using mlir::Value;

/// `value` as a ranked tensor type; all values of the dialect are tensors.
//===----------------------------------------------------------------------===//
// Softmax and normalization
//===----------------------------------------------------------------------===//

LogicalResult SoftmaxOp::verify() {
  if (failed(checkMinRank(*this, "C1", "operand", getX().getType(), 1)))
    return failure();
  return checkLike(*this, "C1", "result", getType(), getX().getType());
}

LogicalResult SoftmaxGradOp::verify() {
  RankedTensorType y = getY().getType();
  if (failed(checkMinRank(*this, "C1", "y", y, 1)) ||
      failed(checkLike(*this, "C1", "dy", getDy().getType(), y)))
    return failure();
  return checkLike(*this, "C1", "dx", getType(), y);
}

LogicalResult TopKOp::verify() {
  RankedTensorType x = getX().getType(), values = getValues().getType();
  RankedTensorType indices = getIndices().getType();
  if (failed(checkElement(*this, "C1", "values", values, x.getElementType())))
    return failure();
  if (!indices.getElementType().isInteger(64))
    return violates(*this, "C1")
           << "indices have element type " << indices.getElementType()
           << ", expected i64";
  if (failed(checkMinRank(*this, "C2", "x", x, 1)) ||
      failed(checkRank(*this, "C2", "values", values, x.getRank())))
    return failure();
  int64_t size = x.getShape().back(), count = values.getShape().back();
  if (count < 1 || count > size)
    return violates(*this, "C2")
           << "cannot pick " << count << " of " << size << " elements";
  llvm::SmallVector<int64_t> expected(x.getShape());
  expected.back() = count;
  if (failed(checkShape(*this, "C2", "values", values, expected)))
    return failure();
  return checkShape(*this, "C2", "indices", indices, expected);
}

LogicalResult CumSumOp::verify() {
  if (failed(checkMinRank(*this, "C1", "operand", getX().getType(), 1)))
    return failure();
  return checkLike(*this, "C1", "result", getType(), getX().getType());
}

/// `value`, if any, is [last dimension of x] of floats: parameters may be
/// narrower than x, sums over its rows wider.
static LogicalResult checkColumns(Operation *op, StringRef name, Value value,
                                  RankedTensorType x) {
  if (!value)
    return success();
  if (failed(checkFloat(op, "C1", name, tensorType(value))))
    return failure();
  return checkShape(op, "C1", name, tensorType(value),
                    x.getShape().take_back(1));
}

/// `mean` and `rstd` are statistics of the rows of `x`.
static LogicalResult checkRowStatistics(Operation *op, Value mean, Value rstd,
                                        RankedTensorType x) {
  auto expected = RankedTensorType::get(x.getShape().drop_back(),
                                        statisticsType(x.getElementType()));
  if (failed(checkLike(op, "C2", "mean", tensorType(mean), expected)))
    return failure();
  return checkLike(op, "C2", "rstd", tensorType(rstd), expected);
}

LogicalResult NormOp::verify() {
  RankedTensorType x = getX().getType();
  if (failed(checkFloat(*this, "C1", "x", x)) ||
      failed(checkMinRank(*this, "C1", "x", x, 1)) ||
      failed(checkLike(*this, "C1", "y", getY().getType(), x)) ||
      failed(checkColumns(*this, "scale", getScale(), x)) ||
      failed(checkColumns(*this, "bias", getBias(), x)) ||
      failed(checkRowStatistics(*this, getMean(), getRstd(), x)))
    return failure();
  if (getKind() == NormKind::rms && getBias())
    return violates(*this, "C3") << "rms takes no bias";
  return success();
}

LogicalResult NormGradOp::verify() {
  RankedTensorType x = getX().getType();
  if (failed(checkFloat(*this, "C1", "x", x)) ||
      failed(checkMinRank(*this, "C1", "x", x, 1)) ||
      failed(checkLike(*this, "C1", "dy", getDy().getType(), x)) ||
      failed(checkLike(*this, "C1", "dx", getDx().getType(), x)) ||
      failed(checkColumns(*this, "scale", getScale(), x)) ||
      failed(checkColumns(*this, "dscale", getDscale(), x)) ||
      failed(checkColumns(*this, "dbias", getDbias(), x)))
    return failure();
  return checkRowStatistics(*this, getMean(), getRstd(), x);
}

//===----------------------------------------------------------------------===//
// Attention and rotary embedding
//===----------------------------------------------------------------------===//

LogicalResult dpc::verify::checkMask(Operation *op, StringRef c, Value mask,
                                     ArrayRef<int64_t> scores) {
  if (!mask)
    return success();
  RankedTensorType type = tensorType(mask);
  if (failed(checkRank(op, c, "mask", type, 4)) ||
      failed(checkFloat(op, c, "mask", type)))
    return failure();
  for (int64_t i = 0; i < 4; ++i) {
    int64_t size = type.getDimSize(i);
    if (size != scores[i] && (size != 1 || i == 3))
      return violates(op, c)
             << "mask dimension " << i << " has size " << size << ", expected "
             << (i == 3 ? "" : "1 or ") << scores[i];
  }
  return success();
}

/// Operands and `out`, `lse` of an attention; `shapes` is the number of the
/// constraint on D, S and the outputs, `masks` of that on the mask.
static LogicalResult checkAttention(Operation *op, Value qValue, Value kValue,
                                    Value vValue, Value mask, Value out,
                                    Value lse, StringRef shapes,
                                    StringRef masks) {
  RankedTensorType q = tensorType(qValue), k = tensorType(kValue),
                   v = tensorType(vValue);
  for (auto [name, type] :
       {std::pair<StringRef, RankedTensorType>("q", q), {"k", k}, {"v", v}})
    if (failed(checkRank(op, "C1", name, type, 4)) ||
        failed(checkElement(op, "C1", name, type, q.getElementType())))
      return failure();
  if (failed(checkFloat(op, "C1", "q", q)))
    return failure();
  int64_t batch = q.getDimSize(0), heads = q.getDimSize(1);
  int64_t rows = q.getDimSize(2), columns = k.getDimSize(2);
  int64_t groups = k.getDimSize(1);
  if (k.getDimSize(0) != batch || v.getDimSize(0) != batch)
    return violates(op, "C1") << "batch sizes differ: " << batch << ", "
                              << k.getDimSize(0) << " and " << v.getDimSize(0);
  if (v.getDimSize(1) != groups)
    return violates(op, "C1") << "k and v have " << groups << " and "
                              << v.getDimSize(1) << " heads";
  if (groups < 1 || heads % groups != 0)
    return violates(op, "C1") << heads << " query heads are no multiple of "
                              << groups << " key heads";
  if (q.getDimSize(3) != k.getDimSize(3))
    return violates(op, shapes)
           << "head sizes of q and k differ: " << q.getDimSize(3) << " and "
           << k.getDimSize(3);
  if (columns != v.getDimSize(2))
    return violates(op, shapes) << "lengths of k and v differ: " << columns
                                << " and " << v.getDimSize(2);
  if (failed(
          checkLike(op, shapes, "out", tensorType(out),
                    RankedTensorType::get({batch, heads, rows, v.getDimSize(3)},
                                          q.getElementType()))) ||
      failed(
          checkLike(op, shapes, "lse", tensorType(lse),
                    RankedTensorType::get({batch, heads, rows},
                                          statisticsType(q.getElementType())))))
    return failure();
  // On one rank of a ring the mask is that of its rows for everybody's keys.
  if (mask && op->hasAttr(attr::kRing) && op->hasAttr(attr::kGlobal))
    columns = tensorType(mask).getDimSize(3);
  return checkMask(op, masks, mask, {batch, heads, rows, columns});
}

LogicalResult AttentionOp::verify() {
  return checkAttention(*this, getQ(), getK(), getV(), getMask(), getOut(),
                        getLse(), "C2", "C3");
}

LogicalResult AttentionGradOp::verify() {
  if (failed(checkAttention(*this, getQ(), getK(), getV(), getMask(), getOut(),
                            getLse(), "C1", "C1")) ||
      failed(checkLike(*this, "C1", "dout", getDout().getType(),
                       getOut().getType())) ||
      failed(
          checkLike(*this, "C2", "dq", getDq().getType(), getQ().getType())) ||
      failed(checkLike(*this, "C2", "dk", getDk().getType(), getK().getType())))
    return failure();
  return checkLike(*this, "C2", "dv", getDv().getType(), getV().getType());
}

LogicalResult RopeOp::verify() {
  RankedTensorType x = getX().getType();
  if (failed(checkMinRank(*this, "C1", "x", x, 2)) ||
      failed(checkLike(*this, "C1", "result", getType(), x)))
    return failure();
  if (x.getShape().back() % 2 != 0)
    return violates(*this, "C1")
           << "the last dimension is odd: " << x.getShape().back();
  auto table =
      RankedTensorType::get(x.getShape().take_back(2), x.getElementType());
  if (failed(checkLike(*this, "C2", "cos", getCos().getType(), table)))
    return failure();
  return checkLike(*this, "C2", "sin", getSin().getType(), table);
}

//===----------------------------------------------------------------------===//
// Embedding
//===----------------------------------------------------------------------===//

LogicalResult EmbeddingOp::verify() {
  RankedTensorType table = getTable().getType(), ids = getIds().getType();
  if (failed(checkRank(*this, "C1", "table", table, 2)) ||
      failed(checkInteger(*this, "C1", "ids", ids)))
    return failure();
  llvm::SmallVector<int64_t> shape(ids.getShape());
  shape.push_back(table.getDimSize(1));
  return checkLike(*this, "C2", "result", getType(),
                   RankedTensorType::get(shape, table.getElementType()));
}

LogicalResult EmbeddingGradOp::verify() {
  RankedTensorType dy = getDy().getType(), ids = getIds().getType();
  if (failed(checkInteger(*this, "C1", "ids", ids)) ||
      failed(checkRank(*this, "C1", "dy", dy, ids.getRank() + 1)))
    return failure();
  llvm::SmallVector<int64_t> shape(ids.getShape());
  shape.push_back(dy.getShape().back());
  if (failed(checkShape(*this, "C1", "dy", dy, shape)) ||
      failed(checkRank(*this, "C2", "result", getType(), 2)))
    return failure();
  return checkLike(
      *this, "C2", "result", getType(),
      RankedTensorType::get({getType().getDimSize(0), dy.getShape().back()},
                            dy.getElementType()));
}

//===----------------------------------------------------------------------===//
// Cross entropy
//===----------------------------------------------------------------------===//

/// `logits` are [N, V] floats and `labels` [N] integers.
static LogicalResult checkLogits(Operation *op, RankedTensorType logits,
                                 RankedTensorType labels) {
  if (failed(checkRank(op, "C1", "logits", logits, 2)) ||
      failed(checkFloat(op, "C1", "logits", logits)) ||
      failed(checkInteger(op, "C1", "labels", labels)))
    return failure();
  return checkShape(op, "C1", "labels", labels, logits.getShape().take_front());
}

LogicalResult CrossEntropyOp::verify() {
  RankedTensorType logits = getLogits().getType();
  if (failed(checkLogits(*this, logits, getLabels().getType())))
    return failure();
  auto rows = RankedTensorType::get(logits.getShape().take_front(),
                                    statisticsType(logits.getElementType()));
  if (failed(checkLike(*this, "C2", "loss", getLoss().getType(), rows)))
    return failure();
  return checkLike(*this, "C2", "lse", getLse().getType(), rows);
}

LogicalResult CrossEntropySumsOp::verify() {
  RankedTensorType logits = getLogits().getType();
  if (failed(checkLogits(*this, logits, getLabels().getType())))
    return failure();
  for (auto [name, value] : {std::pair<StringRef, Value>("rowmax", getRowmax()),
                             {"sumexp", getSumexp()},
                             {"picked", getPicked()}})
    if (failed(checkShape(*this, "C1", name, tensorType(value),
                          logits.getShape().take_front())) ||
        failed(checkFloat(*this, "C1", name, tensorType(value))))
      return failure();
  return success();
}

LogicalResult CrossEntropyGradOp::verify() {
  RankedTensorType logits = getLogits().getType();
  if (failed(checkLogits(*this, logits, getLabels().getType())))
    return failure();
  for (auto [name, value] :
       {std::pair<StringRef, Value>("lse", getLse()), {"dloss", getDloss()}})
    if (failed(checkShape(*this, "C1", name, tensorType(value),
                          logits.getShape().take_front())) ||
        failed(checkFloat(*this, "C1", name, tensorType(value))))
      return failure();
  return checkLike(*this, "C1", "result", getType(), logits);
}

//===----------------------------------------------------------------------===//
// Optimizer
//===----------------------------------------------------------------------===//

/// Float operands, at least one, and a float scalar as the result.
static LogicalResult checkSumOfSquares(Operation *op) {
  if (op->getNumOperands() == 0)
    return violates(op, "C1") << "no operands";
  for (auto [i, operand] : llvm::enumerate(op->getOperands()))
    if (failed(checkFloat(op, "C1", "operand " + llvm::Twine(i),
                          tensorType(operand))))
      return failure();
  RankedTensorType result = tensorType(op->getResult(0));
  if (failed(checkRank(op, "C1", "result", result, 0)))
    return failure();
  return checkFloat(op, "C1", "result", result);
}

LogicalResult GlobalNormOp::verify() { return checkSumOfSquares(*this); }
LogicalResult SumSquaresOp::verify() { return checkSumOfSquares(*this); }

/// `gradient` has the shape of every state, every new state the type of the
/// state it replaces, and `scalars` have rank 0.
static LogicalResult checkUpdate(Operation *op, mlir::OperandRange states,
                                 mlir::ResultRange newStates, Value gradient,
                                 mlir::ValueRange scalars, Value apply) {
  ArrayRef<int64_t> shape = shapeOf(states.front());
  if (failed(checkShape(op, "C1", "gradient", tensorType(gradient), shape)))
    return failure();
  for (auto [i, state] : llvm::enumerate(states))
    if (failed(checkShape(op, "C1", "operand " + llvm::Twine(i),
                          tensorType(state), shape)) ||
        failed(checkLike(op, "C1", "result " + llvm::Twine(i),
                         tensorType(newStates[i]), tensorType(state))))
      return failure();
  static constexpr StringRef names[] = {"scale", "lr", "step"};
  for (auto [name, scalar] : llvm::zip_equal(names, scalars))
    if (failed(checkRank(op, "C1", name, tensorType(scalar), 0)))
      return failure();
  if (apply &&
      (tensorType(apply).getRank() != 0 || !elementTypeOf(apply).isInteger(1)))
    return op->emitOpError("(C2) the operand of 'if' is of type ")
           << apply.getType() << ", expected a scalar of i1";
  return success();
}

LogicalResult AdamWOp::verify() {
  return checkUpdate(*this, getOperands().take_front(3), getResults(), getG(),
                     {getScale(), getLr(), getStep()}, getApply());
}

LogicalResult SgdOp::verify() {
  return checkUpdate(*this, getOperands().take_front(2), getResults(), getG(),
                     {getScale(), getLr(), getStep()}, getApply());
}
