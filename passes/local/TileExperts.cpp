//===- TileExperts.cpp - dpc-tile-experts ---------------------------------===//
#include "passes/local/TileExperts.h"

#include "ir/ExpertTiles.h"
#include "ir/Sharding.h"
#include "ir/TensorUtils.h"
#include "passes/local/CopyAttributes.h"
#include "passes/local/ExchangeRows.h"
#include "passes/local/Partition.h"
#include "passes/local/Passes.h"
#include "passes/shard/ExpertRows.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace dpc {

#define GEN_PASS_DEF_DPCTILEEXPERTS
#include "passes/local/Passes.h.inc"

bool splitsExperts(Operation *op) {
  if (!isa<ExpertMatmulOp, ExpertMatmulGradOp>(op))
    return false;
  auto global = op->getAttrOfType<TypeAttr>("global");
  if (!global)
    return false;
  auto type = cast<RankedTensorType>(global.getValue());
  return localType(type).getDimSize(0) < type.getDimSize(0);
}

std::optional<RowBroadcast> rowBroadcast(BroadcastOp op, int64_t rows) {
  RowBroadcast found;
  found.resultRank = rowRank(op.getResult(), rows);
  if (found.resultRank < 0)
    return std::nullopt;
  ArrayRef<int64_t> from = shapeOf(op.getX()), to = shapeOf(op.getResult());
  int64_t count = 1;
  bool isEqual = true; // to the first dimensions of the result
  for (auto [i, dim] : llvm::enumerate(op.getDims())) {
    if (dim >= found.resultRank)
      break;
    ++found.operandRank;
    isEqual &= dim == static_cast<int64_t>(i) && from[i] == to[i];
    if (!isEqual && from[i] != 1)
      return std::nullopt;
    count *= from[i];
  }
  found.share = found.operandRank == 0 ? 0 : rows / count;
  return found;
}

SmallVector<Value> rowOperands(Operation *op) {
  if (auto product = dyn_cast<ExpertMatmulOp>(op))
    return {product.getX()};
  if (auto grad = dyn_cast<ExpertMatmulGradOp>(op))
    return {grad.getA(), grad.getB()};
  if (auto grad = dyn_cast<EmbeddingGradOp>(op))
    return {grad.getDy()};
  if (isa<EmbeddingOp>(op))
    return {};
  return llvm::to_vector(op->getOperands());
}

int64_t summedRows(Operation *op, int64_t rows) {
  auto reduce = dyn_cast<ReduceOp>(op);
  if (!reduce || reduce.getKind() != ReduceKind::sum)
    return 0;
  int64_t rank = rowRank(reduce.getX(), rows);
  ArrayRef<int64_t> dims = reduce.getDims();
  if (dims.empty() || rank < 0 || dims.back() != rank - 1)
    return 0;
  int64_t share = 1;
  for (auto [i, dim] : llvm::enumerate(dims)) {
    if (dim !=
        rank - static_cast<int64_t>(dims.size()) + static_cast<int64_t>(i))
      return 0;
    share *= shapeOf(reduce.getX())[dim];
  }
  return share > 1 ? share : 0;
}

/// Whether `op` computes rows from the same rows of `value`.
static bool isRowWise(Operation *op, Value value, int64_t rows) {
  if (keepsRows(op, value, rows))
    return true;
  if (op->getNumResults() != 1)
    return false;
  int64_t from = rowRank(value, rows), to = rowRank(op->getResult(0), rows);
  if (from < 0 || from != to)
    return false;
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return llvm::all_of(reduce.getDims(),
                        [&](int64_t dim) { return dim >= from; });
  return isa<PadOp>(op) && shapeOf(value).take_front(from) ==
                               shapeOf(op->getResult(0)).take_front(from);
}

bool isWholeSum(Operation *op) {
  return isa<ExpertMatmulGradOp, EmbeddingGradOp>(op);
}

bool convertsFloats(Operation *op) {
  auto isWide = [](Value value) {
    constexpr unsigned kLeastBits = 16;
    Type type = elementTypeOf(value);
    return isa<FloatType>(type) && type.getIntOrFloatBitWidth() >= kLeastBits;
  };
  return isa<ConvertOp>(op) && isWide(op->getOperand(0)) &&
         isWide(op->getResult(0));
}

namespace {

/// The phase and chunk of a set. Gradients of matrices in phase `weight` run
/// with those of rows in phase `backward`.
std::pair<Phase, int64_t> runOf(Operation *op) {
  Phase phase = phaseOf(op);
  return {phase == Phase::weight ? Phase::backward : phase, chunkOf(op)};
}

class SetFinder {
public:
  explicit SetFinder(Block &block) : block(block) {}

  /// Returns the sets in the order of their phases.
  std::vector<TileSet> run() {
    using Key = std::tuple<Phase, int64_t, Value>;
    std::vector<std::pair<Key, TileSet>> found;
    for (Operation &op : block) {
      if (!splitsExperts(&op))
        continue;
      Value ids = rowIds(op.getOperand(1));
      auto [phase, chunk] = runOf(&op);
      Key key{phase, chunk, ids};
      auto it =
          llvm::find_if(found, [&](auto &one) { return one.first == key; });
      if (it == found.end()) {
        found.emplace_back(key, TileSet());
        it = found.end() - 1;
        it->second.ids = ids;
        it->second.rows = tensorType(ids).getNumElements();
      }
      it->second.own.insert(&op);
      owned.insert(&op);
    }
    for (auto &[key, set] : found)
      addBiases(set);
    std::vector<TileSet> sets;
    for (auto &[key, set] : found) {
      if (set.rows < 2)
        continue;
      for (const TileSet &earlier : sets)
        if (earlier.ids == set.ids)
          addReaders(set, earlier);
      grow(set);
      repeat(set, sets);
      sets.push_back(std::move(set));
    }
    return sets;
  }

private:
  /// Adds the biases of the experts and their gradients, which have rows of
  /// their own if nothing adds them to a product.
  void addBiases(TileSet &set) {
    for (Operation &op : block)
      if (isa<EmbeddingOp, EmbeddingGradOp>(op) && !owned.contains(&op) &&
          runOf(&op) == runOf(set.first()) && isSplitLike(&op, set) &&
          idsOfLookup(&op) == set.ids) {
        set.own.insert(&op);
        owned.insert(&op);
      }
  }

  static Value idsOfLookup(Operation *op) {
    auto lookup = dyn_cast<EmbeddingOp>(op);
    return rowIds(lookup ? lookup.getIds()
                         : cast<EmbeddingGradOp>(op).getIds());
  }
  /// Whether the rows of a table are split as the experts of the set.
  static bool isSplitLike(Operation *op, const TileSet &set) {
    auto typeOf = [](Operation *one) {
      auto global = one->getAttrOfType<TypeAttr>("global");
      return global ? cast<RankedTensorType>(global.getValue()) : nullptr;
    };
    RankedTensorType table = typeOf(op), experts = typeOf(set.first());
    return table && table.getDimSize(0) == experts.getDimSize(0) &&
           ShardingSpec::get(table)->dims.front() ==
               ShardingSpec::get(experts)->dims.front();
  }

  /// Adds what reads rows of an earlier phase.
  void addReaders(TileSet &set, const TileSet &earlier) {
    for (Operation *op : earlier.own) {
      if (isWholeSum(op))
        continue;
      for (Operation *user : op->getResult(0).getUsers())
        if (runOf(user) == runOf(set.first()))
          addIfJoins(set, user, op->getResult(0));
    }
  }

  /// Adds what is computed from rows of the products, except numbers, of which
  /// a row has one: what reads these may be complete only after a sum over
  /// ranks.
  void grow(TileSet &set) {
    for (size_t i = 0; i < set.own.size(); ++i) {
      Operation *op = set.own[i];
      if (isWholeSum(op))
        continue;
      Value value = op->getResult(0);
      if (rowRank(value, set.rows) ==
          static_cast<int64_t>(shapeOf(value).size()))
        continue;
      for (Operation *user : value.getUsers())
        if (runOf(user) == runOf(op))
          addIfJoins(set, user, value);
    }
  }

  void addIfJoins(TileSet &set, Operation *user, Value value) {
    bool isFree = !owned.contains(user) || set.own.contains(user);
    if (isFree && joins(user, value, set) && set.own.insert(user))
      owned.insert(user);
  }

  static bool joins(Operation *user, Value value, const TileSet &set) {
    auto grad = dyn_cast<EmbeddingGradOp>(user);
    if (grad)
      return grad.getDy() == value && rowIds(grad.getIds()) == set.ids;
    if (isa<BroadcastOp>(user) && !isRows(user, set.rows))
      return false;
    return isRowWise(user, value, set.rows);
  }

  /// Whether the result of a broadcast has the rows of its operand.
  static bool isRows(Operation *op, int64_t rows) {
    auto found = rowBroadcast(cast<BroadcastOp>(op), rows);
    return found && found->share == 1;
  }

  /// Adds the ops that the body repeats.
  void repeat(TileSet &set, ArrayRef<TileSet> earlier) {
    bool hasChanged = true;
    while (hasChanged) {
      hasChanged = false;
      for (size_t i = 0; i < set.own.size() + set.repeated.size(); ++i) {
        Operation *op =
            i < set.own.size() ? set.own[i] : set.repeated[i - set.own.size()];
        for (Value operand : rowOperands(op))
          if (Operation *producer = operand.getDefiningOp();
              producer && !set.contains(producer) &&
              isRepeated(producer, set, earlier))
            hasChanged |= set.repeated.insert(producer);
      }
    }
  }

  bool isRepeated(Operation *op, const TileSet &set,
                  ArrayRef<TileSet> earlier) const {
    if (op->getNumResults() != 1 || rowRank(op->getResult(0), set.rows) < 0)
      return false;
    if (auto constant = dyn_cast<ConstantOp>(op))
      return constant.getValue().isSplat();
    if (runOf(op) != runOf(set.first()))
      return llvm::any_of(earlier, [&](const TileSet &other) {
        return other.ids == set.ids && other.contains(op);
      });
    if (owned.contains(op))
      return false;
    if (auto lookup = dyn_cast<EmbeddingOp>(op))
      return rowIds(lookup.getIds()) == set.ids;
    if (auto broadcast = dyn_cast<BroadcastOp>(op))
      return rowBroadcast(broadcast, set.rows).has_value();
    bool isRow = llvm::all_of(op->getOperands(), [&](Value operand) {
      return isRowWise(op, operand, set.rows);
    });
    bool movesOnly = isa<ReshapeOp, TransposeOp, SliceOp>(op);
    return isRow && op->getNumOperands() > 0 &&
           (movesOnly || llvm::all_of(op->getUsers(), [&](Operation *user) {
              return set.contains(user);
            }));
  }

  Block &block;
  DenseSet<Operation *> owned; ///< by any set
};

/// Gathers ids once that are gathered in several shapes, so that the products
/// that read them are in one set.
void mergeGathersOfIds(Block &block) {
  using Key = std::tuple<Value, Attribute, Attribute, Attribute>;
  DenseMap<Key, AllGatherOp> gathers; // by source, axes, phase and chunk
  for (auto gather : llvm::make_early_inc_range(block.getOps<AllGatherOp>())) {
    Value source = gather->getOperand(0);
    if (gather->getNumOperands() != 1 ||
        !isa<IntegerType>(elementTypeOf(source)))
      continue;
    while (auto reshape = source.getDefiningOp<ReshapeOp>())
      source = reshape.getX();
    auto [phase, chunk] = phaseKey(gather);
    auto [it, isNew] = gathers.try_emplace(
        Key(source, gather.getAxes(), phase, chunk), gather);
    if (isNew)
      continue;
    AttributeListener listener(gather);
    OpBuilder builder(gather);
    builder.setListener(&listener);
    Value result = gather->getResult(0);
    result.replaceAllUsesWith(ReshapeOp::create(builder, gather.getLoc(),
                                                tensorType(result),
                                                it->second->getResult(0)));
    gather.erase();
  }
}

/// Erases the all_gathers that nothing reads, such as those of exchanged rows.
/// Collectives have effects, so eraseDeadOps keeps them; but all ranks run the
/// same program, and none waits for what all leave out.
bool eraseDeadGathers(Block &block) {
  bool hasChanged = false;
  for (auto gather : llvm::make_early_inc_range(block.getOps<AllGatherOp>()))
    if (gather->use_empty()) {
      gather.erase();
      hasChanged = true;
    }
  return hasChanged;
}

struct TileExpertsPass : impl::DpcTileExpertsBase<TileExpertsPass> {
  using DpcTileExpertsBase::DpcTileExpertsBase;

  void runOnOperation() override {
    onEachStep(getOperation(), [&](func::FuncOp step) {
      mergeGathersOfIds(step.getBody().front());
      avoidGatedRows(step.getBody().front());
      std::vector<TileSet> sets = SetFinder(step.getBody().front()).run();
      // The last first: they repeat ops of earlier sets.
      for (const TileSet &set : llvm::reverse(sets))
        buildTiles(set, rowsOfTile(set));
      exchangeRows(step.getBody().front(),
                   {{gatherStart, gatherByte}, {exchangeStart, exchangeByte}});
      while (!sets.empty() && (eraseDeadOps(step.getBody().front()) ||
                               eraseDeadGathers(step.getBody().front()))) {
      }
    });
  }

private:
  int64_t rowsOfTile(const TileSet &set) const {
    if (rows > 0)
      return std::min<int64_t>(rows, set.rows);
    constexpr int64_t kTiles = 4, kMultiple = 16;
    auto global = set.first()->getAttrOfType<TypeAttr>("global").getValue();
    int64_t expected = expectedRows(set.rows, cast<RankedTensorType>(global));
    return std::min(
        set.rows, static_cast<int64_t>(llvm::alignTo(
                      std::max<int64_t>(1, llvm::divideCeil(expected, kTiles)),
                      kMultiple)));
  }
};

} // namespace

} // namespace dpc
