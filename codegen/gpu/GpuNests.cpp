//===- GpuNests.cpp - Elementwise stages ----------------------------------===//
//
// A nest becomes one line of vectors: loops over which all accesses advance
// evenly are one number, the others are told apart by divisions. Neighbouring
// threads take neighbouring vectors. A nest that reads along one dimension and
// writes along another goes through tiles, a block to each, so that the parts
// of a cache line that a warp leaves are read soon by another of its block.
//
//===----------------------------------------------------------------------===//
#include "codegen/gpu/CompilePtx.h"
#include "codegen/kernel/KernelEmitter.h"

#include <numeric>

using namespace mlir;

namespace dpc::codegen {

static constexpr int64_t kTile = 32;

static int64_t productOf(ArrayRef<int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t(1),
                         std::multiplies<>());
}

/// Of several lines that are read and written at once the assembler would spill
/// a register for more threads than the memory needs. What libdevice computes
/// (sin, pow) takes more registers by itself, which it is left.
void KernelEmitter::keepValues() {
  bool isLong = llvm::any_of(spec.op.getBody().front(), [](Operation &op) {
    auto unary = dyn_cast<UnaryOp>(op);
    auto binary = dyn_cast<BinaryOp>(op);
    return (unary && llvm::is_contained({UnaryKind::sin, UnaryKind::cos},
                                        unary.getKind())) ||
           (binary && binary.getKind() == BinaryKind::pow) ||
           llvm::any_of(op.getResultTypes(), [](Type type) {
             return cast<RankedTensorType>(type).getElementType().isF64();
           });
  });
  if (!isLong)
    function->setAttr(kKeepsManyValues, b.getUnitAttr());
}

void KernelEmitter::gridStage(int64_t elements,
                              const std::function<void()> &body) {
  int64_t vectors = elements / vectorWidth(0) + 1;
  gridTeams =
      std::clamp<int64_t>((vectors + kBlock - 1) / kBlock, 1, kMaxBlocks);
  emitStage(gridTeams, {kBlock, 1}, [&](Value number) {
    if (yields.size() > 1)
      keepValues();
    phase([&](Value thread) {
      gridTeam = number;
      blockThread = thread;
      body();
    });
  });
}

void KernelEmitter::emitElementwiseStage(ArrayRef<unsigned> results) {
  int64_t elements = 0;
  for (unsigned i : results)
    elements = std::max(elements, productOf(outputShape(i)));
  gridStage(elements, [&] { emitResults(results); });
  storedResults.append(results.begin(), results.end());
}

void KernelEmitter::emitFillStage(unsigned number, double value) {
  gridStage(productOf(outputShape(number)), [&] {
    Type type = computeTypeOf(yields[number]);
    ArrayRef<int64_t> shape = outputShape(number);
    emitGpuNest({}, outputs[number], SmallVector<int64_t>(shape.size(), 0),
                shape, [&](ArrayRef<Index>) {
                  return SmallVector<Value>{math.constant(type, value)};
                });
  });
}

void KernelEmitter::gridLoop(int64_t begin, int64_t end, const LoopBody &body) {
  if (begin >= end)
    return;
  Value first = arith::AddIOp::create(
      b, arith::MulIOp::create(b, gridTeam, constantI64(b, kBlock)),
      blockThread);
  if (begin != 0)
    first = arith::AddIOp::create(b, first, constantI64(b, begin));
  int64_t threads = gridTeams * kBlock;
  if (end - begin <= threads)
    return whenBelow(first, end, [&] { body(first); });
  stepLoop(first, constantI64(b, end), threads, {},
           [&](Value number, ValueRange) {
             body(number);
             return SmallVector<Value>();
           });
}

/// Calls `body` at all places of a box of `sizes`, in vectors of `width` along
/// its last dimension of more than one. mergesNext[d]: dimensions d and d + 1
/// advance as one.
void KernelEmitter::emitVectors(
    ArrayRef<int64_t> sizes, ArrayRef<bool> mergesNext, int64_t width,
    const std::function<void(ArrayRef<Index>)> &body) {
  int64_t rank = sizes.size(), last = rank - 1;
  while (last > 0 && sizes[last] == 1)
    --last;
  // Sizes of what is told apart, and the dimension whose loop has its number.
  SmallVector<int64_t> groups, owners;
  int64_t pending = 1;
  for (int64_t d = 0; d <= last; ++d) {
    pending *= sizes[d];
    if (d < last && (sizes[d] == 1 || (mergesNext[d] && sizes[d + 1] != 1)))
      continue;
    groups.push_back(pending);
    owners.push_back(d);
    pending = 1;
  }
  auto emitAt = [&](Value number, int64_t count) {
    SmallVector<int64_t> vectors(groups);
    if (!vectors.empty())
      vectors.back() = groups.back() / count;
    Indices parts;
    pushDims(number, vectors, parts);
    SmallVector<Value> vars(rank);
    for (auto [i, owner] : llvm::enumerate(owners))
      vars[owner] = space.var(space.numLoops() - owners.size() + i);
    popDims(vectors.size());
    if (count > 1)
      vars[last] = arith::MulIOp::create(b, vars[last], constantI64(b, count));
    Indices indices;
    for (int64_t d = 0; d < rank; ++d)
      indices.push_back(
          space.loop(space.push(sizes[d], vars[d], d == last ? count : 1)));
    storeTogether([&] {
      for (int64_t i = 0; i < count; ++i) {
        Indices own(indices);
        if (rank > 0)
          own[last] = LoopSpace::add(&b, own[last], LoopSpace::constant(i));
        body(own);
      }
    });
    popDims(rank);
  };
  int64_t total = productOf(sizes), whole = total / width * width;
  gridLoop(0, whole / width, [&](Value number) { emitAt(number, width); });
  gridLoop(whole, total, [&](Value number) { emitAt(number, 1); });
}

void KernelEmitter::emitGpuNest(ArrayRef<Value> values,
                                ArrayRef<MemoryRef> targets,
                                ArrayRef<int64_t> begin,
                                ArrayRef<int64_t> sizes,
                                const ElementsBody &elements) {
  int64_t crossed = -1;
  SmallVector<StridedView> views;
  for (const MemoryRef &target : targets)
    views.push_back(target.view);
  SmallVector<bool> merges = mergeable(values, views, begin, sizes, crossed);
  auto body = [&](ArrayRef<Index> loops) {
    Indices indices = shifted(&b, loops, begin);
    // All are computed before any is stored: results may share the memory of
    // operands.
    SmallVector<Value> computedElements = elements(indices);
    for (auto [element, target] : llvm::zip_equal(computedElements, targets))
      store(element, target, indices);
  };
  if (crossed >= 0 && sizes[crossed] >= kTile && sizes.back() >= kTile)
    return emitGpuTiles(sizes, crossed, body);
  // A line of its own may end in less than a vector; rows may not.
  int64_t line = productOf(sizes);
  for (int64_t d = 0, e = sizes.size(); d + 1 < e; ++d)
    if (sizes[d] != 1 && !(merges[d] && sizes[d + 1] != 1))
      line = productOf(sizes.drop_front(d + 1));
  int64_t width = line == productOf(sizes) && line >= kWarp ? vectorWidth(0)
                                                            : vectorWidth(line);
  emitVectors(sizes, merges, width, body);
}

void KernelEmitter::emitGpuTiles(
    ArrayRef<int64_t> sizes, int64_t crossed,
    const std::function<void(ArrayRef<Index>)> &body) {
  int64_t last = sizes.size() - 1;
  auto tilesOf = [&](int64_t d) { return (sizes[d] + kTile - 1) / kTile; };
  // Other dimensions, then the tiles of the two.
  SmallVector<int64_t> outer, places;
  for (int64_t d = 0; d < last; ++d)
    if (d != crossed) {
      outer.push_back(sizes[d]);
      places.push_back(d);
    }
  outer.push_back(tilesOf(crossed));
  outer.push_back(tilesOf(last));
  Value tile = constantI64(b, kTile);
  Value row = arith::DivUIOp::create(b, blockThread, tile);
  Value column = arith::RemUIOp::create(b, blockThread, tile);
  auto inside = [&](const Index &index, int64_t size, auto next) {
    if (size % kTile == 0)
      return next();
    whenBelow(space.materialize(b, index), size, next);
  };
  auto emitTile = [&](Value number, ValueRange) {
    Indices parts, indices(sizes.size());
    pushDims(number, outer, parts);
    for (auto [i, d] : llvm::enumerate(places))
      indices[d] = parts[i];
    Index j = space.loop(space.push(kTile, column));
    indices[last] =
        LoopSpace::add(&b, LoopSpace::scale(&b, parts.back(), kTile), j);
    for (int64_t step = 0; step < kTile; step += kBlock / kTile) {
      Value own = arith::AddIOp::create(b, row, constantI64(b, step));
      Index i = space.loop(space.push(kTile, own));
      indices[crossed] = LoopSpace::add(
          &b, LoopSpace::scale(&b, parts[parts.size() - 2], kTile), i);
      memos.emplace_back(); // the next step's loop looks the same
      inside(indices[last], sizes[last], [&] {
        inside(indices[crossed], sizes[crossed], [&] { body(indices); });
      });
      memos.pop_back();
      space.pop();
    }
    popDims(1 + outer.size());
    return SmallVector<Value>();
  };
  stepLoop(gridTeam, constantI64(b, productOf(outer)), gridTeams, {}, emitTile);
}

} // namespace dpc::codegen
