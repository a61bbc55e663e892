//===- TileExpertsBuild.cpp - The op and the body of a tile ---------------===//
#include "ir/TensorUtils.h"
#include "passes/graph/GraphBuilder.h"
#include "passes/local/CopyAttributes.h"
#include "passes/local/TileExperts.h"
#include "passes/shard/ExpertRows.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace dpc {

namespace {

class TileBuilder {
public:
  TileBuilder(const TileSet &set, int64_t tileRows)
      : set(set), tileRows(tileRows), at(set.first()),
        listener(at, {attr::kPhase, attr::kChunk}) {
    ops.append(set.own.begin(), set.own.end());
    ops.append(set.repeated.begin(), set.repeated.end());
    llvm::sort(
        ops, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  }

  bool run() {
    findOutputs();
    mergeSums();
    for (Operation *op : ops)
      findInputs(op);
    Operation *place = findPlace();
    if (!place)
      return false;
    OpBuilder builder(place);
    builder.setListener(&listener);
    build(builder);
    return true;
  }

private:
  /// A value that the body reads, how many consecutive rows share a row of it
  /// (0: the body reads all of it), and how many first dimensions count rows.
  struct Input {
    Value value;
    int64_t share, rank;
    bool operator==(const Input &) const = default;
  };
  /// The sum of `values`, which have one type, that replaces `replaced`.
  struct Output {
    SmallVector<Value, 2> values;
    Value replaced;
    int64_t share;
  };

  void findOutputs();
  void mergeSums();
  void findInputs(Operation *op);
  Operation *findPlace();
  bool addLate(Value value, Operation *place,
               SetVector<Operation *> &late) const;
  void build(OpBuilder &builder);
  void cloneInto(OpBuilder &inner, Operation *op);
  void adapt(Operation *op, Operation *clone);
  Value makeInput(OpBuilder &builder, const Input &input) const;
  void eraseSum(Operation *op);
  void replaceResult(OpBuilder &builder, const Output &output, Value sum);

  void addInput(Value value, int64_t share, int64_t rank) {
    Operation *producer = value.getDefiningOp();
    if (producer && set.contains(producer))
      return;
    if (share == 0)
      value = hereOf(value);
    Input input{value, share, rank};
    if (!llvm::is_contained(inputs, input))
      inputs.push_back(input);
  }
  void addWhole(Value value) { addInput(value, 0, 0); }
  /// Adds `value`, whose dimensions but the last one count rows.
  void addRows(Value value) {
    ArrayRef<int64_t> leading = shapeOf(value).drop_back();
    int64_t share = set.rows / llvm::product_of(leading);
    addInput(value, share,
             share == 1 ? rankOf(value) : static_cast<int64_t>(leading.size()));
  }
  int64_t rankOf(Value value) const { return rowRank(value, set.rows); }
  RankedTensorType tileType(Value value, int64_t rank) const {
    SmallVector<int64_t> shape{tileRows};
    llvm::append_range(shape, shapeOf(value).drop_front(rank));
    return RankedTensorType::get(shape, elementTypeOf(value));
  }
  bool isElsewhere(Operation *op) const {
    return isInLoop(phaseOf(op)) && phaseKey(op) != phaseKey(at);
  }
  Value hereOf(Value value) const;

  const TileSet &set;
  int64_t tileRows;
  Operation *at;
  AttributeListener listener;
  SmallVector<Operation *> ops;
  SmallVector<Input> inputs;
  SmallVector<Output> outputs;
  IRMapping map; ///< to values of the body
  Value tileIds;
};

} // namespace

/// Returns the equal value that is computed in the phase of the set, such as a
/// parameter that is gathered for each phase; or `value`.
Value TileBuilder::hereOf(Value value) const {
  Operation *op = value.getDefiningOp();
  if (!op || !isElsewhere(op) || op->getNumOperands() != 1)
    return value;
  Value operand = hereOf(op->getOperand(0));
  auto attributes = [](Operation *one) {
    NamedAttrList list(one->getAttrDictionary());
    for (StringRef name :
         {attr::kPhase, attr::kChunk, attr::kAtUse, attr::kGroup})
      list.erase(name);
    return list.getDictionary(one->getContext());
  };
  for (Operation *other : operand.getUsers())
    if (phaseKey(other) == phaseKey(at) && other->getName() == op->getName() &&
        other->getResultTypes() == op->getResultTypes() &&
        other->getNumOperands() == 1 && attributes(other) == attributes(op))
      return other->getResult(cast<OpResult>(value).getResultNumber());
  return value;
}

void TileBuilder::findOutputs() {
  for (Operation *op : ops) {
    if (!set.own.contains(op))
      continue;
    Value value = op->getResult(0);
    bool isWhole = isWholeSum(op);
    bool isRead = false; // as rows
    for (Operation *user : value.getUsers()) {
      if (set.own.contains(user))
        continue;
      int64_t share =
          !isWhole && isSamePhase(user, at) ? summedRows(user, set.rows) : 0;
      if (share > 1)
        outputs.push_back({{value}, user->getResult(0), share});
      else
        isRead = true;
    }
    if (isRead)
      outputs.push_back({{value}, value, isWhole ? 0 : 1});
  }
}

/// Returns the only op that reads `value`, perhaps converted, if it is an
/// addition.
static BinaryOp additionOf(Value value) {
  if (!value.hasOneUse())
    return {};
  Operation *user = *value.getUsers().begin();
  if (convertsFloats(user))
    return additionOf(user->getResult(0));
  auto add = dyn_cast<BinaryOp>(user);
  return add && add.getKind() == BinaryKind::add ? add : BinaryOp();
}

/// Lets the tiles add two sums that are only added, such as the gradients of a
/// token by the two products that read it, or those of a gate by a product and
/// its bias.
void TileBuilder::mergeSums() {
  for (size_t i = 0; i < outputs.size(); ++i) {
    Output &one = outputs[i];
    BinaryOp add = one.share > 0 ? additionOf(one.replaced) : BinaryOp();
    if (!add || set.contains(add) || !isSamePhase(add, at))
      continue;
    for (size_t j = i + 1; j < outputs.size(); ++j) {
      Output &other = outputs[j];
      if (other.share != one.share || additionOf(other.replaced) != add ||
          other.replaced.getType() != one.replaced.getType() ||
          other.values[0].getType() != one.values[0].getType())
        continue;
      one.values.append(other.values);
      one.replaced = add.getResult();
      outputs.erase(outputs.begin() + j);
      --i; // The sum may be added again.
      break;
    }
  }
}

void TileBuilder::findInputs(Operation *op) {
  if (auto product = dyn_cast<ExpertMatmulOp>(op)) {
    addRows(product.getX());
    addWhole(product.getW());
  } else if (auto grad = dyn_cast<ExpertMatmulGradOp>(op)) {
    addRows(grad.getA());
    addRows(grad.getB());
  } else if (auto lookup = dyn_cast<EmbeddingOp>(op)) {
    addWhole(lookup.getTable());
  } else if (auto grad = dyn_cast<EmbeddingGradOp>(op)) {
    addRows(grad.getDy());
  } else if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    RowBroadcast found = *rowBroadcast(broadcast, set.rows);
    addInput(broadcast.getX(), found.share, found.operandRank);
  } else {
    for (Value operand : op->getOperands())
      addInput(operand, 1, rankOf(operand));
  }
}

/// Returns the op before which the new op can be: after all operands, which may
/// move for this, and before all readers of results. Null if there is none.
Operation *TileBuilder::findPlace() {
  Operation *last = at; // of the set, in its phase
  for (Operation *op : set.own)
    if (isSamePhase(op, at) && last->isBeforeInBlock(op))
      last = op;
  Operation *place = last->getNextNode();
  for (const Output &output : outputs)
    for (Operation *user : output.replaced.getUsers())
      if (!set.own.contains(user) && user->isBeforeInBlock(place))
        place = user;
  SetVector<Operation *> late; // computed after the place
  bool isPossible = addLate(set.ids, place, late);
  for (auto [i, input] : llvm::enumerate(inputs)) {
    // No value is read in two ways.
    auto others = ArrayRef(inputs).drop_front(i + 1);
    isPossible &= addLate(input.value, place, late) &&
                  llvm::none_of(others, [&](const Input &other) {
                    return other.value == input.value;
                  });
  }
  if (!isPossible || !isSamePhase(place->getPrevNode(), at))
    return nullptr;
  while (late.contains(place))
    place = place->getNextNode();
  for (Operation *op : late)
    op->moveBefore(place);
  return place;
}

/// Adds the ops from which `value` is computed and that are not before `place`,
/// such as the gather of a parameter at its use. Returns false if results of
/// the set, or ops of a later phase, are among them.
bool TileBuilder::addLate(Value value, Operation *place,
                          SetVector<Operation *> &late) const {
  Operation *op = value.getDefiningOp();
  bool isResult = llvm::any_of(
      outputs, [&](const Output &output) { return output.replaced == value; });
  if (isResult || (op && set.own.contains(op)))
    return false;
  if (!op || op->isBeforeInBlock(place) || late.contains(op))
    return true;
  // Other communication keeps its order.
  bool mayMove = !isa<CommunicationOpInterface>(op) || isa<AllGatherOp>(op);
  if (!mayMove || !isSamePhase(op, at) ||
      !llvm::all_of(op->getOperands(), [&](Value operand) {
        return addLate(operand, place, late);
      }))
    return false;
  late.insert(op);
  return true;
}

/// Returns `input` with one dimension of rows.
Value TileBuilder::makeInput(OpBuilder &builder, const Input &input) const {
  if (input.share == 0)
    return input.value;
  SmallVector<int64_t> shape{set.rows / input.share};
  llvm::append_range(shape, shapeOf(input.value).drop_front(input.rank));
  if (shapeOf(input.value) == ArrayRef(shape))
    return input.value;
  return ReshapeOp::create(
      builder, at->getLoc(),
      RankedTensorType::get(shape, elementTypeOf(input.value)), input.value);
}

/// Changes the dimensions in the attributes of `clone` from those of `op`.
void TileBuilder::adapt(Operation *op, Operation *clone) {
  Value from = op->getOperand(0), to = op->getResult(0);
  int64_t rank = rankOf(to);
  auto shifted = [&](ArrayRef<int64_t> dims, int64_t skip, int64_t drop) {
    SmallVector<int64_t> result;
    for (int64_t dim : dims.drop_front(skip))
      result.push_back(dim - drop + 1);
    return result;
  };
  // The number for the rows, then those of the other dimensions.
  auto rest = [&](int64_t rows, ArrayRef<int64_t> values) {
    SmallVector<int64_t> result{rows};
    llvm::append_range(result, values.drop_front(rank));
    return result;
  };
  TypeSwitch<Operation *>(clone)
      .Case([&](SliceOp slice) {
        slice.setOffsets(rest(0, slice.getOffsets()));
        slice.setStrides(rest(1, slice.getStrides()));
      })
      .Case([&](PadOp pad) {
        pad.setLow(rest(0, pad.getLow()));
        pad.setStrides(rest(1, pad.getStrides()));
      })
      .Case([&](TransposeOp transpose) {
        SmallVector<int64_t> perm{0};
        llvm::append_range(perm, shifted(transpose.getPerm(), rank, rank));
        transpose.setPerm(perm);
      })
      .Case([&](ReduceOp reduce) {
        reduce.setDims(shifted(reduce.getDims(), 0, rankOf(from)));
      })
      .Case([&](ConcatOp concat) {
        concat.setDim(static_cast<int64_t>(concat.getDim()) - rank + 1);
      })
      .Case([&](BroadcastOp broadcast) {
        auto found = *rowBroadcast(cast<BroadcastOp>(op), set.rows);
        SmallVector<int64_t> dims;
        if (found.share > 0)
          dims.push_back(0);
        llvm::append_range(dims, shifted(broadcast.getDims(), found.operandRank,
                                         found.resultRank));
        broadcast.setDims(dims);
      });
}

void TileBuilder::cloneInto(OpBuilder &inner, Operation *op) {
  Value result = op->getResult(0);
  bool isWhole = isWholeSum(op);
  RankedTensorType type = tensorType(result);
  bool isOfRows = isa<ExpertMatmulOp, EmbeddingOp>(op);
  if (isOfRows)
    type = tileType(result, type.getRank() - 1);
  else if (auto grad = dyn_cast<ExpertMatmulGradOp>(op))
    type = type.clone(statisticsType(type.getElementType()));
  else if (!isWhole)
    type = tileType(result, rankOf(result));
  if (auto constant = dyn_cast<ConstantOp>(op)) {
    auto splat = cast<DenseElementsAttr>(constant.getValue());
    auto same =
        ConstantOp::create(inner, op->getLoc(), type, splat.resizeSplat(type));
    moveToPhase(same, at);
    map.map(result, same);
    return;
  }
  IRMapping operands = map;
  for (Value operand : op->getOperands())
    if (rowIds(operand) == set.ids)
      operands.map(operand, tileIds);
    else if (!operands.contains(operand)) // a whole operand
      operands.map(operand, map.lookup(hereOf(operand)));
  auto reshaped = [&](Value tile, ArrayRef<int64_t> shape) {
    Value made = GraphBuilder(inner, op->getLoc()).reshape(tile, shape);
    if (made != tile)
      moveToPhase(made.getDefiningOp(), at);
    return made;
  };
  if (isOfRows || isWhole) // One dimension of rows, and one of columns.
    for (Value operand : rowOperands(op)) {
      Value tile = operands.lookup(operand);
      operands.map(operand, reshaped(tile, {tileRows, shapeOf(tile).back()}));
    }
  if (isa<ReshapeOp, BroadcastOp>(op) &&
      operands.lookup(op->getOperand(0)).getType() == type) {
    map.map(result, operands.lookup(op->getOperand(0)));
    return;
  }
  Operation *clone = inner.clone(*op, operands);
  clone->getResult(0).setType(type);
  moveToPhase(clone, at);
  adapt(op, clone);
  Value tile = clone->getResult(0);
  if (isOfRows)
    tile = reshaped(tile, tileType(result, rankOf(result)).getShape());
  map.map(result, tile);
}

/// Replaces what `output` replaces by `sum`, the result of the new op.
void TileBuilder::replaceResult(OpBuilder &builder, const Output &output,
                                Value sum) {
  RankedTensorType type = tensorType(output.replaced);
  Location loc = output.values.front().getLoc();
  if (elementTypeOf(sum) != type.getElementType())
    sum = ConvertOp::create(
        builder, loc,
        RankedTensorType::get(shapeOf(sum), type.getElementType()), sum);
  if (sum.getType() != type)
    sum = ReshapeOp::create(builder, loc, type, sum);
  Value(output.replaced).replaceUsesWithIf(sum, [&](OpOperand &use) {
    bool isSum = output.replaced == output.values.front() &&
                 summedRows(use.getOwner(), set.rows) > 0;
    return !set.own.contains(use.getOwner()) && !isSum;
  });
}

/// Erases what computed a sum outside the set from sums over consecutive rows,
/// as far as nothing reads it. Other sets may have the ops on rows.
void TileBuilder::eraseSum(Operation *op) {
  if (!op || set.own.contains(op) || !isOpTriviallyDead(op))
    return;
  bool isOfRows = summedRows(op, set.rows) > 0;
  SmallVector<Value> operands(op->getOperands());
  op->erase();
  for (Value operand : operands)
    if (!isOfRows)
      eraseSum(operand.getDefiningOp());
}

void TileBuilder::build(OpBuilder &builder) {
  Location loc = at->getLoc();
  Block *body = new Block;
  Type idType = elementTypeOf(set.ids);
  tileIds = body->addArgument(RankedTensorType::get({tileRows}, idType), loc);
  Value ids = set.ids;
  if (shapeOf(ids).size() != 1)
    ids = ReshapeOp::create(builder, loc,
                            RankedTensorType::get({set.rows}, idType), ids);
  SmallVector<Value> values;
  SmallVector<int64_t> inShares, outShares;
  for (const Input &input : inputs) {
    Value value = makeInput(builder, input);
    Type type =
        input.share == 0 ? value.getType() : tileType(input.value, input.rank);
    map.map(input.value, body->addArgument(type, loc));
    values.push_back(value);
    inShares.push_back(input.share);
  }
  OpBuilder inner(at->getContext());
  inner.setInsertionPointToEnd(body);
  for (Operation *op : ops)
    cloneInto(inner, op);
  SmallVector<Value> yielded;
  SmallVector<Type> types;
  for (const Output &output : outputs) {
    Value value = map.lookup(output.values.front());
    for (Value more : llvm::drop_begin(output.values)) {
      value = BinaryOp::create(inner, loc, value.getType(), BinaryKind::add,
                               value, map.lookup(more));
      moveToPhase(value.getDefiningOp(), at);
    }
    Type type = elementTypeOf(value);
    SmallVector<int64_t> shape(shapeOf(value));
    if (output.share > 0)
      shape[0] = set.rows / output.share;
    if (output.share != 1)
      type = statisticsType(type);
    yielded.push_back(value);
    types.push_back(RankedTensorType::get(shape, type));
    outShares.push_back(output.share);
  }
  YieldOp::create(inner, loc, yielded);
  auto tiles = ExpertTilesOp::create(
      builder, loc, types, ids, values, inShares, outShares,
      at->getAttrOfType<TypeAttr>("global").getValue(),
      /*exchange=*/ArrayAttr());
  tiles.getBody().push_back(body);
  for (auto [output, sum] : llvm::zip_equal(outputs, tiles.getOutputs()))
    replaceResult(builder, output, sum);
  // From here on, the place of the builder may not exist.
  for (const Output &output : outputs)
    eraseSum(output.replaced.getDefiningOp());
  // Other sets may repeat the ops that this one repeats.
  for (Operation *op : llvm::reverse(ops))
    if (set.own.contains(op) && op->use_empty())
      op->erase();
}

bool buildTiles(const TileSet &set, int64_t tileRows) {
  return TileBuilder(set, tileRows).run();
}

} // namespace dpc
