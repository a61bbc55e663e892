//===- PartitionReshard.cpp - A planned reshard as local ops --------------===//
//
// Emits the steps of a planned reshard as local ops. For each step, the value
// is reshaped to [pre, c, post] with the changed factor in the middle. Reshapes
// move no data, so every copy is a 3-D transpose.
//
//   all_gather of factor 1 of [2, 3, 5] over 4 ranks to size 10 (4*3 > 10)
//     [2, 3, 5] -gather-> [4, 2, 15] -transpose-> [2, 4, 15]
//     -reshape-> [2, 12, 5] -trim-> [2, 10, 5]
//
// Collectives number pieces in the mesh order of their axes. If the axes of a
// factor have another order, its pieces are renumbered.
//
//===----------------------------------------------------------------------===//
#include "passes/graph/GraphBuilder.h"
#include "passes/local/Partition.h"

using namespace mlir;

namespace dpc {

static SmallVector<int64_t> factorSizes(const ShardingSpec &spec) {
  SmallVector<int64_t> sizes;
  for (const DimFactors &dim : spec.dims)
    for (const Factor &factor : dim)
      sizes.push_back(localFactorSize(spec.mesh, factor.size, factor.axes));
  return sizes;
}

static SmallVector<int64_t> sorted(ArrayRef<int64_t> axes) {
  SmallVector<int64_t> result(axes);
  llvm::sort(result);
  return result;
}

ArrayAttr axisNames(MeshAttr mesh, ArrayRef<int64_t> axes) {
  SmallVector<Attribute> names;
  for (int64_t axis : sorted(axes))
    names.push_back(mesh.getNames()[axis]);
  return ArrayAttr::get(mesh.getContext(), names);
}

namespace {

class LocalEmitter {
public:
  LocalEmitter(OpBuilder &builder, Location loc, MeshAttr mesh,
               Operation *reshard)
      : builder(builder), loc(loc), g(builder, loc), mesh(mesh),
        reshardOp(reshard) {}

  /// Merges consecutive reshapes.
  Value reshape(Value value, ArrayRef<int64_t> shape) {
    return g.reshape(withoutReshapes(value), shape);
  }

  /// Emits one step. `value` has the elements of `step.before`, and the result
  /// those of `step.after`, in the same order but perhaps another shape.
  Value emit(const ReshardStep &step, Value value) {
    ArrayAttr axes = axisNames(mesh, step.axes);
    SmallVector<int64_t> sizes = factorSizes(step.before);
    SmallVector<int64_t> goal = factorSizes(step.after);
    switch (step.kind) {
    case ReshardStepKind::accumulate:
      return AccumulateOp::create(builder, loc, value.getType(), step.reduction,
                                  value);
    case ReshardStepKind::allReduce:
      value = maskForCodes(step, value);
      return marked(AllReduceOp::create(builder, loc, value.getType(),
                                        step.reduction, value, axes))
          .getResult(0);
    case ReshardStepKind::allGather: {
      value = maskForCodes(step, value);
      SmallVector<int64_t> shape{productOfAxes(mesh, step.axes)};
      llvm::append_range(shape, shapeOf(value));
      value =
          marked(AllGatherOp::create(
                     builder, loc, tensorType(value).clone(shape), value, axes))
              .getResult(0);
      return join(value, sizes, step.source, step.axes, goal[step.source]);
    }
    case ReshardStepKind::reduceScatter:
      value = split(maskForCodes(step, value), sizes, step.target, step.axes);
      return marked(ReduceScatterOp::create(
                        builder, loc,
                        tensorType(value).clone(shapeOf(value).drop_front()),
                        step.reduction, value, axes))
          .getResult(0);
    case ReshardStepKind::rankSlice:
      value = split(value, sizes, step.target, step.axes);
      return RankSliceOp::create(
          builder, loc, tensorType(value).clone(shapeOf(value).drop_front()),
          value, axes);
    case ReshardStepKind::allToAll:
      value = split(value, sizes, step.target, step.axes);
      value = AllToAllOp::create(builder, loc, value.getType(), value, axes);
      return join(value, sizes, step.source, step.axes, goal[step.source]);
    }
    llvm_unreachable("unknown step");
  }

private:
  Value transpose(Value value, ArrayRef<int64_t> perm) {
    ArrayRef<int64_t> shape = shapeOf(value);
    SmallVector<int64_t> result, order;
    for (int64_t dim : perm) {
      result.push_back(shape[dim]);
      if (shape[dim] != 1)
        order.push_back(dim);
    }
    if (llvm::is_sorted(order))
      return reshape(value, result);
    return g.transpose(value, perm);
  }

  /// Cuts dimension `dim` to `size` elements, or pads it with zeros.
  Value resize(Value value, int64_t dim, int64_t size) {
    SmallVector<int64_t> shape(shapeOf(value));
    if (shape[dim] == size)
      return value;
    bool isCut = size < shape[dim];
    shape[dim] = size;
    SmallVector<int64_t> zeros(shape.size(), 0), ones(shape.size(), 1);
    return isCut ? g.slice(value, shape, zeros, ones)
                 : g.pad(value, shape, zeros, ones);
  }

  /// Permutes the k pieces of `value`, [k, ..], from row-major order over the
  /// axes `from` to row-major order over `to`.
  Value renumber(Value value, ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
    if (from == to)
      return value;
    SmallVector<int64_t> shape(shapeOf(value)), apart, perm;
    for (int64_t axis : from)
      apart.push_back(mesh.getSizes()[axis]);
    for (int64_t axis : to)
      perm.push_back(llvm::find(from, axis) - from.begin());
    apart.push_back(llvm::product_of(ArrayRef<int64_t>(shape).drop_front()));
    perm.push_back(from.size());
    return reshape(transpose(reshape(value, apart), perm), shape);
  }

  /// Cuts the factor of size c0 at `position` into k shards of size c: [.., c0,
  /// ..] -> [k, (.., c, ..)]. The k pieces are in mesh order.
  Value split(Value value, SmallVector<int64_t> &sizes, int64_t position,
              ArrayRef<int64_t> axes) {
    int64_t pre =
        llvm::product_of(ArrayRef<int64_t>(sizes).take_front(position));
    int64_t post =
        llvm::product_of(ArrayRef<int64_t>(sizes).drop_front(position + 1));
    int64_t size = sizes[position], lead = pre;
    for (int64_t axis : axes) {
      int64_t pieces = mesh.getSizes()[axis];
      int64_t piece = ceilDiv(size, pieces);
      value = reshape(value, {lead, size, post});
      value = resize(value, 1, pieces * piece);
      lead *= pieces;
      size = piece;
    }
    sizes[position] = size;
    value = reshape(value, {pre, productOfAxes(mesh, axes), size * post});
    return renumber(transpose(value, {1, 0, 2}), axes, sorted(axes));
  }

  /// The inverse of `split`: [k, (.., c, ..)] -> [.., c0, ..].
  Value join(Value value, SmallVector<int64_t> &sizes, int64_t position,
             ArrayRef<int64_t> axes, int64_t joined) {
    int64_t pre =
        llvm::product_of(ArrayRef<int64_t>(sizes).take_front(position));
    int64_t post =
        llvm::product_of(ArrayRef<int64_t>(sizes).drop_front(position + 1));
    int64_t pieces = productOfAxes(mesh, axes);
    value = renumber(value, sorted(axes), axes);
    value = reshape(value, {pieces, pre, sizes[position] * post});
    value = transpose(value, {1, 0, 2});
    // The size before the split over each axis. Padding is trimmed from the
    // innermost split outward.
    SmallVector<int64_t> capacities{joined};
    for (int64_t axis : axes)
      capacities.push_back(ceilDiv(capacities.back(), mesh.getSizes()[axis]));
    for (size_t i = axes.size(); i-- > 0;) {
      int64_t count = mesh.getSizes()[axes[i]];
      pieces /= count;
      value = reshape(value, {pre * pieces, count * capacities[i + 1], post});
      value = resize(value, 1, capacities[i]);
    }
    sizes[position] = joined;
    return value;
  }

  template <typename Op> Op marked(Op op) {
    for (StringRef name : {attr::kCompress, attr::kOf})
      if (Attribute value = reshardOp ? reshardOp->getAttr(name) : Attribute())
        op->setAttr(name, value);
    return op;
  }

  /// Masks padding before compression, because it would change the scales.
  Value maskForCodes(const ReshardStep &step, Value value) {
    bool isCoded = reshardOp && reshardOp->hasAttr(attr::kCompress);
    if (!isCoded || !step.before.hasPadding())
      return value;
    auto element = elementTypeOf(value);
    RankedTensorType global =
        getSharded(step.before.globalShape(), element, step.before.toAttr());
    value = reshape(value, localType(global).getShape());
    return MaskOp::create(builder, loc, value.getType(), value,
                          builder.getF64FloatAttr(0), TypeAttr::get(global));
  }

  OpBuilder &builder;
  Location loc;
  GraphBuilder g;
  MeshAttr mesh;
  Operation *reshardOp;
};

} // namespace

Value Partitioner::emitSteps(ArrayRef<ReshardStep> steps, Value local,
                             Location loc, ArrayRef<int64_t> shape,
                             Operation *reshard) {
  LocalEmitter emitter(builder, loc, mesh, reshard);
  for (const ReshardStep &step : steps) {
    if (step.kind != ReshardStepKind::accumulate) {
      local = emitter.emit(step, local);
      continue;
    }
    // The accumulation is directly after the producer, so that the buffer of
    // the producer is released at once and all readers share the sum.
    Value &sum = accumulated[local];
    if (!sum) {
      OpBuilder::InsertionGuard guard(builder);
      if (Operation *producer = local.getDefiningOp())
        builder.setInsertionPointAfter(producer);
      sum = emitter.emit(step, local);
    }
    local = sum;
  }
  return emitter.reshape(local, shape);
}

LogicalResult Partitioner::partitionReshard(ReshardOp op) {
  auto source = tensorType(op.getX());
  auto type = tensorType(op.getResult());
  auto [plan, isNew] = plans.try_emplace({source, type});
  if (isNew) {
    std::string why;
    plan->second = planReshard(
        *ShardingSpec::get(source), *ShardingSpec::get(type),
        sizeInBytes(RankedTensorType::get({}, type.getElementType())), why);
    if (!plan->second)
      return op.emitError("cannot reshard ")
             << source << " to " << type << ": " << why;
  }
  mapping.map(op.getResult(),
              emitSteps(*plan->second, mapping.lookup(op.getX()), op.getLoc(),
                        localTypeOf(type).getShape(), op));
  return success();
}

} // namespace dpc
