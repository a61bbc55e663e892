#include "passes/local/CompressTopK.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace dpc {

/// Added to positions, which are sent as int8.
static constexpr int64_t kCodeOffset = 128;

static int64_t elementsOf(Value value) {
  return tensorType(value).getNumElements();
}

BlockArgument addResidual(func::FuncOp func, StringRef of, int64_t rows) {
  Builder builder(func.getContext());
  auto mesh = func->getAttrOfType<MeshAttr>(attr::kMesh);
  SmallVector<int64_t, 2> axes;
  for (auto [i, name] : llvm::enumerate(mesh.getNames()))
    if (name.getValue() != kMicroBatchAxis && name.getValue() != kPipelineAxis)
      axes.push_back(i);
  int64_t ranks = productOfAxes(mesh, axes);
  SmallVector<int64_t> shape{ranks, rows, kCompressBlock};
  ShardingSpec spec = ShardingSpec::replicated(mesh, shape);
  spec.dims[0] = {Factor{ranks, axes}};
  auto global = getSharded(shape, builder.getF32Type(), spec.toAttr());
  // A parameter of several stages has a residual on each.
  int64_t stage = stageOf(func).value_or(0);
  int64_t taken = 0;
  for (unsigned i = 0; i < func.getNumArguments(); ++i)
    taken += func.getArgAttrOfType<StringAttr>(i, attr::kSlot) ==
                 builder.getStringAttr("residual") &&
             func.getArgAttrOfType<StringAttr>(i, attr::kOf) ==
                 builder.getStringAttr(of);
  std::string name = of.str() + ".residual";
  if (taken > 0)
    name += "." + std::to_string(taken);
  if (stage > 0)
    name += ".stage" + std::to_string(stage);
  NamedAttrList attributes;
  attributes.set(attr::kName, builder.getStringAttr(name));
  attributes.set(attr::kRole, builder.getStringAttr(role::kState));
  attributes.set(attr::kOf, builder.getStringAttr(of));
  attributes.set(attr::kSlot, builder.getStringAttr("residual"));
  attributes.set(attr::kGlobal, TypeAttr::get(global));
  unsigned last = func.getNumArguments();
  LogicalResult added = func.insertArgument(
      last, localType(global), attributes.getDictionary(func.getContext()),
      func.getLoc());
  (void)added;
  assert(succeeded(added) && "a function takes any argument");
  return func.getArgument(last);
}

void setNextResidual(func::FuncOp func, BlockArgument residual, Value next) {
  Builder builder(func.getContext());
  unsigned index = residual.getArgNumber();
  NamedAttrList attributes;
  attributes.set(attr::kName, func.getArgAttr(index, attr::kName));
  attributes.set(attr::kTies, builder.getI64IntegerAttr(index));
  attributes.set(attr::kGlobal, func.getArgAttr(index, attr::kGlobal));
  LogicalResult added =
      func.insertResult(func.getNumResults(), next.getType(),
                        attributes.getDictionary(func.getContext()));
  (void)added;
  assert(succeeded(added) && "a function takes any result");
  Operation *end = func.getBody().front().getTerminator();
  end->insertOperands(end->getNumOperands(), next);
}

TopKReduction::TopKReduction(AllReduceOp op, int64_t ranks, double share)
    : op(op), ranks(ranks),
      count(static_cast<int64_t>(std::ceil(share * kCompressBlock))) {}

int64_t TopKReduction::rows() {
  return ceilDiv(elementsOf(op.getInputs()[0]), kCompressBlock);
}

Value TopKReduction::pointsAt(GraphBuilder &g, Value index) {
  SmallVector<int64_t> shape(shapeOf(index)), dims;
  for (int64_t i = 0, e = shape.size(); i < e; ++i)
    dims.push_back(i);
  shape.push_back(kCompressBlock);
  auto type = RankedTensorType::get(shape, g.builder.getI64Type());
  Value positions =
      IotaOp::create(g.builder, g.loc, type, dims.size(), TypeAttr());
  return g.compare(CompareKind::eq, g.broadcast(index, shape, dims), positions);
}

Value TopKReduction::handOver(GraphBuilder &g, Value residual) {
  int64_t numbers = elementsOf(op.getInputs()[0]);
  Value x = g.convert(op.getInputs()[0], g.builder.getF32Type());
  x = g.reshape(x, {numbers});
  if (numbers != rows() * kCompressBlock)
    x = g.pad(x, {rows() * kCompressBlock}, {0}, {1});
  x = g.reshape(x, {rows(), kCompressBlock});
  x = g.add(x, g.reshape(residual, shapeOf(x)));
  Value isNumber = g.compare(CompareKind::eq, x, x);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Value size = g.select(isNumber, g.unary(UnaryKind::abs, x),
                        g.constantLike(x, kInfinity));
  auto picked = [&](Type type) {
    return RankedTensorType::get({rows(), count}, type);
  };
  auto largest =
      TopKOp::create(g.builder, g.loc, picked(g.builder.getF32Type()),
                     picked(g.builder.getI64Type()), size,
                     /*smallest=*/false);
  Value index = largest.getIndices();
  SmallVector<int64_t> wide{rows(), count, kCompressBlock};
  Value all = g.broadcast(x, wide, {0, 2});
  Value own =
      g.reduce(ReduceKind::sum,
               g.select(pointsAt(g, index), all, g.constantLike(all, 0)), {2});
  Value sent = g.reduce(ReduceKind::max,
                        g.select(pointsAt(g, index), g.constantLike(all, 1),
                                 g.constantLike(all, 0)),
                        {1});
  Value kept = g.select(g.compare(CompareKind::gt, sent, g.constantLike(x, 0)),
                        g.constantLike(x, 0), x);
  Value code = g.convert(g.sub(index, g.constantLike(index, kCodeOffset)),
                         g.builder.getI8Type());
  auto gather = [&](Value part) -> Value {
    auto type =
        RankedTensorType::get({ranks, rows(), count}, elementTypeOf(part));
    return AllGatherOp::create(g.builder, g.loc, type, part, op.getAxes())
        .getResult(0);
  };
  values = gather(own);
  codes = gather(code);
  return g.reshape(kept, shapeOf(residual));
}

void TopKReduction::finish(GraphBuilder &g) {
  Value result = op.getResult(0);
  RankedTensorType type = tensorType(result);
  Value index = g.convert(codes, g.builder.getI64Type());
  index = g.add(index, g.constantLike(index, kCodeOffset));
  SmallVector<int64_t> wide{ranks, rows(), count, kCompressBlock};
  Value all = g.broadcast(values, wide, {0, 1, 2});
  Value sum = g.reduce(
      ReduceKind::sum,
      g.select(pointsAt(g, index), all, g.constantLike(all, 0)), {0, 2});
  sum = g.reshape(sum, {rows() * kCompressBlock});
  if (type.getNumElements() != rows() * kCompressBlock)
    sum = g.slice(sum, {type.getNumElements()}, {0}, {1});
  result.replaceAllUsesWith(
      g.convert(g.reshape(sum, type.getShape()), type.getElementType()));
}

} // namespace dpc
