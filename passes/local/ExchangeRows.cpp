//===- ExchangeRows.cpp - Rows of experts travel to their ranks -----------===//
#include "passes/local/ExchangeRows.h"

#include "ir/ExpertLoads.h"
#include "ir/ExpertTiles.h"
#include "ir/Sharding.h"
#include "ir/TensorUtils.h"
#include "passes/graph/GraphBuilder.h"
#include "passes/local/CopyAttributes.h"

#include "llvm/ADT/MapVector.h"

#include <memory>

using namespace mlir;

namespace dpc {

namespace {

/// Consecutive parts of a stack are those of the ranks, so that a reshape of
/// the stack has the rows of one rank after those of another.
class RowExchanger {
public:
  explicit RowExchanger(ExpertTilesOp op)
      : op(op), global(cast<RankedTensorType>(op.getGlobal())),
        axes(expertAxes(global)), listener(op, {attr::kPhase, attr::kChunk}) {}

  /// Finds the collectives that an exchange replaces. Returns false if it is
  /// not possible.
  bool find() {
    return axes.size() == 1 &&
           cast<StringAttr>(axes[0]).getValue() == kExpertAxis && findMoves() &&
           op.getTileRows() >= ranks;
  }
  /// Returns the seconds of the exchange.
  double seconds(const ExchangeCosts &costs);
  /// Adds the values that the collectives gather for ops in `mixture` alone, or
  /// reduce.
  void addStacks(const DenseSet<Operation *> &mixture,
                 SetVector<Value> &stacks) const;
  ExpertTilesOp tiles() const { return op; }
  void build();

  /// The all_gather of the ids, which all ops of a mixture share.
  Operation *idsGather() const {
    return gathers.empty() ? nullptr
                           : AllGatherOp(gathers.front()).getOperation();
  }

private:
  bool findMoves();

  /// By traveling tile, the collective that the exchange replaces, or null.
  SmallVector<Operation *> moves() const;
  Type travelType(Value tile, Operation *move) const;
  void arriveAs(BlockArgument tile, Type type);
  void returnAs(OpOperand &tile, Type type);

  static bool isSplat(Value value) {
    auto constant = value.getDefiningOp<ConstantOp>();
    return constant && constant.getValue().isSplat();
  }
  AllGatherOp gatherOf(Value value) const;
  Operation *scatterOf(OpResult result) const;
  Value reduceOverOthers(OpBuilder &builder, Value sum, Operation *slice) const;
  Value localRows(OpBuilder &builder, Value value, Type type);
  RankedTensorType localType(Value value) const {
    SmallVector<int64_t> shape(shapeOf(value));
    shape[0] /= ranks;
    return RankedTensorType::get(shape, elementTypeOf(value));
  }

  ExpertTilesOp op;
  RankedTensorType global;
  ArrayAttr axes;
  AttributeListener listener;
  int64_t ranks = 1;
  /// Of the ids and the operands with rows; null for a splat.
  SmallVector<AllGatherOp> gathers;
  /// By result, the op whose result has the sums of this rank; null for a sum
  /// of whole tiles.
  SmallVector<Operation *> scatters;
};

} // namespace

/// Returns the all_gather whose stack `value` is, reshaped or converted once.
AllGatherOp RowExchanger::gatherOf(Value value) const {
  bool isConverted = false;
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<ReshapeOp>(op) && (!isa<ConvertOp>(op) || isConverted))
      break;
    isConverted |= isa<ConvertOp>(op);
    value = op->getOperand(0);
  }
  auto gather = value.getDefiningOp<AllGatherOp>();
  return gather && gather.getAxes() == axes ? gather : AllGatherOp();
}

/// Returns the all_reduce over several axes of which `slice` takes the part of
/// this rank, reshaped or converted.
static AllReduceOp reducedBefore(RankSliceOp slice) {
  Value value = slice.getInput();
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<ReshapeOp, ConvertOp>(op))
      break;
    value = op->getOperand(0);
  }
  return value.getDefiningOp<AllReduceOp>();
}

/// Returns the op that distributes `result`, reshaped or converted, if it has
/// no other reader: a reduce_scatter of this sum alone, or a rank_slice after
/// one all_reduce of it over these and other axes.
Operation *RowExchanger::scatterOf(OpResult result) const {
  Value value = result;
  bool isReduced = false;
  while (value.hasOneUse()) {
    Operation *user = *value.getUsers().begin();
    if (auto scatter = dyn_cast<ReduceScatterOp>(user))
      return !isReduced && scatter.getAxes() == axes &&
                     scatter.getInputs().size() == 1 &&
                     scatter.getKind() == ReduceKind::sum
                 ? user
                 : nullptr;
    if (auto slice = dyn_cast<RankSliceOp>(user))
      return isReduced && slice.getAxes() == axes ? user : nullptr;
    auto reduce = dyn_cast<AllReduceOp>(user);
    bool reduces = !isReduced && reduce && reduce.isOver(kExpertAxis) &&
                   reduce.getInputs().size() == 1 &&
                   reduce.getKind() == ReduceKind::sum;
    if (!reduces && !isa<ReshapeOp, ConvertOp>(user))
      break;
    isReduced |= reduces;
    value = user->getResult(0);
  }
  return nullptr;
}

bool RowExchanger::findMoves() {
  auto take = [&](Value value) {
    gathers.push_back(isSplat(value) ? AllGatherOp() : gatherOf(value));
    return isSplat(value) || gathers.back();
  };
  if (!take(op.getIds()) || !gathers.front())
    return false;
  ranks = shapeOf(gathers.front().getOutputs().front())[0];
  auto isDivisible = [&](Value value) {
    return shapeOf(value)[0] % ranks == 0;
  };
  if (!isDivisible(op.getIds()))
    return false;
  for (auto [value, share] : llvm::zip_equal(op.getInputs(), op.getInShares()))
    if (share > 0 && (!isDivisible(value) || !take(value)))
      return false;
  for (auto [result, share] :
       llvm::zip_equal(op->getResults(), op.getOutShares())) {
    scatters.push_back(share > 0 ? scatterOf(result) : nullptr);
    if (share > 0 && (!isDivisible(result) || !scatters.back()))
      return false;
  }
  return true;
}

double RowExchanger::seconds(const ExchangeCosts &costs) {
  double load = expertLoad(op, dpc::localType(global).getDimSize(0));
  auto rows = load * static_cast<double>(shapeOf(op.getIds())[0]) /
              static_cast<double>(ranks);
  auto tileRows = static_cast<double>(op.getTileRows());
  auto rounds =
      static_cast<double>(exchangeRounds(rows, op.getTileRows(), ranks));
  double sum = costs.gather.start; // of the numbers of rows
  for (auto [tile, move] : llvm::zip_equal(travelingTiles(op), moves())) {
    auto bytes = static_cast<double>(
        sizeInBytes(tensorType(tile).clone(travelType(tile, move))));
    sum += rounds * costs.exchange.start +
           costs.exchange.perByte * bytes / tileRows * rows;
  }
  return sum;
}

SmallVector<Operation *> RowExchanger::moves() const {
  SmallVector<Operation *> found;
  for (AllGatherOp gather : gathers)
    found.push_back(gather);
  for (Operation *scatter : scatters)
    if (scatter)
      found.push_back(scatter);
  return found;
}

/// Returns the element type in which rows of `tile` travel: the narrowest float
/// of the tile, the collective `move` that the exchange replaces, and the
/// matrices of the experts, whose products round rows to this type. Rows that
/// are summed in f32 are thus rounded once more. Single numbers of a row, such
/// as gates, keep their type.
Type RowExchanger::travelType(Value tile, Operation *move) const {
  Type type = elementTypeOf(tile);
  auto narrow = [&](Type other) {
    if (isa<FloatType>(other) && isa<FloatType>(type) &&
        other.getIntOrFloatBitWidth() < type.getIntOrFloatBitWidth())
      type = other;
  };
  if (move)
    narrow(elementTypeOf(move->getOperand(0)));
  if (shapeOf(tile).size() > 1)
    narrow(global.getElementType());
  return type;
}

/// Whether only `ops` read `value`, perhaps reshaped or converted.
static bool isReadBy(const DenseSet<Operation *> &ops, Value value) {
  return llvm::all_of(value.getUsers(), [&](Operation *user) {
    return ops.contains(user) || (isa<ReshapeOp, ConvertOp>(user) &&
                                  isReadBy(ops, user->getResult(0)));
  });
}

void RowExchanger::addStacks(const DenseSet<Operation *> &mixture,
                             SetVector<Value> &stacks) const {
  for (AllGatherOp gather : gathers)
    if (gather && isReadBy(mixture, gather->getResult(0)))
      stacks.insert(gather->getResult(0));
  for (Operation *scatter : scatters)
    if (scatter)
      stacks.insert(scatter->getOperand(0));
}

/// Returns the rows of this rank in `value`, as elements of `type`.
Value RowExchanger::localRows(OpBuilder &builder, Value value, Type type) {
  RankedTensorType local = localType(value).clone(type);
  Location loc = op.getLoc();
  if (isSplat(value)) {
    auto splat =
        cast<DenseElementsAttr>(value.getDefiningOp<ConstantOp>().getValue());
    return ConstantOp::create(builder, loc, local, splat.resizeSplat(local));
  }
  while (isa<ReshapeOp, ConvertOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  auto gather = value.getDefiningOp<AllGatherOp>();
  Value rows = gather.getInputs()[cast<OpResult>(value).getResultNumber()];
  GraphBuilder g(builder, loc);
  return g.reshape(g.convert(rows, type), local.getShape());
}

/// Lets the rows of `tile`, an argument of the body, arrive as elements of
/// `type`.
void RowExchanger::arriveAs(BlockArgument tile, Type type) {
  RankedTensorType wide = tensorType(tile);
  if (wide.getElementType() == type)
    return;
  tile.setType(wide.clone(type));
  OpBuilder inner(op.getContext());
  inner.setInsertionPointToStart(tile.getOwner());
  inner.setListener(&listener);
  Value rows =
      GraphBuilder(inner, op.getLoc()).convert(tile, wide.getElementType());
  tile.replaceAllUsesExcept(rows, rows.getDefiningOp());
}

/// Lets the yielded rows `tile` return as elements of `type`.
void RowExchanger::returnAs(OpOperand &tile, Type type) {
  OpBuilder inner(tile.getOwner());
  inner.setListener(&listener);
  tile.set(GraphBuilder(inner, op.getLoc()).convert(tile.get(), type));
}

/// Sums `sum` over the axes besides those of the exchange over which it was
/// reduced before `slice`.
Value RowExchanger::reduceOverOthers(OpBuilder &builder, Value sum,
                                     Operation *slice) const {
  if (!isa<RankSliceOp>(slice))
    return sum;
  SmallVector<Attribute> others;
  for (Attribute axis : reducedBefore(cast<RankSliceOp>(slice)).getAxes())
    if (!llvm::is_contained(axes, axis))
      others.push_back(axis);
  if (others.empty())
    return sum;
  return AllReduceOp::create(builder, sum.getLoc(), sum.getType(),
                             ReduceKind::sum, sum, builder.getArrayAttr(others))
      ->getResult(0);
}

void RowExchanger::build() {
  OpBuilder builder(op);
  builder.setListener(&listener);
  Location loc = op.getLoc();
  Block &body = op.getBody().front();
  Value ids = localRows(builder, op.getIds(), elementTypeOf(op.getIds()));
  SmallVector<Value> inputs;
  auto *gather = gathers.begin();
  for (auto [value, share, tile] : llvm::zip_equal(
           op.getInputs(), op.getInShares(), body.getArguments().drop_front()))
    if (share > 0) {
      Type type = travelType(tile, *++gather);
      inputs.push_back(localRows(builder, value, type));
      arriveAs(tile, type);
    } else {
      inputs.push_back(value);
    }
  for (auto [tile, scatter] :
       llvm::zip_equal(body.getTerminator()->getOpOperands(), scatters))
    if (scatter)
      returnAs(tile, travelType(tile.get(), scatter));
  SmallVector<Type> types;
  for (auto [result, scatter] : llvm::zip_equal(op.getOutputs(), scatters))
    types.push_back(scatter ? localType(result) : result.getType());
  auto exchanging =
      ExpertTilesOp::create(builder, loc, types, ids, inputs, op.getInShares(),
                            op.getOutShares(), op.getGlobal(), axes);
  exchanging.getBody().takeBody(op.getBody());
  GraphBuilder g(builder, loc);
  for (auto [old, sum, scatter] :
       llvm::zip_equal(op.getOutputs(), exchanging.getOutputs(), scatters)) {
    if (!scatter) {
      old.replaceAllUsesWith(sum);
      continue;
    }
    RankedTensorType type = tensorType(scatter->getResult(0));
    Value own =
        g.reshape(g.convert(sum, type.getElementType()), type.getShape());
    scatter->getResult(0).replaceAllUsesWith(
        reduceOverOthers(builder, own, scatter));
    for (Operation *reader = scatter; reader != op;) { // one chain
      Operation *next = reader->getOperand(0).getDefiningOp();
      reader->erase();
      reader = next;
    }
  }
  op.erase();
}

void exchangeRows(Block &block, const ExchangeCosts &costs) {
  llvm::MapVector<Operation *, std::vector<std::unique_ptr<RowExchanger>>>
      mixtures;
  DenseSet<Operation *> gathered; // mixtures of which an op cannot exchange
  for (auto op : block.getOps<ExpertTilesOp>()) {
    auto exchanger = std::make_unique<RowExchanger>(op);
    bool isPossible = exchanger->find();
    Operation *ids = exchanger->idsGather();
    if (!isPossible)
      gathered.insert(ids);
    else
      mixtures[ids].push_back(std::move(exchanger));
  }
  for (auto &[ids, exchangers] : mixtures) {
    SetVector<Value> stacks;
    double exchanged = 0, collected = 0;
    DenseSet<Operation *> ops;
    for (const auto &exchanger : exchangers)
      ops.insert(exchanger->tiles());
    for (const auto &exchanger : exchangers) {
      exchanged += exchanger->seconds(costs);
      exchanger->addStacks(ops, stacks);
    }
    for (Value stack : stacks)
      collected +=
          costs.gather.of(static_cast<double>(sizeInBytes(tensorType(stack))));
    if (!gathered.contains(ids) && exchanged < collected)
      for (const auto &exchanger : exchangers)
        exchanger->build();
  }
}

} // namespace dpc
