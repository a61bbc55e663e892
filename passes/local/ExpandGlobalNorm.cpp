//===- ExpandGlobalNorm.cpp - The norm of differently sharded gradients ---===//
//
// The global norm needs only one all_reduce of one scalar:
//
//   norm = sqrt(all_reduce_U( sum over A of  sum_squares(A) / |U \ A| ))
//
// Each gradient is split over a set A of mesh axes and replicated over the
// others. U is the union of all sets. sum_squares(A) sums the squares of all
// gradients with the set A. The all_reduce over U adds this sum once per rank
// along the axes U \ A, so it is divided by the number of these ranks, |U \ A|.
// In a pipeline, the stage to which a gradient belongs counts the gradient, and
// U also contains `pp`.
//
//===----------------------------------------------------------------------===//
#include "passes/graph/GraphBuilder.h"
#include "passes/local/Partition.h"
#include "passes/local/SplitStages.h"

#include <map>
#include <set>

using namespace mlir;

namespace dpc {

/// Returns the axes with more than one rank that split `spec`, ascending.
static std::vector<int64_t> splitAxes(const ShardingSpec &spec) {
  std::vector<int64_t> axes;
  for (int64_t axis = 0, e = spec.mesh.getSizes().size(); axis < e; ++axis)
    if (spec.mesh.getSizes()[axis] > 1 && spec.splitsAxis(axis))
      axes.push_back(axis);
  return axes;
}

/// Local values, grouped by the axes that split them.
using BySplit = std::map<std::vector<int64_t>, SmallVector<Value>>;

/// Returns the sum of the squares of all values, or zero without values. The
/// squares of a value are divided by the number of its replicas along the axes
/// `everyone`.
static Value sumOfSquares(GraphBuilder &g, MeshAttr mesh,
                          const BySplit &bySplit, ArrayRef<int64_t> everyone,
                          RankedTensorType type) {
  Value sum;
  for (auto &[axes, values] : bySplit) {
    double copies = static_cast<double>(productOfAxes(mesh, everyone) /
                                        productOfAxes(mesh, axes));
    Value squares = SumSquaresOp::create(g.builder, g.loc, type, values);
    if (copies != 1) // multiplying by 1 / copies would round twice
      squares = g.div(squares, g.constantLike(squares, copies));
    sum = sum ? g.add(sum, squares) : squares;
  }
  return sum ? sum : g.constant(type, 0);
}

LogicalResult Partitioner::partitionGlobalNorm(GlobalNormOp op) {
  // byStage[s] has the gradients that rank stage s counts.
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
