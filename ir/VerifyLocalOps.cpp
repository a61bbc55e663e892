//===- VerifyLocalOps.cpp - Verifiers of the local altitude ---------------===//
//
// Types at the local altitude have no encoding, so the verifiers in this file
// compare whole types.
//
//===----------------------------------------------------------------------===//
#include "ir/ExpertTiles.h"
#include "ir/Sharding.h"
#include "ir/TensorUtils.h"
#include "ir/VerifyUtils.h"

using namespace mlir;
using namespace dpc;
using namespace dpc::verify;

/// Checks constraint (C2) of every collective: at least one axis, and no
/// duplicates.
static LogicalResult checkAxes(Checks checks, ArrayAttr axes) {
  checks.require("C2", !axes.empty(), "no axes");
  for (auto [i, axis] : llvm::enumerate(axes))
    checks.require("C2",
                   !llvm::is_contained(axes.getValue().take_front(i), axis),
                   "axis ", axis, " is repeated");
  return checks;
}

static void checkStack(Checks &checks, StringRef what, Value stack,
                       Value piece) {
  RankedTensorType type = tensorType(stack), part = tensorType(piece);
  if (checks.rank("C1", what, type, part.getRank() + 1).failed())
    return;
  SmallVector<int64_t> shape{type.getDimSize(0)};
  llvm::append_range(shape, part.getShape());
  checks.same("C1", what, type,
              RankedTensorType::get(shape, part.getElementType()));
}

template <typename Op> static Checks checkBucket(Op op) {
  size_t inputs = op.getInputs().size(), outputs = op.getOutputs().size();
  return Checks(op).require("C1", inputs > 0 && inputs == outputs, inputs,
                            " operands and ", outputs,
                            " results, expected as many of both, at least one");
}

LogicalResult AllReduceOp::verify() {
  Checks checks = checkBucket(*this);
  if (checks.failed())
    return failure();
  Type element = elementTypeOf(getInputs().front());
  for (auto [i, input, output] : llvm::enumerate(getInputs(), getOutputs()))
    checks.same("C1", "result " + Twine(i), output.getType(), input.getType())
        .element("C1", "operand " + Twine(i), input, element);
  return checkAxes(checks, getAxes());
}

LogicalResult AllGatherOp::verify() {
  Checks checks = checkBucket(*this);
  for (auto [piece, stack] : llvm::zip(getInputs(), getOutputs()))
    checkStack(checks, "result", stack, piece);
  return checkAxes(checks, getAxes());
}

LogicalResult ReduceScatterOp::verify() {
  Checks checks = checkBucket(*this);
  if (checks.failed())
    return failure();
  Type element = elementTypeOf(getInputs().front());
  for (auto [stack, piece] : llvm::zip(getInputs(), getOutputs())) {
    checkStack(checks, "operand", stack, piece);
    checks.element("C1", "operand", stack, element);
  }
  return checkAxes(checks, getAxes());
}

LogicalResult AllToAllOp::verify() {
  return checkAxes(Checks(*this)
                       .minRank("C1", "operand", getInput(), 1)
                       .same("C1", "result", getType(), getInput().getType()),
                   getAxes());
}

LogicalResult RingShiftOp::verify() {
  return checkAxes(
      Checks(*this).same("C1", "result", getType(), getInput().getType()),
      getAxes());
}

LogicalResult RankSliceOp::verify() {
  Checks checks(*this);
  checkStack(checks, "operand", getInput(), getOutput());
  return checkAxes(checks, getAxes());
}

static LogicalResult checkNotNegative(Operation *op, StringRef name,
                                      int64_t value, int64_t tag) {
  return Checks(op)
      .require("C1", value >= 0, name, " is ", value, ", expected 0 or more")
      .require("C1", tag >= 0, "tag is ", tag, ", expected 0 or more");
}

LogicalResult SendOp::verify() {
  return checkNotNegative(*this, "to", getTo(), getTag());
}

LogicalResult RecvOp::verify() {
  return checkNotNegative(*this, "from", getFrom(), getTag());
}

LogicalResult StageValueOp::verify() {
  Checks checks(*this);
  checks.require("C1", !getValues().empty(), "no operands");
  for (auto [i, value] : llvm::enumerate(getValues()))
    checks.same("C1", "operand " + Twine(i), value.getType(), getType());
  return checks;
}

LogicalResult MaskOp::verify() {
  auto global = dyn_cast<RankedTensorType>(getGlobal());
  if (!global || !getSharding(global))
    return violates(*this, "C1")
           << "global is no sharded tensor type: " << getGlobal();
  return Checks(*this)
      .same("C1", "operand", getX().getType(), localType(global))
      .same("C1", "result", getType(), getX().getType());
}

LogicalResult AccumulateOp::verify() {
  return Checks(*this).same("C1", "result", getType(), getX().getType());
}

static Checks checkArgument(Operation *op, StringRef what, Value value) {
  return Checks(op).require("C1", isa<BlockArgument>(value), what,
                            " is no argument of the function");
}

LogicalResult FetchOp::verify() {
  return checkArgument(*this, "operand", getSource())
      .same("C2", "result", getType(), getSource().getType());
}

LogicalResult StoreOp::verify() {
  Type type = getValue().getType();
  return checkArgument(*this, "target", getTarget())
      .same("C2", "target", getTarget().getType(), type)
      .same("C2", "result", getType(), type);
}

/// Returns [B, H, T] for `scores` [B, H, T, S], or null for rank 0.
static RankedTensorType rowsOf(RankedTensorType scores) {
  if (scores.getRank() == 0)
    return {};
  return RankedTensorType::get(scores.getShape().drop_back(),
                               statisticsType(scores.getElementType()));
}

LogicalResult AttentionProbsOp::verify() {
  RankedTensorType scores = getScores().getType();
  return Checks(*this)
      .rank("C1", "scores", scores, 4)
      .floats("C1", "scores", scores)
      .same("C1", "probs", getProbs().getType(), scores)
      .same("C1", "lse", getLse().getType(), rowsOf(scores))
      .mask("C2", getMask(), scores.getShape());
}

LogicalResult AttentionScoresGradOp::verify() {
  RankedTensorType scores = getScores().getType(), rows = rowsOf(scores);
  return Checks(*this)
      .rank("C1", "scores", scores, 4)
      .floats("C1", "scores", scores)
      .same("C1", "dprobs", getDprobs().getType(), scores)
      .same("C1", "probs", getProbs().getType(), scores)
      .same("C1", "dscores", getDscores().getType(), scores)
      .same("C1", "lse", getLse().getType(), rows)
      .same("C1", "delta", getDelta().getType(), rows)
      .mask("C1", getMask(), scores.getShape());
}

static void checkPairs(Checks &checks, StringRef c, const std::string &what,
                       TypeRange types, StringRef other, TypeRange expected) {
  checks.require(c, types.size() == expected.size(), types.size(), " ", what,
                 "s for ", expected.size(), " ", other);
  for (auto [i, type, want] :
       llvm::zip(llvm::index_range(0, types.size()), types, expected))
    checks.same(c, what + (" " + Twine(i)), type, want);
}

LogicalResult KernelOp::verify() {
  Block &body = getBody().front();
  Checks checks(*this);
  checkPairs(checks, "C1", "block argument", body.getArgumentTypes(),
             "operands", getInputs().getTypes());
  auto yield = body.empty() ? YieldOp() : dyn_cast<YieldOp>(body.back());
  if (!checks.require("C2", bool(yield), "the body does not end in dpc.yield")
           .failed())
    checkPairs(checks, "C2", "yielded value", yield.getValues().getTypes(),
               "results", getOutputs().getTypes());
  return checks;
}

/// Checks `tile`, the rows of one tile of `whole`, as `share` tells
/// (dpc.expert_tiles).
static void checkTile(Checks &checks, StringRef c, const std::string &what,
                      Value tile, Value whole, int64_t share, int64_t rows,
                      int64_t tileRows) {
  ArrayRef<int64_t> shape = shapeOf(whole);
  if (share == 0) {
    checks.shape(c, what, tile, shape);
    return;
  }
  checks
      .require(c, share > 0 && rows % share == 0, what, " is shared by ", share,
               ", expected a divisor of the ", rows, " rows")
      .require(c, !shape.empty() && shape[0] * share == rows, what,
               " stands for ", shape.empty() ? 0 : shape[0],
               " rows that are shared by ", share, " of ", rows, " rows");
  if (checks.failed())
    return;
  SmallVector<int64_t> expected(shape);
  expected[0] = tileRows;
  checks.shape(c, what, tile, expected);
}

static LogicalResult checkExchange(Checks &checks, ExpertTilesOp op) {
  ArrayAttr axes = op.getExchangeAttr();
  ArrayAttr expected = expertAxes(cast<RankedTensorType>(op.getGlobal()));
  auto splitsExperts = [&](Attribute axis) {
    return llvm::is_contained(expected, axis);
  };
  return checks
      .require("C5",
               !axes || (!axes.empty() && llvm::all_of(axes, splitsExperts)),
               "rows are exchanged along ", axes, ", but ", expected,
               " split experts")
      .require("C5", exchangedRanks(op) <= op.getTileRows(), "a tile has ",
               op.getTileRows(), " rows for ", exchangedRanks(op), " ranks");
}

LogicalResult ExpertTilesOp::verify() {
  Block &block = getBody().front();
  Checks checks(*this);
  checks.integers("C1", "ids", getIds())
      .rank("C1", "ids", getIds(), 1)
      .require("C1", block.getNumArguments() > 0,
               "the body has no argument for the ids");
  if (checks.failed())
    return failure();
  int64_t rows = shapeOf(getIds())[0], tileRows = getTileRows();
  checks.rank("C1", "argument 0", block.getArgument(0), 1)
      .element("C1", "argument 0", block.getArgument(0),
               elementTypeOf(getIds()))
      .require("C1", tileRows > 0, "a tile has no rows")
      .require("C2", getInShares().size() == getInputs().size(), "'in' has ",
               getInShares().size(), " numbers for ", getInputs().size(),
               " operands")
      .require("C2", block.getNumArguments() == getInputs().size() + 1,
               "the body has ", block.getNumArguments(), " arguments for ",
               getInputs().size() + 1, " operands");
  if (checks.failed())
    return failure();
  for (auto [i, input, share] : llvm::enumerate(getInputs(), getInShares())) {
    BlockArgument tile = block.getArgument(i + 1);
    std::string what = "argument " + std::to_string(i + 1);
    checkTile(checks, "C2", what, tile, input, share, rows, tileRows);
    checks.element("C2", what, tile, elementTypeOf(input));
  }
  auto yield = block.empty() ? YieldOp() : dyn_cast<YieldOp>(block.back());
  checks
      .require("C3", getOutShares().size() == getOutputs().size(), "'out' has ",
               getOutShares().size(), " numbers for ", getOutputs().size(),
               " results")
      .require("C3", yield && yield.getValues().size() == getOutputs().size(),
               "the body does not end in dpc.yield of ", getOutputs().size(),
               " values");
  if (checks.failed())
    return failure();
  for (auto [i, value, output, share] :
       llvm::enumerate(yield.getValues(), getOutputs(), getOutShares())) {
    std::string what = "yielded value " + std::to_string(i);
    checkTile(checks, "C3", what, value, output, share, rows, tileRows);
    Type type = elementTypeOf(value);
    if (type != elementTypeOf(output))
      type = statisticsType(type);
    checks.floats("C3", what, value)
        .element("C3", "result " + Twine(i), output, type);
  }
  auto global = dyn_cast<RankedTensorType>(getGlobal());
  checks.require("C4", global && global.getRank() > 0 && getSharding(global),
                 "global is ", getGlobal(), ", expected a sharded type");
  return checks.failed() ? failure() : checkExchange(checks, *this);
}
