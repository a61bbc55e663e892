//===- ExchangeRows.cpp - Rows of experts travel to their ranks -----------===//
#include "passes/local/ExchangeRows.h"

#include "ir/ExpertLoads.h"
#include "ir/ExpertTiles.h"
#include "ir/Sharding.h"
#include "ir/TensorUtils.h"
#include "passes/graph/GraphBuilder.h"
#include "passes/local/CopyAttributes.h"
#include "passes/local/RankStack.h"

#include "llvm/ADT/MapVector.h"

#include <memory>

using namespace mlir;

namespace dpc {

namespace {

/// Consecutive parts of a stack are those of the ranks, so that a reshape of
/// the stack has the rows of one rank after those of another. If further axes
/// split the experts, the ranks along `ep` exchange the rows of the experts
/// that they have together, and the sums remain partial over the further axes.
class RowExchanger {
public:
  explicit RowExchanger(ExpertTilesOp op)
      : op(op), global(cast<RankedTensorType>(op.getGlobal())),
        axes(Builder(op.getContext()).getStrArrayAttr({kExpertAxis})),
        listener(op, {attr::kPhase, attr::kChunk}) {}

  /// Finds the collectives that an exchange replaces. Returns false if it is
  /// not possible.
  bool find() {
    return llvm::is_contained(expertAxes(global), axis()) && findMoves() &&
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
    return gathers.empty() || !gathers.front()
               ? nullptr
               : gathers.front()->gather().getOperation();
  }

private:
  bool findMoves();

  /// By traveling tile, what a collective moves that the exchange replaces, or
  /// null.
  SmallVector<Value> moved() const;
  Type travelType(Value tile, Value moved) const;
  void arriveAs(BlockArgument tile, Type type);
  void returnAs(OpOperand &tile, Type type);

  static bool isSplat(Value value) {
    auto constant = value.getDefiningOp<ConstantOp>();
    return constant && constant.getValue().isSplat();
  }
  StringAttr axis() const { return cast<StringAttr>(axes[0]); }
  Value localRows(OpBuilder &builder, Value value,
                  const std::optional<RankStack> &stack, Type type);
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
  /// Of the ids and the operands with rows; none for a splat.
  SmallVector<std::optional<RankStack>> gathers;
  /// By result; none for a sum of whole tiles.
  SmallVector<std::optional<RankScatter>> scatters;
};

} // namespace

bool RowExchanger::findMoves() {
  ranks = getSharding(global).getMesh().axisSize(axis().getValue());
  auto take = [&](Value value) {
    gathers.push_back(isSplat(value) ? std::nullopt
                                     : RankStack::find(value, axis(), ranks));
    return isSplat(value) || gathers.back();
  };
  if (!take(op.getIds()) || !gathers.front())
    return false;
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
    scatters.push_back(share > 0 ? RankScatter::find(result, axis(), ranks)
                                 : std::nullopt);
    if (share > 0 && (!isDivisible(result) || !scatters.back()))
      return false;
  }
  return true;
}

double RowExchanger::seconds(const ExchangeCosts &costs) {
  double load = expertLoad(op, dpc::localType(global).getDimSize(0));
  double rows =
      load * static_cast<double>(expectedRows(shapeOf(op.getIds())[0], global));
  auto tileRows = static_cast<double>(op.getTileRows());
  auto rounds =
      static_cast<double>(exchangeRounds(rows, op.getTileRows(), ranks));
  double sum = costs.gather.start; // of the numbers of rows
  for (auto [tile, value] : llvm::zip_equal(travelingTiles(op), moved())) {
    auto bytes = static_cast<double>(
        sizeInBytes(tensorType(tile).clone(travelType(tile, value))));
    sum += rounds * costs.exchange.start +
           costs.exchange.perByte * bytes / tileRows * rows;
  }
  return sum;
}

SmallVector<Value> RowExchanger::moved() const {
  SmallVector<Value> found;
  for (const std::optional<RankStack> &stack : gathers)
    found.push_back(stack ? stack->gathered() : Value());
  for (const std::optional<RankScatter> &scatter : scatters)
    if (scatter)
      found.push_back(scatter->end()->getOperand(0));
  return found;
}

/// Returns the element type in which rows of `tile` travel: the narrowest float
/// of the tile, of `moved`, which a collective moves without the exchange, and
/// of the matrices of the experts, whose products round rows to this type. Rows
/// that are summed in f32 are thus rounded once more. Single numbers of a row,
/// such as gates, keep their type.
Type RowExchanger::travelType(Value tile, Value moved) const {
  Type type = elementTypeOf(tile);
  auto narrow = [&](Type other) {
    if (isa<FloatType>(other) && isa<FloatType>(type) &&
        other.getIntOrFloatBitWidth() < type.getIntOrFloatBitWidth())
      type = other;
  };
  if (moved)
    narrow(elementTypeOf(moved));
  if (shapeOf(tile).size() > 1)
    narrow(global.getElementType());
  return type;
}

/// Whether only `ops` read `value`, perhaps moved or converted.
static bool isReadBy(const DenseSet<Operation *> &ops, Value value) {
  return llvm::all_of(value.getUses(), [&](OpOperand &use) {
    Operation *user = use.getOwner();
    return ops.contains(user) ||
           (isa<ReshapeOp, TransposeOp, ConvertOp, AllGatherOp>(user) &&
            isReadBy(ops, user->getResult(isa<AllGatherOp>(user)
                                              ? use.getOperandNumber()
                                              : 0)));
  });
}

void RowExchanger::addStacks(const DenseSet<Operation *> &mixture,
                             SetVector<Value> &stacks) const {
  for (const std::optional<RankStack> &stack : gathers)
    if (stack && isReadBy(mixture, stack->gathered()))
      stacks.insert(stack->gathered());
  for (const std::optional<RankScatter> &scatter : scatters)
    if (scatter)
      stacks.insert(scatter->end()->getOperand(0));
}

/// Returns the rows of this rank in `value`, which is `stack` or a splat, as
/// elements of `type`.
Value RowExchanger::localRows(OpBuilder &builder, Value value,
                              const std::optional<RankStack> &stack,
                              Type type) {
  if (stack)
    return stack->partOf(builder, op.getLoc(), type);
  RankedTensorType local = localType(value).clone(type);
  auto splat =
      cast<DenseElementsAttr>(value.getDefiningOp<ConstantOp>().getValue());
  return ConstantOp::create(builder, op.getLoc(), local,
                            splat.resizeSplat(local));
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

void RowExchanger::build() {
  OpBuilder builder(op);
  builder.setListener(&listener);
  Location loc = op.getLoc();
  Block &body = op.getBody().front();
  Value ids = localRows(builder, op.getIds(), gathers.front(),
                        elementTypeOf(op.getIds()));
  SmallVector<Value> inputs;
  auto *stack = gathers.begin();
  for (auto [value, share, tile] : llvm::zip_equal(
           op.getInputs(), op.getInShares(), body.getArguments().drop_front()))
    if (share > 0) {
      ++stack;
      Type type = travelType(tile, *stack ? (*stack)->gathered() : Value());
      inputs.push_back(localRows(builder, value, *stack, type));
      arriveAs(tile, type);
    } else {
      inputs.push_back(value);
    }
  for (auto [tile, scatter] :
       llvm::zip_equal(body.getTerminator()->getOpOperands(), scatters))
    if (scatter)
      returnAs(tile, travelType(tile.get(), scatter->end()->getOperand(0)));
  SmallVector<Type> types;
  for (auto [result, scatter] : llvm::zip_equal(op.getOutputs(), scatters))
    types.push_back(scatter ? localType(result) : result.getType());
  auto exchanging =
      ExpertTilesOp::create(builder, loc, types, ids, inputs, op.getInShares(),
                            op.getOutShares(), op.getGlobal(), axes);
  exchanging.getBody().takeBody(op.getBody());
  for (auto [old, sum, scatter] :
       llvm::zip_equal(op.getOutputs(), exchanging.getOutputs(), scatters))
    if (scatter) {
      scatter->end()->getResult(0).replaceAllUsesWith(
          scatter->scatter(builder, sum));
      scatter->erase();
    } else {
      old.replaceAllUsesWith(sum);
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
