//===- SimplifyExperts.cpp - Products of experts on rows in token order ---===//
//
// Exporters write a mixture of experts in two forms: they sort the rows by
// their experts, multiply groups and sort the results back, or they look up a
// matrix for each row. Both become dpc.expert_matmul on rows in the order of
// the tokens, where the choices of a token share its row. The lowering sorts.
//
//===----------------------------------------------------------------------===//
#include "passes/graph/Match.h"
#include "passes/graph/Patterns.h"

using namespace mlir;
using namespace dpc;

namespace {

/// Moves a sort behind the ops that treat all rows alike. `sort` gives the
/// permutation P of a list of ids, and a value is *sorted* if its row i belongs
/// to id P[i].
class RowOrder {
public:
  RowOrder(TopKOp sort, PatternRewriter &rewriter)
      : sort(sort), rewriter(rewriter), rows(shapeOf(sort.getX()).back()) {}

  /// Returns whether `value` is sorted, and unsorted(value) can be built.
  bool isSorted(Value value);
  /// Returns the rows of `value` in the order of the ids.
  Value unsorted(Value value);

private:
  /// Returns the iteration dimension of the rows of `result`, or -1 unless
  /// `op` computes each row from the same row of its operands.
  int64_t rowDimOf(const ShardingRule &rule, OpResult result) const;
  Value build(Value value);
  Value unsortedLookup(EmbeddingOp op);

  TopKOp sort;
  PatternRewriter &rewriter;
  int64_t rows;
  DenseMap<Value, bool> checked;
  DenseMap<Value, Value> built;
};

} // namespace

/// Returns the sort of a whole list, if `value` is its permutation, else null.
static TopKOp permutationOf(Value value) {
  auto sort = value.getDefiningOp<TopKOp>();
  return sort && value == sort.getIndices() &&
                 shapeOf(sort.getX()).size() == 1 &&
                 shapeOf(value) == shapeOf(sort.getX())
             ? sort
             : TopKOp();
}

int64_t RowOrder::rowDimOf(const ShardingRule &rule, OpResult result) const {
  const TensorMap &map = rule.results[result.getResultNumber()];
  if (map.empty() || map.front().size() != 1)
    return -1;
  int64_t dim = map.front().front();
  return rule.dims[dim].size == rows && !rule.dims[dim].whole ? dim : -1;
}

bool RowOrder::isSorted(Value value) {
  if (value == sort.getIndices() || value == sort.getValues() ||
      splatValue(value))
    return true;
  auto [it, isNew] = checked.try_emplace(value, false);
  if (!isNew)
    return it->second;
  auto op = value.getDefiningOp<ShardingRuleOpInterface>();
  if (!op || isa<ConstantOp>(op))
    return false;
  if (auto iota = dyn_cast<IotaOp>(*op))
    return checked[value] = iota.getDim() != 0;
  ShardingRule rule = op.getShardingRule();
  int64_t rowDim = rowDimOf(rule, cast<OpResult>(value));
  if (rowDim < 0)
    return false;
  bool readsRows = isa<BroadcastOp>(*op); // or all its rows are equal
  for (auto [operand, map] : llvm::zip(op->getOperands(), rule.operands)) {
    bool reads = false;
    for (auto [dim, parts] : llvm::enumerate(map)) {
      if (!llvm::is_contained(parts, rowDim))
        continue;
      if (dim != 0 || parts.size() != 1)
        return false;
      reads = true;
    }
    if (reads && !isSorted(operand))
      return false;
    readsRows |= reads;
  }
  return checked[value] = readsRows;
}

Value RowOrder::unsorted(Value value) {
  Value &known = built[value];
  if (known)
    return known;
  Value made = build(value);
  return built[value] = made;
}

Value RowOrder::build(Value value) {
  GraphBuilder g(rewriter, value.getLoc());
  if (value == sort.getValues())
    return sort.getX();
  if (value == sort.getIndices())
    return g.iota({rows}, 0);
  Operation *op = value.getDefiningOp();
  if (splatValue(value) || isa<IotaOp>(op))
    return value;
  if (auto embedding = dyn_cast<EmbeddingOp>(op))
    return unsortedLookup(embedding);
  ShardingRule rule = cast<ShardingRuleOpInterface>(op).getShardingRule();
  int64_t rowDim = rowDimOf(rule, cast<OpResult>(value));
  IRMapping operands;
  for (auto [operand, map] : llvm::zip(op->getOperands(), rule.operands))
    if (!map.empty() && llvm::is_contained(map.front(), rowDim))
      operands.map(operand, unsorted(operand));
  return rewriter.clone(*op, operands)
      ->getResult(cast<OpResult>(value).getResultNumber());
}

/// Builds table[f(P)] in the order of the ids, which is table[f(i)] for row i.
/// f divides a row by the number of choices of a token, or keeps it.
Value RowOrder::unsortedLookup(EmbeddingOp op) {
  GraphBuilder g(rewriter, op.getLoc());
  Value table = op.getTable(), ids = unsorted(op.getIds());
  int64_t tokens = shapeOf(table)[0], columns = shapeOf(table)[1];
  auto isRow = [](Value value) {
    auto iota = value.getDefiningOp<IotaOp>();
    return iota && shapeOf(value).size() == 1;
  };
  if (isRow(ids) && tokens == rows)
    return table;
  auto division = binaryOf(ids, BinaryKind::div);
  if (division && isRow(division.getA()) && tokens > 0) {
    int64_t choices = rows / tokens;
    if (choices * tokens == rows && splatValue(division.getB()) == choices)
      return g.reshape(g.broadcast(table, {tokens, choices, columns}, {0, 2}),
                       {rows, columns});
  }
  return EmbeddingOp::create(rewriter, op.getLoc(), op.getType(), table, ids,
                             TypeAttr());
}

/// Replaces rows that are sorted, processed and sorted back.
static LogicalResult sortedRows(EmbeddingOp op, PatternRewriter &rewriter) {
  TopKOp back = permutationOf(op.getIds());
  TopKOp sort =
      back && back.getSmallest() ? permutationOf(back.getX()) : TopKOp();
  if (!sort || shapeOf(op.getTable())[0] != shapeOf(sort.getX())[0])
    return failure();
  RowOrder order(sort, rewriter);
  if (!order.isSorted(op.getTable()))
    return failure();
  rewriter.replaceOp(op, order.unsorted(op.getTable()));
  return success();
}

/// Merges a transposed stack of matrices into the product.
static LogicalResult transposedExperts(ExpertMatmulOp op,
                                       PatternRewriter &rewriter) {
  auto transpose = op.getW().getDefiningOp<TransposeOp>();
  if (!transpose ||
      !llvm::equal(transpose.getPerm(), ArrayRef<int64_t>{0, 2, 1}))
    return failure();
  rewriter.replaceOpWithNewOp<ExpertMatmulOp>(op, op.getType(), op.getX(),
                                              op.getIds(), transpose.getX(),
                                              !op.getTb(), TypeAttr());
  return success();
}

/// Lets the choices of a token share its row, instead of copies of the row.
static LogicalResult sharedRows(ExpertMatmulOp op, PatternRewriter &rewriter) {
  auto merge = op.getX().getDefiningOp<ReshapeOp>();
  auto repeat =
      merge ? merge.getX().getDefiningOp<BroadcastOp>() : BroadcastOp();
  if (!repeat || shapeOf(op.getIds()).size() != 1)
    return failure();
  ArrayRef<int64_t> shape = shapeOf(repeat.getResult());
  while (shape.size() > 3 && shape.back() == 1)
    shape = shape.drop_back();
  if (shape.size() != 3 || shape[2] != shapeOf(op.getX()).back() ||
      shape[1] == 1 ||
      !llvm::equal(repeat.getDims(), ArrayRef<int64_t>{0, 2}) ||
      shapeOf(repeat.getX()) != ArrayRef<int64_t>{shape[0], shape[2]})
    return failure();
  GraphBuilder g(rewriter, op.getLoc());
  Value ids = g.reshape(op.getIds(), shape.take_front(2));
  auto type = RankedTensorType::get(
      {shape[0], shape[1], shapeOf(op.getResult()).back()},
      op.getType().getElementType());
  Value product =
      ExpertMatmulOp::create(rewriter, op.getLoc(), type, repeat.getX(), ids,
                             op.getW(), op.getTb(), TypeAttr());
  rewriter.replaceOp(op, g.reshape(product, shapeOf(op.getResult())));
  return success();
}

/// Returns the lookup of a matrix for each row, if `matrices` [rows, m, n] are
/// one, else null.
static EmbeddingOp lookedUp(Value matrices) {
  auto split = matrices.getDefiningOp<ReshapeOp>();
  auto lookup =
      split ? split.getX().getDefiningOp<EmbeddingOp>() : EmbeddingOp();
  return lookup && shapeOf(matrices).size() == 3 &&
                 shapeOf(lookup.getIds()) == shapeOf(matrices).take_front(1)
             ? lookup
             : EmbeddingOp();
}

/// Replaces a product of one row with a matrix that is looked up for it.
static LogicalResult lookedUpExperts(MatmulOp op, PatternRewriter &rewriter) {
  for (bool isLeft : {true, false}) {
    Value matrices = isLeft ? op.getA() : op.getB();
    Value vectors = isLeft ? op.getB() : op.getA();
    EmbeddingOp lookup = lookedUp(matrices);
    if (!lookup || shapeOf(vectors).size() != 3)
      continue;
    // The columns of the matrices that the product contracts.
    bool contractsLast = isLeft ? !op.getTa() : op.getTb();
    int64_t rows = shapeOf(matrices)[0];
    int64_t k = shapeOf(matrices)[contractsLast ? 2 : 1];
    int64_t n = shapeOf(matrices)[contractsLast ? 1 : 2];
    ArrayRef<int64_t> vector = shapeOf(vectors).drop_front();
    if (!isa<FloatType>(elementTypeOf(vectors)) ||
        (vector != ArrayRef<int64_t>{k, 1} &&
         vector != ArrayRef<int64_t>{1, k}))
      continue;
    GraphBuilder g(rewriter, op.getLoc());
    Value w = g.reshape(lookup.getTable(),
                        {shapeOf(lookup.getTable())[0], shapeOf(matrices)[1],
                         shapeOf(matrices)[2]});
    auto type = RankedTensorType::get({rows, n}, op.getType().getElementType());
    Value product = ExpertMatmulOp::create(
        rewriter, op.getLoc(), type, g.reshape(vectors, {rows, k}),
        lookup.getIds(), w, contractsLast, TypeAttr());
    rewriter.replaceOp(op, g.reshape(product, shapeOf(op.getResult())));
    return success();
  }
  return failure();
}

/// Returns whether the choices of a token share its row.
static bool sharesRows(ExpertMatmulOp op) {
  return shapeOf(op.getX()).size() <= shapeOf(op.getIds()).size();
}

/// Lets `op`, a product or a lookup, read `ids` instead of its ids, of which
/// they are a reshape.
static void readIds(Operation *op, Value ids) {
  OpBuilder builder(op);
  GraphBuilder g(builder, op->getLoc());
  auto type = tensorType(op->getResult(0));
  SmallVector<int64_t> shape(shapeOf(ids));
  auto withColumns = [&](Value rows) {
    SmallVector<int64_t> all(shape);
    all.push_back(shapeOf(rows).back());
    return all;
  };
  RankedTensorType wide = type.clone(withColumns(op->getResult(0)));
  Value result;
  if (auto product = dyn_cast<ExpertMatmulOp>(op))
    result = ExpertMatmulOp::create(
        builder, op->getLoc(), wide,
        g.reshape(product.getX(), withColumns(product.getX())), ids,
        product.getW(), product.getTb(), TypeAttr());
  else
    result =
        EmbeddingOp::create(builder, op->getLoc(), wide,
                            cast<EmbeddingOp>(op).getTable(), ids, TypeAttr());
  result.getDefiningOp()->setDiscardableAttrs(
      op->getDiscardableAttrDictionary());
  op->getResult(0).replaceAllUsesWith(g.reshape(result, type.getShape()));
  op->erase();
}

void dpc::alignExpertIds(func::FuncOp func) {
  auto rootOf = [](Value ids) {
    while (auto reshape = ids.getDefiningOp<ReshapeOp>())
      ids = reshape.getX();
    return ids;
  };
  DenseMap<Value, SmallVector<int64_t>> shapes; // by the root of the ids
  for (auto product : func.getOps<ExpertMatmulOp>())
    if (sharesRows(product))
      shapes.try_emplace(rootOf(product.getIds()), shapeOf(product.getIds()));
  for (Operation &op :
       llvm::make_early_inc_range(func.getBody().front().getOperations())) {
    auto product = dyn_cast<ExpertMatmulOp>(op);
    auto lookup = dyn_cast<EmbeddingOp>(op);
    if (!(product && !sharesRows(product)) && !lookup)
      continue;
    Value ids = product ? product.getIds() : lookup.getIds();
    auto found = shapes.find(rootOf(ids));
    if (found == shapes.end() || shapeOf(ids) == ArrayRef(found->second))
      continue;
    OpBuilder builder(&op);
    readIds(&op, GraphBuilder(builder, op.getLoc())
                     .reshape(found->first, found->second));
  }
}

void dpc::populateExpertPatterns(RewritePatternSet &patterns) {
  patterns.add(sortedRows)
      .add(transposedExperts)
      .add(sharedRows)
      .add(lookedUpExperts);
}
