//===- ExpandHierarchy.cpp - dpc-expand-hierarchy -------------------------===//
//
// Expands an all_reduce over ranks on several nodes with n ranks per node:
//
//   [x0, x1, ..] -> concatenated and padded to [n, c]
//     reduce_scatter inside each node -> [c], the sum over the node
//     all_reduce between nodes        -> [c], the sum over all nodes
//     all_gather inside each node     -> [n, c] -> [x0, x1, ..]
//
// Only 1 / n of the bytes leave a node. All ranks get bitwise equal results,
// because each part of the sum is computed in the same order on all nodes, by
// one rank per node, and copied to the other ranks.
//
//===----------------------------------------------------------------------===//
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/graph/GraphBuilder.h"
#include "passes/local/CopyAttributes.h"
#include "passes/local/Partition.h"
#include "passes/local/Passes.h"

using namespace mlir;

namespace dpc {

#define GEN_PASS_DEF_DPCEXPANDHIERARCHY
#include "passes/local/Passes.h.inc"

namespace {

int64_t elementsOf(Value value) { return tensorType(value).getNumElements(); }

/// Concatenates `values` and pads them with zeros to [pieces, ..].
Value stack(GraphBuilder &g, ValueRange values, int64_t pieces) {
  SmallVector<Value> flat;
  int64_t count = 0;
  for (Value value : values) {
    flat.push_back(g.reshape(value, {elementsOf(value)}));
    count += elementsOf(value);
  }
  Value x = flat.front();
  Type element = elementTypeOf(x);
  if (flat.size() > 1)
    x = ConcatOp::create(g.builder, g.loc,
                         RankedTensorType::get({count}, element), flat, 0);
  int64_t each = ceilDiv(count, pieces);
  if (each * pieces != count)
    x = g.pad(x, {each * pieces}, {0}, {1});
  return g.reshape(x, {pieces, each});
}

void expand(AllReduceOp op, ArrayAttr inner, MeshAttr mesh) {
  op->removeAttr(attr::kInner);
  AttributeListener listener(op);
  OpBuilder builder(op, &listener);
  GraphBuilder g(builder, op.getLoc());
  int64_t pieces = 1;
  SmallVector<Attribute> across;
  for (Attribute axis : op.getAxes())
    if (llvm::is_contained(inner, axis))
      pieces *= mesh.axisSize(cast<StringAttr>(axis).getValue());
    else
      across.push_back(axis);
  Value x = stack(g, op.getInputs(), pieces);
  RankedTensorType whole = tensorType(x);
  auto piece = RankedTensorType::get(whole.getShape().drop_front(),
                                     whole.getElementType());
  x = ReduceScatterOp::create(builder, op.getLoc(), piece, op.getKind(), x,
                              inner)
          .getResult(0);
  x = AllReduceOp::create(builder, op.getLoc(), piece, op.getKind(), x,
                          builder.getArrayAttr(across))
          .getResult(0);
  x = AllGatherOp::create(builder, op.getLoc(), whole, x, inner).getResult(0);
  x = g.reshape(x, {whole.getNumElements()});
  int64_t first = 0;
  for (Value result : op.getResults()) {
    int64_t count = elementsOf(result);
    Value own = x;
    if (count != whole.getNumElements())
      own = g.slice(x, {count}, {first}, {1});
    first += count;
    result.replaceAllUsesWith(g.reshape(own, shapeOf(result)));
  }
  op.erase();
}

struct ExpandHierarchyPass : impl::DpcExpandHierarchyBase<ExpandHierarchyPass> {
  void runOnOperation() override {
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      auto mesh = func->getAttrOfType<MeshAttr>(attr::kMesh);
      func.walk([&](AllReduceOp op) {
        if (auto inner = op->getAttrOfType<ArrayAttr>(attr::kInner))
          expand(op, inner, mesh);
      });
    }
  }
};

} // namespace
} // namespace dpc
