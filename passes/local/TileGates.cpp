//===- TileGates.cpp - Gradients of gates without the gated rows ----------===//
//
// A mixture multiplies the rows y = a w of experts by gates g. With dz, the
// gradient of the gated rows, the gradients are
//
//   dg = sums over the columns of dz * y     da = (g * dz) w^T
//
// The backward phase needs y, which it would compute again, only for dg. With
// q = dz w^T, it does not need y:
//
//   dg = sums over the columns of q * a      da = g * q
//
// If a bias b is added to y before the gates, dg also has the sums of dz * b.
//
//===----------------------------------------------------------------------===//
#include "ir/TensorUtils.h"
#include "passes/graph/Match.h"
#include "passes/local/CopyAttributes.h"
#include "passes/local/Partition.h"
#include "passes/local/TileExperts.h"
#include "passes/shard/ExpertRows.h"

using namespace mlir;

namespace dpc {

/// Returns `value` before reshapes and conversions between floats.
static Value strip(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<ReshapeOp>(op) && !convertsFloats(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

/// Returns the value from which collectives and conversions derive `weight`.
static Value sourceOf(Value weight) {
  while (Operation *op = weight.getDefiningOp()) {
    bool isOneGather = isa<AllGatherOp>(op) && op->getNumOperands() == 1;
    if (!isOneGather && !isa<ReshapeOp>(op) && !convertsFloats(op))
      break;
    weight = op->getOperand(0);
  }
  return weight;
}

namespace {

/// The ops of the gradients of gates and rows.
struct GatedRows {
  ReduceOp sums;           ///< dg
  ExpertMatmulOp rows;     ///< y
  ExpertMatmulOp gradient; ///< da
  Value dz, gates;
  Value bias; ///< or null
};

class GateFinder {
public:
  explicit GateFinder(Block &block) {
    for (auto product : block.getOps<ExpertMatmulOp>())
      if (splitsExperts(product))
        products.push_back(product);
  }

  bool hasProducts() const { return !products.empty(); }
  void replace(ExpertMatmulOp old, ExpertMatmulOp product) {
    llvm::replace(products, old, product);
  }

  std::optional<GatedRows> find(ReduceOp sums) const {
    auto product = strip(sums.getX()).getDefiningOp<BinaryOp>();
    if (sums.getKind() != ReduceKind::sum || !product ||
        product.getKind() != BinaryKind::mul ||
        sums.getDims() != ArrayRef<int64_t>(shapeOf(sums.getX()).size() - 1) ||
        shapeOf(product.getResult()).back() != shapeOf(sums.getX()).back())
      return std::nullopt;
    for (auto [dz, rows] : operandOrders(product)) {
      GatedRows found;
      found.sums = sums;
      found.dz = dz;
      if (setRows(found, rows) && setGradient(found))
        return found;
    }
    return std::nullopt;
  }

private:
  /// Whether `value` has the rows of a product of split experts, perhaps with
  /// a bias.
  static bool setRows(GatedRows &found, Value value) {
    value = strip(value);
    if (auto add = value.getDefiningOp<BinaryOp>();
        add && add.getKind() == BinaryKind::add)
      for (auto [rows, bias] : operandOrders(add))
        if (strip(bias).getDefiningOp<EmbeddingOp>()) {
          found.bias = bias;
          value = strip(rows);
        }
    found.rows = value.getDefiningOp<ExpertMatmulOp>();
    auto lookup = found.bias ? strip(found.bias).getDefiningOp<EmbeddingOp>()
                             : EmbeddingOp();
    int64_t sums = found.sums.getType().getNumElements();
    return found.rows && splitsExperts(found.rows) &&
           tensorType(found.rows.getIds()).getNumElements() == sums &&
           (!lookup ||
            rowIds(lookup.getIds()) == rowIds(found.rows.getIds())) &&
           tensorType(found.rows.getX()).getNumElements() ==
               sums * shapeOf(found.rows.getX()).back();
  }

  /// Finds the product of the gated gradient with the same matrices.
  bool setGradient(GatedRows &found) const {
    for (ExpertMatmulOp product : products) {
      auto gated = strip(product.getX()).getDefiningOp<BinaryOp>();
      if (!gated || gated.getKind() != BinaryKind::mul ||
          !isSamePhase(product, found.sums) ||
          product.getTb() == found.rows.getTb() ||
          rowIds(product.getIds()) != rowIds(found.rows.getIds()) ||
          product.getW().getType() != found.rows.getW().getType() ||
          sourceOf(product.getW()) != sourceOf(found.rows.getW()))
        continue;
      for (auto [dz, gates] : operandOrders(gated)) {
        auto broadcast = strip(gates).getDefiningOp<BroadcastOp>();
        if (strip(dz) != strip(found.dz) || !broadcast ||
            !isOneForRow(broadcast, found))
          continue;
        found.gradient = product;
        found.gates = broadcast.getX();
        return true;
      }
    }
    return false;
  }

  /// Whether `gates` repeats one number for each row.
  static bool isOneForRow(BroadcastOp gates, GatedRows &found) {
    int64_t rows = tensorType(found.rows.getIds()).getNumElements();
    auto repeated = rowBroadcast(gates, rows);
    return repeated && repeated->share == 1 &&
           repeated->operandRank ==
               static_cast<int64_t>(shapeOf(gates.getX()).size());
  }

  SmallVector<ExpertMatmulOp> products;
};

} // namespace

/// Returns the sums over the columns of a * b, in the type of `like`.
static Value sumOfProducts(GraphBuilder &g, Value a, Value b, ReduceOp like) {
  RankedTensorType type = like.getType();
  int64_t columns = shapeOf(a).back(), rows = type.getNumElements();
  auto asRows = [&](Value value) {
    return g.convert(g.reshape(value, {rows, columns}), type.getElementType());
  };
  Value sums = g.reduce(ReduceKind::sum, g.mul(asRows(a), asRows(b)), {1});
  return g.reshape(sums, type.getShape());
}

/// Builds the gradients before `place`. Returns q.
static ExpertMatmulOp rewrite(GatedRows &found, Operation *place) {
  ExpertMatmulOp gradient = found.gradient;
  AttributeListener listener(gradient, {attr::kPhase, attr::kChunk});
  OpBuilder builder(place);
  builder.setListener(&listener);
  GraphBuilder g(builder, gradient.getLoc());
  Value dz = g.convert(g.reshape(found.dz, shapeOf(gradient.getX())),
                       elementTypeOf(gradient.getX()));
  auto q = ExpertMatmulOp::create(
      builder, gradient.getLoc(), gradient.getType(), dz, gradient.getIds(),
      gradient.getW(), gradient.getTb(), gradient.getGlobalAttr());
  ReduceOp sums = found.sums;
  Value dg = sumOfProducts(g, q, found.rows.getX(), sums);
  if (found.bias)
    dg = g.add(dg, sumOfProducts(g, found.dz, found.bias, sums));
  ArrayRef<int64_t> ids = shapeOf(gradient.getIds());
  auto dims =
      llvm::to_vector(llvm::seq<int64_t>(0, static_cast<int64_t>(ids.size())));
  Value gates =
      g.broadcast(g.reshape(found.gates, ids), shapeOf(gradient), dims);
  Value gated = g.mul(g.convert(q, elementTypeOf(gates)), gates);
  Value rows = g.convert(gated, elementTypeOf(gradient));
  gradient.getResult().replaceAllUsesWith(rows);
  sums.getResult().replaceAllUsesWith(dg);
  gradient.erase();
  sums.erase();
  return q;
}

/// Returns the op before which q can be: before all readers of dg, and after
/// the operands. Null if there is none.
static Operation *placeOf(GatedRows &found) {
  Operation *place = found.gradient;
  for (Operation *user : found.sums->getUsers())
    if (user->isBeforeInBlock(place))
      place = user;
  for (Value value : {Value(found.gradient.getIds()), found.dz, found.gates,
                      Value(found.gradient.getW()), found.bias}) {
    Operation *op = value ? value.getDefiningOp() : nullptr;
    if (op && !op->isBeforeInBlock(place))
      return nullptr;
  }
  return place;
}

void avoidGatedRows(Block &block) {
  GateFinder finder(block);
  if (!finder.hasProducts())
    return;
  bool hasChanged = false;
  for (auto sums : llvm::make_early_inc_range(block.getOps<ReduceOp>())) {
    std::optional<GatedRows> found = finder.find(sums);
    Operation *place = found ? placeOf(*found) : nullptr;
    if (!place)
      continue;
    ExpertMatmulOp old = found->gradient;
    ExpertMatmulOp q = rewrite(*found, place);
    finder.replace(old, q);
    hasChanged = true;
  }
  while (hasChanged && eraseDeadOps(block)) {
  }
}

} // namespace dpc
