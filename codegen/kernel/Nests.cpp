//===- Nests.cpp - Elementwise loop nests ---------------------------------===//
#include "codegen/kernel/Nests.h"

#include <set>

using namespace mlir;

namespace dpc::codegen {

namespace {

/// Finds adjacent loops that can be merged, by following values back to loads.
/// Two loops can be merged if every access is linear over both and no op
/// depends on the index of one of them.
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
  SmallVector<bool> merges;
  int64_t crossed = -1;

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

void FlattenAnalysis::access(const StridedView &view, ArrayRef<Index> indices) {
  Index linear =
      LoopSpace::linearize(nullptr, indices, view.strides, view.offset);
  linear.coefs.resize(sizes.size(), 0);
  if (!sizes.empty() && std::abs(linear.coefs.back()) > 1)
    for (size_t d = 0; d + 1 < sizes.size(); ++d)
      if (linear.coefs[d] == 1)
        crossed = d;
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
  // All other ops use the index of each dimension, which prevents a merge.
  for (const Index &index : indices)
    inspect(index);
}

Indices shifted(ImplicitLocOpBuilder *b, ArrayRef<Index> indices,
                ArrayRef<int64_t> begin) {
  Indices result;
  for (auto [index, offset] : llvm::zip_equal(indices, begin))
    result.push_back(LoopSpace::shift(index, offset));
  return result;
}

NestLoops analyzeNest(const Nest &nest, ArrayRef<StridedView> inputs) {
  FlattenAnalysis analysis(nest.sizes);
  Indices indices;
  for (int64_t d = 0, e = nest.sizes.size(); d < e; ++d)
    indices.push_back(analysis.space.loop(d));
  indices = shifted(nullptr, indices, nest.begin);
  for (auto [value, target] : llvm::zip(nest.values, nest.targets)) {
    analysis.visit(value, indices, inputs);
    analysis.access(target.view, indices);
  }
  return {analysis.merges, analysis.crossed};
}

static void emitNest(ElementEmitter &b, ArrayRef<unsigned> results,
                     ArrayRef<int64_t> begin, ArrayRef<int64_t> sizes) {
  Values values;
  SmallVector<MemoryRef> targets;
  for (unsigned r : results) {
    values.push_back(b.yields[r]);
    targets.push_back(b.arguments.outputs[r]);
  }
  b.loops->nest({values, targets, begin, sizes}, [&](ArrayRef<Index> indices) {
    Values elements;
    for (Value value : values)
      elements.push_back(b.at(value, indices));
    return elements;
  });
}

/// Adds the positions along `dim` at which an op switches between operands.
/// Between two of these cuts, the operand is known and needs no select.
static void addCuts(Operation &op, int64_t dim, ArrayRef<int64_t> shape,
                    std::set<int64_t> &cuts) {
  if (op.getNumResults() == 0 || shapeOf(op.getResult(0)) != shape)
    return;
  if (auto rope = dyn_cast<RopeOp>(op)) {
    if (dim + 1 == static_cast<int64_t>(shape.size()))
      cuts.insert(shape.back() / 2);
  } else if (auto pad = dyn_cast<PadOp>(op)) {
    if (pad.getStrides()[dim] == 1) {
      cuts.insert(pad.getLow()[dim]);
      cuts.insert(pad.getLow()[dim] + shapeOf(pad.getX())[dim]);
    }
  } else if (auto concat = dyn_cast<ConcatOp>(op)) {
    int64_t end = 0;
    if (concat.getDim() == static_cast<uint64_t>(dim))
      for (Value part : concat.getParts())
        cuts.insert(end += shapeOf(part)[dim]);
  }
}

/// With more boxes than this, their code is longer than the selects it saves.
static constexpr int64_t kMaxPieces = 12;

void emitCut(ElementEmitter &b, ArrayRef<unsigned> results) {
  ArrayRef<int64_t> shape = shapeOf(b.yields[results.front()]);
  SmallVector<SmallVector<int64_t>> bounds;
  int64_t pieces = 1;
  for (int64_t d = 0, e = shape.size(); d < e; ++d) {
    std::set<int64_t> cuts{0, shape[d]};
    for (Operation &op : b.body())
      addCuts(op, d, shape, cuts);
    int64_t count = cuts.size() - 1;
    if (pieces * count > kMaxPieces || count < 1)
      cuts = {0, shape[d]};
    else
      pieces *= count;
    bounds.emplace_back(cuts.begin(), cuts.end());
  }
  SmallVector<int64_t> begin, sizes;
  std::function<void(unsigned)> visit = [&](unsigned d) {
    if (d == shape.size())
      return emitNest(b, results, begin, sizes);
    for (size_t i = 0; i + 1 < bounds[d].size(); ++i) {
      begin.push_back(bounds[d][i]);
      sizes.push_back(bounds[d][i + 1] - bounds[d][i]);
      visit(d + 1);
      begin.pop_back();
      sizes.pop_back();
    }
  };
  visit(0);
}

void fill(ElementEmitter &b, const MemoryRef &target, Type elementType,
          double value) {
  Indices indices;
  b.spaceLoops(target.view.shape, indices, [&] {
    b.store(b.math.constant(elementType, value), target, indices);
  });
}

// Writes concatenations and pads box by box. All elements of a box come from
// one operand, so no code chooses an operand per element.
static void emitBox(ElementEmitter &b, Value value, const MemoryRef &target) {
  ArrayRef<int64_t> shape = shapeOf(value);
  SmallVector<int64_t> zeros(shape.size(), 0), ones(shape.size(), 1);
  Operation *op = value.getDefiningOp();
  if (auto concat = dyn_cast_or_null<ConcatOp>(op)) {
    SmallVector<int64_t> begin(zeros);
    for (Value part : concat.getParts()) {
      emitBox(b, part,
              {target.pointer, target.view.slice(begin, ones, shapeOf(part)),
               target.element});
      begin[concat.getDim()] += shapeOf(part)[concat.getDim()];
    }
    return;
  }
  if (auto pad = dyn_cast_or_null<PadOp>(op); pad && !b.isForGpu()) {
    fill(b, target, computeTypeOf(value), 0);
    return emitBox(
        b, pad.getX(),
        {target.pointer,
         target.view.slice(pad.getLow(), pad.getStrides(), shapeOf(pad.getX())),
         target.element});
  }
  if (b.isForGpu())
    return b.loops->nest(
        {value, target, zeros, shape},
        [&](ArrayRef<Index> indices) { return Values{b.at(value, indices)}; });
  Indices indices;
  b.spaceLoops(shape, indices,
               [&] { b.store(b.at(value, indices), target, indices); });
}

/// On a GPU, a stage writes its boxes concurrently. The boxes of a pad overlap,
/// so pads are written by boxes only on a CPU.
static bool isWrittenByBoxes(Value value, bool onGpu) {
  Operation *op = value.getDefiningOp();
  return isa_and_nonnull<ConcatOp>(op) ||
         (!onGpu && isa_and_nonnull<PadOp>(op));
}

void emitResults(ElementEmitter &b, ArrayRef<unsigned> results) {
  SmallVector<SmallVector<unsigned>> groups;
  for (unsigned i : results) {
    Value value = b.yields[i];
    if (isWrittenByBoxes(value, b.isForGpu())) {
      emitBox(b, value, b.arguments.outputs[i]);
      continue;
    }
    auto same = llvm::find_if(groups, [&](auto &group) {
      return shapeOf(b.yields[group.front()]) == shapeOf(value);
    });
    if (same == groups.end())
      groups.push_back({i});
    else
      same->push_back(i);
  }
  for (ArrayRef<unsigned> group : groups)
    emitCut(b, group);
}

} // namespace dpc::codegen
