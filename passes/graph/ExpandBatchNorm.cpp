//===- ExpandBatchNorm.cpp - dpc-expand-batch-norm ------------------------===//
//
// The statistics of a micro-batch span all data-parallel ranks. With M
// micro-batches and D data-parallel ranks, the batch is split over the ranks
// first. So sample (d, m, i) of [D, M, B / (D M)] is in micro-batch m:
//
//   x [B, C, s..]  is reshaped to  [D, M, b, C, s..]   statistics are [M, C]
//
// With M = 1, x is not reshaped and statistics are [C]. With M > 1, the axis
// `mb` splits the dimension M of the statistics.
//
//===----------------------------------------------------------------------===//
#include "passes/graph/GraphBuilder.h"
#include "passes/graph/Passes.h"

using namespace mlir;

namespace dpc {
#define GEN_PASS_DEF_DPCEXPANDBATCHNORM
#include "passes/graph/Passes.h.inc"
} // namespace dpc

using namespace dpc;

namespace {

/// The mean and variance of a batch norm, one per channel. With several
/// micro-batches (the *groups*), there is one per group and channel.
struct Statistics {
  Value mean, var;
};

class Expansion {
public:
  Expansion(OpBuilder &builder, Operation *op, Value x, int64_t dataRanks,
            int64_t microBatches);

  Statistics forward(BatchNormOp op, bool keepsStatistics);
  void backward(BatchNormGradOp op, const Statistics &statistics);

private:
  /// Reshapes `x` to groups and converts it to the type of statistics.
  Value view(Value x) {
    return g.convert(g.reshape(x, grouped), statisticsElement);
  }
  Value unview(Value x, Value like) {
    return g.reshape(g.convert(x, elementTypeOf(like)), shapeOf(like));
  }
  Value sum(Value x) { return g.reduce(ReduceKind::sum, x, summed); }
  /// Repeats values per channel (or group and channel) to the shape of `view`.
  Value spread(Value perChannel) {
    bool isGrouped = shapeOf(perChannel).size() == kept.size();
    return g.broadcast(perChannel, grouped,
                       isGrouped ? ArrayRef(kept) : ArrayRef(kept).back());
  }
  Value perGroup(Value channels) {
    Value x = g.convert(channels, statisticsElement);
    if (kept.size() == 1)
      return x;
    return g.broadcast(x, {groups, shapeOf(x)[0]}, {1});
  }
  Value overGroups(Value x) {
    return kept.size() == 1 ? x : g.reduce(ReduceKind::sum, x, {0});
  }
  Value rstd(Value var, const APFloat &eps) {
    return g.unary(UnaryKind::rsqrt,
                   g.add(var, g.constantLike(var, eps.convertToDouble())));
  }

  GraphBuilder g;
  Type statisticsElement;
  int64_t groups;
  double perStatistic; ///< elements per channel and group
  SmallVector<int64_t> grouped, kept, summed;
};

} // namespace

Expansion::Expansion(OpBuilder &builder, Operation *op, Value x,
                     int64_t dataRanks, int64_t microBatches)
    : g(builder, op->getLoc()), groups(microBatches) {
  RankedTensorType type = tensorType(x);
  statisticsElement = statisticsType(type.getElementType());
  if (groups > 1) {
    if (dataRanks > 1)
      grouped.push_back(dataRanks);
    kept.push_back(grouped.size());
    grouped.append({groups, type.getDimSize(0) / (dataRanks * groups)});
  } else {
    grouped.push_back(type.getDimSize(0));
  }
  kept.push_back(grouped.size());
  llvm::append_range(grouped, type.getShape().drop_front());
  for (int64_t d = 0, e = grouped.size(); d < e; ++d)
    if (!llvm::is_contained(kept, d))
      summed.push_back(d);
  perStatistic = static_cast<double>(type.getNumElements()) /
                 static_cast<double>(type.getDimSize(1) * groups);
}

Statistics Expansion::forward(BatchNormOp op, bool keepsStatistics) {
  Value x = view(op.getX());
  Value mean = g.scale(sum(x), 1 / perStatistic);
  Value centered = g.sub(x, spread(mean));
  Value var = g.scale(sum(g.mul(centered, centered)), 1 / perStatistic);
  Value factor = g.mul(rstd(var, op.getEps()), perGroup(op.getScale()));
  Value bias = g.convert(op.getBias(), statisticsElement);
  Value y = g.add(g.mul(centered, spread(factor)), spread(bias));
  op.getY().replaceAllUsesWith(unview(y, op.getY()));
  if (keepsStatistics)
    for (auto [old, made] : {std::pair<Value, Value>(op.getMean(), mean),
                             std::pair<Value, Value>(op.getVar(), var)})
      old.replaceUsesWithIf(
          g.scale(overGroups(made), 1 / static_cast<double>(groups)),
          [](OpOperand &use) { return !isa<BatchNormGradOp>(use.getOwner()); });
  return {mean, var};
}

void Expansion::backward(BatchNormGradOp op, const Statistics &statistics) {
  Value x = view(op.getX()), dy = view(op.getDy());
  Value r = rstd(statistics.var, op.getEps());
  Value z = g.mul(g.sub(x, spread(statistics.mean)), spread(r));
  Value dbias = sum(dy), dscale = sum(g.mul(dy, z));
  Value shared = g.add(spread(g.scale(dbias, 1 / perStatistic)),
                       g.mul(z, spread(g.scale(dscale, 1 / perStatistic))));
  Value dx =
      g.mul(spread(g.mul(perGroup(op.getScale()), r)), g.sub(dy, shared));
  op.getDx().replaceAllUsesWith(unview(dx, op.getDx()));
  op.getDscale().replaceAllUsesWith(unview(overGroups(dscale), op.getDscale()));
  op.getDbias().replaceAllUsesWith(unview(overGroups(dbias), op.getDbias()));
}

bool dpc::hasBatchNorms(func::FuncOp func) {
  return !func.getOps<BatchNormOp>().empty();
}

/// Returns the values that depend on an input. Others, such as weights that a
/// model standardizes by a batch norm, have no samples to split.
static DenseSet<Value> valuesOfSamples(func::FuncOp func) {
  DenseSet<Value> found;
  for (Value argument : func.getArguments())
    if (StringRef role = roleOf(argument); role.empty() || role == role::kInput)
      found.insert(argument);
  func.walk([&](Operation *op) {
    if (llvm::any_of(op->getOperands(),
                     [&](Value operand) { return found.contains(operand); }))
      found.insert_range(op->getResults());
  });
  return found;
}

LogicalResult dpc::expandBatchNorms(func::FuncOp func, int64_t dataRanks,
                                    int64_t microBatches) {
  SmallVector<Operation *> ops;
  func.walk([&](Operation *op) {
    if (isa<BatchNormOp, BatchNormGradOp>(op))
      ops.push_back(op);
  });
  DenseMap<Value, Statistics> statistics; // key: the mean
  DenseSet<Value> ofSamples;
  if (microBatches > 1 && !ops.empty())
    ofSamples = valuesOfSamples(func);
  for (Operation *op : ops) {
    Value x = op->getOperand(0);
    int64_t batch = shapeOf(x)[0];
    bool isSplit = microBatches > 1 && ofSamples.contains(x);
    if (isSplit && batch % (dataRanks * microBatches) != 0)
      return op->emitError(
                 "batch norm computes statistics per micro-batch, so all "
                 "micro-batches must have the same size: a batch of ")
             << batch << " cannot be split into " << dataRanks << " x "
             << microBatches;
    OpBuilder builder(op);
    Operation *before = op->getPrevNode();
    Expansion expansion(builder, op, x, isSplit ? dataRanks : 1,
                        isSplit ? microBatches : 1);
    if (auto norm = dyn_cast<BatchNormOp>(op)) {
      bool keeps = llvm::any_of(op->getUsers(), [&](Operation *user) {
        return !isa<BatchNormGradOp>(user) &&
               (llvm::is_contained(user->getOperands(), norm.getMean()) ||
                llvm::is_contained(user->getOperands(), norm.getVar()));
      });
      statistics[norm.getMean()] = expansion.forward(norm, keeps);
    } else {
      auto grad = cast<BatchNormGradOp>(op);
      auto [found, isNew] = statistics.try_emplace(
          grad.getMean(), Statistics{grad.getMean(), grad.getVar()});
      if (isNew && microBatches > 1)
        return op->emitError(
            "the gradient does not read the statistics of a batch norm");
      expansion.backward(grad, found->second);
    }
    markLike(op, before);
  }
  for (Operation *op : llvm::reverse(ops))
    op->erase();
  return success();
}

namespace {
struct ExpandBatchNormPass
    : dpc::impl::DpcExpandBatchNormBase<ExpandBatchNormPass> {
  using DpcExpandBatchNormBase::DpcExpandBatchNormBase;

  void runOnOperation() override {
    if (failed(expandBatchNorms(getOperation(), dataRanks, microBatches)))
      signalPassFailure();
  }
};
} // namespace
