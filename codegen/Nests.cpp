//===- Nests.cpp - Elementwise loop nests ---------------------------------===//
#include "codegen/KernelEmitter.h"

using namespace mlir;

namespace dpc::codegen {

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}
static Type elementOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getElementType();
}

//===----------------------------------------------------------------------===//
// Which neighbouring loops may become one
//===----------------------------------------------------------------------===//

namespace {

/// Follows a value back to memory, noting how indices are used: every access
/// must advance evenly over a pair of loops, and no op may look at either.
class FlattenAnalysis {
public:
  explicit FlattenAnalysis(ArrayRef<int64_t> sizes)
      : merges(sizes.size(), true), sizes(sizes) {
    for (int64_t size : sizes)
      space.push(size, {});
  }

  void visit(Value value, ArrayRef<Index> indices,
             ArrayRef<StridedView> inputs);
  void access(const StridedView &view, ArrayRef<Index> indices);
  LoopSpace space;
  /// merges[d]: loops d and d + 1 may become one.
  SmallVector<bool> merges;

private:
  void inspect(const Index &index);
  ArrayRef<int64_t> sizes;
  DenseMap<Value, SmallVector<Indices, 1>> visited;
};

} // namespace

void FlattenAnalysis::inspect(const Index &index) {
  for (auto [d, c] : llvm::enumerate(index.coefs)) {
    if (c == 0)
      continue;
    merges[d] = false;
    if (d > 0)
      merges[d - 1] = false;
  }
}

void FlattenAnalysis::access(const StridedView &view,
                             ArrayRef<Index> indices) {
  Index linear =
      LoopSpace::linearize(nullptr, indices, view.strides, view.offset);
  linear.coefs.resize(sizes.size(), 0);
  for (size_t d = 0; d + 1 < sizes.size(); ++d)
    if (sizes[d] != 1 && linear.coefs[d] != sizes[d + 1] * linear.coefs[d + 1])
      merges[d] = false;
}

void FlattenAnalysis::visit(Value value, ArrayRef<Index> indices,
                            ArrayRef<StridedView> inputs) {
  auto &seen = visited[value];
  if (llvm::is_contained(seen, Indices(indices)))
    return;
  seen.push_back(Indices(indices));
  if (auto argument = dyn_cast<BlockArgument>(value))
    return access(inputs[argument.getArgNumber()], indices);
  Operation *op = value.getDefiningOp();
  if (auto moved = movedIndices(nullptr, space, op, indices)) {
    if (llvm::any_of(*moved, [](const Index &i) { return i.isOpaque; }))
      for (const Index &index : indices)
        inspect(index);
    return visit(op->getOperand(0), *moved, inputs);
  }
  if (auto constant = dyn_cast<ConstantOp>(op)) {
    if (!cast<DenseElementsAttr>(constant.getValue()).isSplat())
      access(StridedView::dense(shapeOf(value)), indices);
    return;
  }
  if (isa<UnaryOp, BinaryOp, CompareOp, SelectOp, ConvertOp>(op)) {
    for (Value operand : op->getOperands())
      visit(operand, indices, inputs);
    return;
  }
  if (isa<AdamWOp, SgdOp>(op)) {
    for (Value operand : op->getOperands())
      if (operand.getType() == op->getOperand(0).getType() ||
          shapeOf(operand).size() == indices.size())
        visit(operand, indices, inputs);
    return;
  }
  // Everything else looks at its indices.
  for (const Index &index : indices)
    inspect(index);
}

SmallVector<bool> KernelEmitter::mergeable(ArrayRef<Value> values,
                                           ArrayRef<StridedView> targets,
                                           ArrayRef<int64_t> sizes,
                                           int64_t lastBegin) {
  FlattenAnalysis analysis(sizes);
  Indices indices;
  for (auto [d, size] : llvm::enumerate(sizes))
    indices.push_back(analysis.space.loop(d));
  if (lastBegin != 0)
    indices.back() = LoopSpace::add(nullptr, indices.back(),
                                    LoopSpace::constant(lastBegin));
  for (auto [value, target] : llvm::zip_equal(values, targets)) {
    analysis.visit(value, indices, spec.inputs);
    analysis.access(target, indices);
  }
  return analysis.merges;
}

//===----------------------------------------------------------------------===//
// Emission
//===----------------------------------------------------------------------===//

void KernelEmitter::emitNest(ArrayRef<unsigned> results, int64_t lastBegin,
                             int64_t lastSize) {
  SmallVector<int64_t> sizes(shapeOf(yields[results[0]]));
  if (!sizes.empty())
    sizes.back() = lastSize;
  SmallVector<Value> values;
  SmallVector<StridedView> targets;
  for (unsigned r : results) {
    values.push_back(yields[r]);
    targets.push_back(outputs[r].view);
  }
  SmallVector<bool> merges = mergeable(values, targets, sizes, lastBegin);
  Indices indices;
  std::function<void(unsigned, int64_t)> open = [&](unsigned d,
                                                    int64_t pending) {
    if (d == sizes.size()) {
      Indices shifted(indices);
      if (lastBegin != 0)
        shifted.back() = LoopSpace::add(&b, shifted.back(),
                                        LoopSpace::constant(lastBegin));
      // All are computed before any is stored: results may share the memory
      // of operands.
      SmallVector<Value> elements;
      for (Value value : values)
        elements.push_back(at(value, shifted));
      for (auto [element, r] : llvm::zip_equal(elements, results))
        store(element, outputs[r], shifted);
      return;
    }
    if (d + 1 < sizes.size() && merges[d]) {
      int64_t loop = space.push(sizes[d], {});
      indices.push_back(space.loop(loop));
      open(d + 1, pending * sizes[d]);
      indices.pop_back();
      space.pop();
      return;
    }
    foldLoop(constantI64(b, pending * sizes[d]), {}, [&](Value i, ValueRange) {
      int64_t loop = space.push(sizes[d], i);
      indices.push_back(space.loop(loop));
      open(d + 1, 1);
      indices.pop_back();
      space.pop();
      return SmallVector<Value>();
    });
  };
  open(0, 1);
}

void KernelEmitter::fill(const MemoryRef &target, Type elementType,
                         double value) {
  Indices indices;
  spaceLoops(target.view.shape, indices, [&] {
    store(math.constant(elementType, value), target, indices);
  });
}

// Joins and pads write box by box instead of choosing per element.
void KernelEmitter::emitBox(Value value, const MemoryRef &target) {
  ArrayRef<int64_t> shape = shapeOf(value);
  SmallVector<int64_t> zeros(shape.size(), 0), ones(shape.size(), 1);
  Operation *op = value.getDefiningOp();
  if (auto concat = dyn_cast_or_null<ConcatOp>(op)) {
    SmallVector<int64_t> begin(zeros);
    for (Value part : concat.getParts()) {
      emitBox(part, {target.pointer,
                     target.view.slice(begin, ones, shapeOf(part))});
      begin[concat.getDim()] += shapeOf(part)[concat.getDim()];
    }
    return;
  }
  if (auto pad = dyn_cast_or_null<PadOp>(op)) {
    fill(target, elementOf(value), 0);
    return emitBox(pad.getX(), {target.pointer,
                                target.view.slice(pad.getLow(),
                                                  pad.getStrides(),
                                                  shapeOf(pad.getX()))});
  }
  Indices indices;
  spaceLoops(shape, indices,
             [&] { store(at(value, indices), target, indices); });
}

LogicalResult KernelEmitter::emitElementwise() {
  SmallVector<SmallVector<unsigned>> groups;
  for (auto [i, value] : llvm::enumerate(yields)) {
    if (isa_and_nonnull<ConcatOp, PadOp>(value.getDefiningOp())) {
      emitBox(value, outputs[i]);
      continue;
    }
    auto same = llvm::find_if(groups, [&, v = value](auto &group) {
      return shapeOf(yields[group.front()]) == shapeOf(v);
    });
    if (same == groups.end())
      groups.push_back({unsigned(i)});
    else
      same->push_back(i);
  }
  // A rope reads the other half of its row: one nest per half.
  int64_t ropeSize = 0;
  for (Operation &op : spec.op.getBody().front())
    if (auto rope = dyn_cast<RopeOp>(op))
      ropeSize = shapeOf(rope.getX()).back();
  for (ArrayRef<unsigned> group : groups) {
    ArrayRef<int64_t> shape = shapeOf(yields[group.front()]);
    int64_t last = shape.empty() ? 1 : shape.back();
    if (ropeSize == 0 || last != ropeSize) {
      emitNest(group, 0, last);
      continue;
    }
    emitNest(group, 0, last / 2);
    emitNest(group, last / 2, last / 2);
  }
  return success();
}

} // namespace dpc::codegen
