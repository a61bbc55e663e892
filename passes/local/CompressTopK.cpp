#include "passes/local/CompressTopK.h"

#include "passes/graph/GraphBuilder.h"
#include "passes/local/CopyAttributes.h"

#include <cmath>

using namespace mlir;

namespace dpc {

/// Subtracted from the positions 0 .. 255 so that they fit in int8.
static constexpr int64_t kCodeOffset = 128;

static BlockArgument addResidual(func::FuncOp func, StringRef of,
                                 int64_t rows) {
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
  // If several stages have the parameter, each stage has a separate residual.
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

static void setNextResidual(func::FuncOp func, BlockArgument residual,
                            Value next) {
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

/// Returns a one-hot mask [.., k, 256] for the positions in `index`, [.., k].
static Value pointsAt(GraphBuilder &g, Value index) {
  SmallVector<int64_t> shape(shapeOf(index));
  auto dims = llvm::to_vector(llvm::seq<int64_t>(0, shape.size()));
  shape.push_back(kCompressBlock);
  auto type = RankedTensorType::get(shape, g.builder.getI64Type());
  Value positions =
      IotaOp::create(g.builder, g.loc, type, dims.size(), TypeAttr());
  return g.compare(CompareKind::eq, g.broadcast(index, shape, dims), positions);
}

void reduceLargest(func::FuncOp func, AllReduceOp op, int64_t ranks,
                   double share, StringRef of, Operation *sumAt) {
  AttributeListener listener(op);
  OpBuilder builder(op, &listener);
  GraphBuilder g(builder, op.getLoc());
  RankedTensorType type = tensorType(op.getResult(0));
  int64_t numbers = type.getNumElements();
  int64_t rows = ceilDiv(numbers, kCompressBlock);
  auto count = static_cast<int64_t>(std::ceil(share * kCompressBlock));
  BlockArgument residual = addResidual(func, of, rows);
  Value x =
      g.reshape(g.convert(op.getInputs()[0], builder.getF32Type()), {numbers});
  if (numbers != rows * kCompressBlock)
    x = g.pad(x, {rows * kCompressBlock}, {0}, {1});
  x = g.reshape(x, {rows, kCompressBlock});
  x = g.add(x, g.reshape(residual, shapeOf(x)));
  Value isNumber = g.compare(CompareKind::eq, x, x);
  Value size = g.select(isNumber, g.unary(UnaryKind::abs, x),
                        g.constantLike(x, HUGE_VAL));
  auto typed = [&](Type element) {
    return RankedTensorType::get({rows, count}, element);
  };
  Value index =
      TopKOp::create(builder, g.loc, typed(builder.getF32Type()),
                     typed(builder.getI64Type()), size, /*smallest=*/false)
          .getIndices();
  Value all = g.broadcast(x, {rows, count, kCompressBlock}, {0, 2});
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
                         builder.getI8Type());
  auto gather = [&](Value part) -> Value {
    auto gathered =
        RankedTensorType::get({ranks, rows, count}, elementTypeOf(part));
    return AllGatherOp::create(builder, g.loc, gathered, part, op.getAxes())
        .getResult(0);
  };
  Value values = gather(own), codes = gather(code);
  setNextResidual(func, residual, g.reshape(kept, shapeOf(residual)));
  builder.setInsertionPoint(sumAt);
  index = g.convert(codes, builder.getI64Type());
  index = g.add(index, g.constantLike(index, kCodeOffset));
  all = g.broadcast(values, {ranks, rows, count, kCompressBlock}, {0, 1, 2});
  Value sum = g.reduce(
      ReduceKind::sum,
      g.select(pointsAt(g, index), all, g.constantLike(all, 0)), {0, 2});
  sum = g.reshape(sum, {rows * kCompressBlock});
  if (numbers != rows * kCompressBlock)
    sum = g.slice(sum, {numbers}, {0}, {1});
  op.getResult(0).replaceAllUsesWith(
      g.convert(g.reshape(sum, type.getShape()), type.getElementType()));
  op.erase();
}

} // namespace dpc
