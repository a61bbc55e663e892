//===- ExpandGlobalNorm.cpp - The norm of differently sharded gradients ---===//
//
// Each operand is split over a set A of axes and replicated over the others. U
// is the union of all sets. A sum over U counts the operand once per rank of U
// \ A, so its squares are divided by |U \ A|. Then one all_reduce of one scalar
// is enough:
//
//   norm = sqrt(all_reduce_U( sum over A of  sum_squares(A) / |U \ A| ))
//
// Operands with the same set share one sum_squares. In a pipeline, every
// gradient is counted by the stage to which it belongs, and U includes `pp`,
// which splits no operand.
//
//===----------------------------------------------------------------------===//
#include "passes/graph/GraphBuilder.h"
#include "passes/local/Partition.h"
#include "passes/local/SplitStages.h"

#include <map>
#include <set>

using namespace mlir;

namespace dpc {

/// The axes of more than one rank that split `spec`, ascending.
static std::vector<int64_t> splitAxes(const ShardingSpec &spec) {
  std::vector<int64_t> axes;
  for (int64_t axis = 0, e = spec.mesh.getSizes().size(); axis < e; ++axis)
    if (spec.mesh.getSizes()[axis] > 1 && spec.splitsAxis(axis))
      axes.push_back(axis);
  return axes;
}

/// Local values by the axes that split them.
using BySplit = std::map<std::vector<int64_t>, SmallVector<Value>>;

/// The sum of all squares, each divided by the number of ranks in `everyone`
/// that hold the value; zero without values.
static Value sumOfSquares(GraphBuilder &g, MeshAttr mesh,
                          const BySplit &bySplit, ArrayRef<int64_t> everyone,
                          RankedTensorType type) {
  Value sum;
  for (auto &[axes, values] : bySplit) {
    double copies = static_cast<double>(productOfAxes(mesh, everyone) /
                                        productOfAxes(mesh, axes));
    Value squares = SumSquaresOp::create(g.builder, g.loc, type, values);
    if (copies != 1) // a division, because 1 / 3 is not exact
      squares = g.div(squares, g.constantLike(squares, copies));
    sum = sum ? g.add(sum, squares) : squares;
  }
  return sum ? sum : g.constant(type, 0);
}

LogicalResult Partitioner::partitionGlobalNorm(GlobalNormOp op) {
  // Gradients by the rank stage that counts them.
  std::vector<BySplit> byStage(mesh.axisSize(kPipelineAxis));
  std::set<int64_t> all;
  for (Value grad : op.getGrads()) {
    auto spec = ShardingSpec::get(tensorType(grad));
    assert(spec->partial.empty() && "refused by the op's verifier");
    std::vector<int64_t> axes = splitAxes(*spec);
    for (int64_t axis : axes)
      if (mesh.getNames()[axis] == kMicroBatchAxis)
        return op.emitError("operand of type ")
               << grad.getType() << " is split over micro-batches "
               << "(not supported)";
    all.insert(axes.begin(), axes.end());
    int64_t stage = byStage.size() > 1 ? homeOf(grad).value_or(0) : 0;
    byStage[stage % byStage.size()][axes].push_back(
        spec->hasPadding() ? mask(grad, 0) : mapping.lookup(grad));
  }
  Location loc = op.getLoc();
  GraphBuilder g(builder, loc);
  SmallVector<int64_t> everyone(all.begin(), all.end());
  auto type = localType(tensorType(op.getNorm()));
  SmallVector<Value> sums;
  for (const BySplit &bySplit : byStage)
    sums.push_back(sumOfSquares(g, mesh, bySplit, everyone, type));
  Value sum = sums.front();
  if (sums.size() > 1) {
    sum = StageValueOp::create(builder, loc, type, sums);
    everyone.push_back(*mesh.findAxis(kPipelineAxis));
  }
  if (!everyone.empty())
    sum = AllReduceOp::create(builder, loc, type, ReduceKind::sum, sum,
                              axisNames(mesh, everyone))
              .getResult(0);
  mapping.map(op.getNorm(), g.unary(UnaryKind::sqrt, sum));
  return success();
}

} // namespace dpc
