//===- ExpertRows.cpp - Rows that stay with their experts -----------------===//
#include "passes/shard/ExpertRows.h"

#include "ir/TensorUtils.h"
#include "passes/graph/Autodiff.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace dpc;

Value dpc::rowIds(Value ids) {
  while (auto reshape = ids.getDefiningOp<ReshapeOp>())
    ids = reshape.getX();
  return ids;
}

bool dpc::looksUpBias(EmbeddingOp lookup, Value ids, int64_t experts) {
  return rowIds(lookup.getIds()) == rowIds(ids) &&
         shapeOf(lookup.getTable())[0] == experts;
}

int64_t dpc::rowRank(Value value, int64_t rows) {
  int64_t count = 1;
  for (auto [dim, size] : llvm::enumerate(shapeOf(value))) {
    if (count == rows)
      return static_cast<int64_t>(dim);
    count *= size;
  }
  return count == rows ? static_cast<int64_t>(shapeOf(value).size()) : -1;
}

bool dpc::keepsRows(Operation *op, Value value, int64_t rows) {
  if (op->getNumResults() != 1)
    return false;
  int64_t from = rowRank(value, rows), to = rowRank(op->getResult(0), rows);
  if (from < 0 || to < 0)
    return false;
  if (isa<ReshapeOp>(op))
    return true;
  if (from != to)
    return false;
  if (auto transpose = dyn_cast<TransposeOp>(op))
    return llvm::all_of(llvm::seq<int64_t>(0, from), [&](int64_t dim) {
      return transpose.getPerm()[dim] == dim;
    });
  if (auto broadcast = dyn_cast<BroadcastOp>(op))
    return llvm::all_of(llvm::seq<int64_t>(0, from), [&](int64_t dim) {
      return broadcast.getDims()[dim] == dim;
    });
  if (auto concat = dyn_cast<ConcatOp>(op))
    return static_cast<int64_t>(concat.getDim()) >= from;
  if (isa<SliceOp>(op))
    return shapeOf(value).take_front(from) ==
           shapeOf(op->getResult(0)).take_front(from);
  return isa<UnaryOp, BinaryOp, CompareOp, SelectOp, ConvertOp>(op);
}

/// Returns whether `op` adds rows of experts to other rows, such as those of
/// the residual stream, where each token has one expert. Biases of experts,
/// which are looked up, are no such rows.
static bool addsOtherRows(Operation *op,
                          const DenseMap<Value, int64_t> &rowsOfExperts) {
  auto add = dyn_cast<BinaryOp>(op);
  if (!add || add.getKind() != BinaryKind::add)
    return false;
  return llvm::any_of(op->getOperands(), [&](Value operand) {
    Operation *source = operand.getDefiningOp();
    while (source && isa<ReshapeOp, BroadcastOp, ConvertOp>(source))
      source = source->getOperand(0).getDefiningOp();
    return !rowsOfExperts.contains(operand) &&
           !isa_and_present<EmbeddingOp>(source);
  });
}

DenseSet<Value> dpc::rowsOfExperts(ArrayRef<Operation *> ops) {
  DenseMap<Value, int64_t> rows; // the number of rows
  for (Operation *op : ops) {
    if (auto product = dyn_cast<ExpertMatmulOp>(op))
      rows[product] = tensorType(product.getIds()).getNumElements();
    for (Value operand : op->getOperands())
      if (int64_t count = rows.lookup(operand); count > 0 &&
                                                keepsRows(op, operand, count) &&
                                                !addsOtherRows(op, rows))
        rows.try_emplace(op->getResult(0), count);
  }
  auto values = llvm::make_first_range(rows);
  return {values.begin(), values.end()};
}

namespace {

/// The ops between the products of one mixture.
class RoutedBlock {
public:
  RoutedBlock(ExpertMatmulOp first, const DenseSet<Value> &active)
      : ids(rowIds(first.getIds())), experts(shapeOf(first.getW())[0]),
        rows(tensorType(first.getIds()).getNumElements()), active(active) {
    add(first);
  }

  /// Returns false if a value leaves the block, or a gradient enters it.
  bool grow();
  /// Returns whether the block ends at products of experts.
  bool hasReaders() const { return !readers.empty(); }

  llvm::SmallSetVector<Operation *, 16> ops;
  /// The products that read rows of the block.
  llvm::SmallSetVector<ExpertMatmulOp, 2> readers;

private:
  void add(Operation *op) { ops.insert(op); }
  bool isSource(Operation *op) const;
  bool addSources(Value value);

  /// Whether `product` has the same experts for the same rows, so that an axis
  /// splits both alike.
  bool isAlike(ExpertMatmulOp product) const {
    return rowIds(product.getIds()) == ids &&
           shapeOf(product.getW())[0] == experts;
  }

  Value ids;
  int64_t experts, rows;
  const DenseSet<Value> &active;
  DenseSet<Operation *> others; ///< Ops that are not of the block.
};

} // namespace

/// Returns whether `op` gives rows of experts: a product, or a lookup of
/// biases.
bool RoutedBlock::isSource(Operation *op) const {
  if (auto product = dyn_cast_if_present<ExpertMatmulOp>(op))
    return isAlike(product);
  auto bias = dyn_cast_if_present<EmbeddingOp>(op);
  return bias && looksUpBias(bias, ids, experts);
}

/// Returns whether `value` is of the block: all active values that it is made
/// of come from its sources, row by row. Adds the ops between, and the sources.
bool RoutedBlock::addSources(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || others.contains(op))
    return false;
  bool isPart = ops.contains(op) || isSource(op);
  if (!isPart)
    for (Value operand : op->getOperands()) {
      Operation *producer = operand.getDefiningOp();
      bool isRows = keepsRows(op, operand, rows) && addSources(operand);
      isPart |= isRows;
      if (!isRows && (active.contains(operand) || ops.contains(producer))) {
        isPart = false;
        break;
      }
    }
  if (isPart)
    add(op);
  else
    others.insert(op);
  return isPart;
}

bool RoutedBlock::grow() {
  for (size_t i = 0; i < ops.size(); ++i) {
    Operation *op = ops[i];
    for (Operation *user : op->getResult(0).getUsers()) {
      if (phaseOf(user) != Phase::forward || ops.contains(user))
        continue;
      auto product = dyn_cast<ExpertMatmulOp>(user);
      // A row of x belongs to one id, not to several choices.
      if (product && product.getX() == op->getResult(0) && isAlike(product) &&
          rowRank(product.getX(), rows) ==
              static_cast<int64_t>(shapeOf(product.getX()).size()) - 1) {
        readers.insert(product);
        continue;
      }
      if (!keepsRows(user, op->getResult(0), rows))
        return false;
      add(user);
    }
    if (isSource(op))
      continue;
    llvm::for_each(op->getOperands(), [&](Value one) { addSources(one); });
  }
  return llvm::all_of(ops, [&](Operation *op) {
    return isSource(op) || llvm::all_of(op->getOperands(), [&](Value operand) {
             Operation *producer = operand.getDefiningOp();
             return (producer && ops.contains(producer)) ||
                    !active.contains(operand);
           });
  });
}

void dpc::markRoutedRows(func::FuncOp func) {
  Block &block = func.getBody().front();
  if (block.getOps<ExpertMatmulOp>().empty())
    return;
  for (Operation &op : block)
    op.removeAttr(attr::kRouted);
  SmallVector<Value> parameters;
  for (BlockArgument arg : func.getArguments())
    if (roleOf(arg) == role::kParameter)
      parameters.push_back(arg);
  bool trains = llvm::any_of(
      block, [](Operation &op) { return phaseOf(&op) == Phase::backward; });
  DenseSet<Value> active;
  if (trains)
    active = dependents(block, parameters);
  DenseSet<Attribute> groups; // of the products that read routed rows
  auto mark = [&](Operation *op) {
    op->setAttr(attr::kRouted, UnitAttr::get(op->getContext()));
  };
  for (auto product : block.getOps<ExpertMatmulOp>()) {
    if (phaseOf(product) != Phase::forward || product->hasAttr(attr::kRouted))
      continue;
    RoutedBlock routed(product, active);
    if (!routed.grow() || !routed.hasReaders())
      continue;
    llvm::for_each(routed.ops, mark);
    for (ExpertMatmulOp reader : routed.readers)
      if (Attribute group = reader->getAttr(attr::kGroup))
        groups.insert(group);
  }
  for (auto product : block.getOps<ExpertMatmulOp>())
    if (phaseOf(product) == Phase::backward &&
        groups.contains(product->getAttr(attr::kGroup)))
      mark(product);
}
