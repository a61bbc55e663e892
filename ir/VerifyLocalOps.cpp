//===- VerifyLocalOps.cpp - Verifiers of the local altitude ---------------===//
//
// Local types carry no encoding, so here whole types are compared. The
// constraint numbers are those of DpcLocalOps.td.
//
//===----------------------------------------------------------------------===//
#include "ir/Dialect.h"
#include "ir/Sharding.h"
#include "ir/TensorUtils.h"
#include "ir/VerifyUtils.h"

using namespace dpc;
using namespace dpc::verify;
using llvm::failure;
using llvm::LogicalResult;
using llvm::StringRef;
using llvm::success;
using mlir::Operation;
using mlir::RankedTensorType;

/// `type` equals `expected`, encoding included.
static LogicalResult checkSame(Operation *op, StringRef c,
                               const llvm::Twine &what, mlir::Type type,
                               mlir::Type expected) {
  if (type == expected)
    return success();
  return violates(op, c) << what << " has type " << type << ", expected "
                         << expected;
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

/// At least one axis and none twice; constraint (C2) of every collective.
static LogicalResult checkAxes(Operation *op, mlir::ArrayAttr axes) {
  if (axes.empty())
    return violates(op, "C2") << "no axes";
  for (auto [i, axis] : llvm::enumerate(axes))
    if (llvm::is_contained(axes.getValue().take_front(i), axis))
      return violates(op, "C2") << "axis " << axis << " is repeated";
  return success();
}

/// `stack` is [k, piece shape..] of the piece's element type.
static LogicalResult checkStack(Operation *op, StringRef what,
                                RankedTensorType stack,
                                RankedTensorType piece) {
  if (failed(checkRank(op, "C1", what, stack, piece.getRank() + 1)))
    return failure();
  llvm::SmallVector<int64_t> shape{stack.getDimSize(0)};
  llvm::append_range(shape, piece.getShape());
  return checkSame(op, "C1", what, stack,
                   RankedTensorType::get(shape, piece.getElementType()));
}

/// As many results as operands, at least one; part of (C1) of buckets.
template <typename Op> static LogicalResult checkPairs(Op op) {
  if (op.getInputs().empty() || op.getInputs().size() != op.getOutputs().size())
    return violates(op, "C1")
           << op.getInputs().size() << " operands and "
           << op.getOutputs().size()
           << " results, expected as many of both, at least one";
  return success();
}

LogicalResult AllReduceOp::verify() {
  if (failed(checkPairs(*this)))
    return failure();
  mlir::Type element = getElementTypeOrSelf(getInputs().front());
  for (auto [i, input, output] : llvm::enumerate(getInputs(), getOutputs())) {
    if (failed(checkSame(*this, "C1", "result " + llvm::Twine(i),
                         output.getType(), input.getType())) ||
        failed(checkElement(*this, "C1", "operand " + llvm::Twine(i),
                            tensorType(input), element)))
      return failure();
  }
  return checkAxes(*this, getAxes());
}

LogicalResult AllGatherOp::verify() {
  if (failed(checkPairs(*this)))
    return failure();
  for (auto [piece, stack] : llvm::zip(getInputs(), getOutputs()))
    if (failed(
            checkStack(*this, "result", tensorType(stack), tensorType(piece))))
      return failure();
  return checkAxes(*this, getAxes());
}

LogicalResult ReduceScatterOp::verify() {
  if (failed(checkPairs(*this)))
    return failure();
  mlir::Type element = getElementTypeOrSelf(getInputs().front());
  for (auto [stack, piece] : llvm::zip(getInputs(), getOutputs()))
    if (failed(checkStack(*this, "operand", tensorType(stack),
                          tensorType(piece))) ||
        failed(
            checkElement(*this, "C1", "operand", tensorType(stack), element)))
      return failure();
  return checkAxes(*this, getAxes());
}

LogicalResult AllToAllOp::verify() {
  if (failed(checkMinRank(*this, "C1", "operand", getInput().getType(), 1)) ||
      failed(checkSame(*this, "C1", "result", getOutput().getType(),
                       getInput().getType())))
    return failure();
  return checkAxes(*this, getAxes());
}

LogicalResult RingShiftOp::verify() {
  if (failed(checkSame(*this, "C1", "result", getOutput().getType(),
                       getInput().getType())))
    return failure();
  return checkAxes(*this, getAxes());
}

LogicalResult RankSliceOp::verify() {
  if (failed(checkStack(*this, "operand", getInput().getType(),
                        getOutput().getType())))
    return failure();
  return checkAxes(*this, getAxes());
}

//===----------------------------------------------------------------------===//
// Padding and micro-batches
//===----------------------------------------------------------------------===//

static LogicalResult checkNotNegative(Operation *op, StringRef what,
                                      int64_t value) {
  if (value >= 0)
    return success();
  return violates(op, "C1")
         << what << " is " << value << ", expected 0 or more";
}

LogicalResult SendOp::verify() {
  if (failed(checkNotNegative(*this, "to", getTo())))
    return failure();
  return checkNotNegative(*this, "tag", getTag());
}

LogicalResult RecvOp::verify() {
  if (failed(checkNotNegative(*this, "from", getFrom())))
    return failure();
  return checkNotNegative(*this, "tag", getTag());
}

LogicalResult StageValueOp::verify() {
  if (getValues().empty())
    return violates(*this, "C1") << "no operands";
  for (auto [i, value] : llvm::enumerate(getValues()))
    if (failed(checkSame(*this, "C1", "operand " + llvm::Twine(i),
                         value.getType(), getResult().getType())))
      return failure();
  return success();
}

LogicalResult MaskOp::verify() {
  auto global = mlir::dyn_cast<RankedTensorType>(getGlobal());
  if (!global || !getSharding(global))
    return violates(*this, "C1")
           << "global is no sharded tensor type: " << getGlobal();
  if (failed(checkSame(*this, "C1", "operand", getX().getType(),
                       localType(global))))
    return failure();
  return checkSame(*this, "C1", "result", getType(), getX().getType());
}

LogicalResult AccumulateOp::verify() {
  return checkSame(*this, "C1", "result", getType(), getX().getType());
}

//===----------------------------------------------------------------------===//
// Memory spaces
//===----------------------------------------------------------------------===//

static LogicalResult checkArgument(Operation *op, StringRef what,
                                   mlir::Value value) {
  if (mlir::isa<mlir::BlockArgument>(value))
    return success();
  return violates(op, "C1") << what << " is no argument of the function";
}

LogicalResult FetchOp::verify() {
  if (failed(checkArgument(*this, "operand", getSource())))
    return failure();
  return checkSame(*this, "C2", "result", getType(), getSource().getType());
}

LogicalResult StoreOp::verify() {
  if (failed(checkArgument(*this, "target", getTarget())) ||
      failed(checkSame(*this, "C2", "target", getTarget().getType(),
                       getValue().getType())))
    return failure();
  return checkSame(*this, "C2", "result", getType(), getValue().getType());
}

//===----------------------------------------------------------------------===//
// Attention in pieces
//===----------------------------------------------------------------------===//

/// [B, H, T] statistics of `scores`.
static RankedTensorType rowsOf(RankedTensorType scores) {
  return RankedTensorType::get(scores.getShape().drop_back(),
                               statisticsType(scores.getElementType()));
}

LogicalResult AttentionProbsOp::verify() {
  RankedTensorType scores = getScores().getType();
  if (failed(checkRank(*this, "C1", "scores", scores, 4)) ||
      failed(checkFloat(*this, "C1", "scores", scores)) ||
      failed(checkSame(*this, "C1", "probs", getProbs().getType(), scores)) ||
      failed(checkSame(*this, "C1", "lse", getLse().getType(), rowsOf(scores))))
    return failure();
  return checkMask(*this, "C2", getMask(), scores.getShape());
}

LogicalResult AttentionScoresGradOp::verify() {
  RankedTensorType scores = getScores().getType();
  if (failed(checkRank(*this, "C1", "scores", scores, 4)) ||
      failed(checkFloat(*this, "C1", "scores", scores)) ||
      failed(checkSame(*this, "C1", "dprobs", getDprobs().getType(), scores)) ||
      failed(checkSame(*this, "C1", "probs", getProbs().getType(), scores)) ||
      failed(
          checkSame(*this, "C1", "dscores", getDscores().getType(), scores)) ||
      failed(checkSame(*this, "C1", "lse", getLse().getType(), rowsOf(scores))))
    return failure();
  if (failed(checkSame(*this, "C1", "delta", getDelta().getType(),
                       rowsOf(scores))))
    return failure();
  return checkMask(*this, "C1", getMask(), scores.getShape());
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// `left` and `right` have the same types one by one.
static LogicalResult checkPairs(Operation *op, StringRef c, StringRef what,
                                mlir::TypeRange types, StringRef other,
                                mlir::TypeRange expected) {
  if (types.size() != expected.size())
    return violates(op, c) << types.size() << " " << what << "s for "
                           << expected.size() << " " << other;
  for (auto [i, type, want] : llvm::enumerate(types, expected))
    if (failed(checkSame(op, c, what + (" " + llvm::Twine(i)), type, want)))
      return failure();
  return success();
}

LogicalResult KernelOp::verify() {
  mlir::Block &body = getBody().front();
  if (failed(checkPairs(*this, "C1", "block argument", body.getArgumentTypes(),
                        "operands", getInputs().getTypes())))
    return failure();
  auto yield = body.empty() ? YieldOp() : mlir::dyn_cast<YieldOp>(body.back());
  if (!yield)
    return violates(*this, "C2") << "the body does not end in dpc.yield";
  return checkPairs(*this, "C2", "yielded value", yield.getValues().getTypes(),
                    "results", getOutputs().getTypes());
}
