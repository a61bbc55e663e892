//===- GpuNests.cpp - Elementwise stages ----------------------------------===//
//
// Threads compute a nest in vectors; adjacent threads take adjacent vectors.
// Two loops are merged if every access is linear over both; divisions find the
// indices of all other loops. A nest that reads along one dimension and writes
// along another is divided into tiles, one per block. If a warp uses only a
// part of a cache line, another warp of the block soon reads the other parts.
//
//===----------------------------------------------------------------------===//
#include "codegen/gpu/GpuKernel.h"
#include "codegen/kernel/Nests.h"

using namespace mlir;

namespace dpc::codegen {

static constexpr int64_t kTile = 32;

static void gridStage(GpuKernel &k, int64_t elements,
                      const std::function<void()> &body) {
  int64_t vectors = elements / vectorWidth(k.b.spec, 0) + 1;
  int64_t teams = std::clamp<int64_t>(llvm::divideCeilSigned(vectors, kBlock),
                                      1, kMaxBlocks);
  emitStage(k, teams, {kBlock, 1}, [&](Value number) {
    if (k.b.yields.size() > 1)
      keepValues(k);
    k.threads.phase([&](Value thread) {
      k.threads.grid = {number, thread, teams};
      body();
    });
  });
}

void emitElementwiseStage(GpuKernel &k, ArrayRef<unsigned> results) {
  int64_t elements = 0;
  for (unsigned i : results)
    elements = std::max(elements, llvm::product_of(shapeOf(k.b.yields[i])));
  gridStage(k, elements, [&] { emitResults(k.b, results); });
  k.storedResults.append(results.begin(), results.end());
}

void emitFillStage(GpuKernel &k, unsigned number, double value) {
  ElementEmitter &b = k.b;
  ArrayRef<int64_t> shape = shapeOf(b.yields[number]);
  gridStage(k, llvm::product_of(shape), [&] {
    Type type = computeTypeOf(b.yields[number]);
    SmallVector<int64_t> zeros(shape.size(), 0);
    k.threads.nest(
        {{}, b.arguments.outputs[number], zeros, shape},
        [&](ArrayRef<Index>) { return Values{b.math.constant(type, value)}; });
  });
}

static void gridLoop(KernelBuilder &b, const GridThread &grid, int64_t begin,
                     int64_t end, const LoopBody &body) {
  if (begin >= end)
    return;
  Value first = addI(b, mulI(b, grid.team, kBlock), grid.thread);
  if (begin != 0)
    first = addI(b, first, begin);
  int64_t threads = grid.teams * kBlock;
  if (end - begin <= threads)
    return b.whenBelow(first, end, [&] { body(first); });
  b.stepLoop(first, constantI64(b, end), threads, body);
}

/// Calls `body` for all indices of a box with `sizes`, in vectors of `width`
/// elements along the last dimension larger than 1. If mergesNext[d], one loop
/// runs over dimensions d and d + 1.
static void emitVectors(ElementEmitter &b, GpuThreads &threads,
                        ArrayRef<int64_t> sizes, ArrayRef<bool> mergesNext,
                        int64_t width,
                        const std::function<void(ArrayRef<Index>)> &body) {
  int64_t rank = sizes.size(), last = rank - 1;
  while (last > 0 && sizes[last] == 1)
    --last;
  // The sizes of the merged loops, and the dimensions that get their variables.
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
    b.pushDims(number, vectors, parts);
    Values vars(rank);
    for (auto [i, owner] : llvm::enumerate(owners))
      vars[owner] = b.space.var(b.space.numLoops() - owners.size() + i);
    b.popDims(vectors.size());
    if (count > 1)
      vars[last] = mulI(b, vars[last], count);
    Indices indices;
    for (int64_t d = 0; d < rank; ++d)
      indices.push_back(
          b.space.loop(b.space.push(sizes[d], vars[d], d == last ? count : 1)));
    threads.storeTogether([&] {
      for (int64_t i = 0; i < count; ++i) {
        Indices own(indices);
        if (rank > 0)
          own[last] = LoopSpace::shift(own[last], i);
        body(own);
      }
    });
    b.popDims(rank);
  };
  int64_t total = llvm::product_of(sizes), whole = total / width * width;
  gridLoop(b, threads.grid, 0, whole / width,
           [&](Value number) { emitAt(number, width); });
  gridLoop(b, threads.grid, whole, total,
           [&](Value number) { emitAt(number, 1); });
}

static void emitTiles(KernelBuilder &b, const GridThread &grid,
                      ArrayRef<int64_t> sizes, int64_t crossed,
                      const std::function<void(ArrayRef<Index>)> &body) {
  int64_t last = sizes.size() - 1;
  auto tilesOf = [&](int64_t d) {
    return llvm::divideCeilSigned(sizes[d], kTile);
  };
  // `outer` contains the sizes of the untiled dimensions, which are listed in
  // `places`, then the numbers of tiles along the two tiled dimensions.
  SmallVector<int64_t> outer, places;
  for (int64_t d = 0; d < last; ++d)
    if (d != crossed) {
      outer.push_back(sizes[d]);
      places.push_back(d);
    }
  outer.push_back(tilesOf(crossed));
  outer.push_back(tilesOf(last));
  Value tile = constantI64(b, kTile);
  Value row = divU(b, grid.thread, tile);
  Value column = remU(b, grid.thread, tile);
  auto inside = [&](const Index &index, int64_t size, auto next) {
    if (size % kTile == 0)
      return next();
    b.whenBelow(b.space.materialize(b, index), size, next);
  };
  auto emitTile = [&](Value number) {
    Indices parts, indices(sizes.size());
    b.pushDims(number, outer, parts);
    for (auto [i, d] : llvm::enumerate(places))
      indices[d] = parts[i];
    Index j = b.space.loop(b.space.push(kTile, column));
    indices[last] =
        LoopSpace::add(&b, LoopSpace::scale(&b, parts.back(), kTile), j);
    for (int64_t step = 0; step < kTile; step += kBlock / kTile) {
      Value own = addI(b, row, step);
      Index i = b.space.loop(b.space.push(kTile, own));
      indices[crossed] = LoopSpace::add(
          &b, LoopSpace::scale(&b, parts[parts.size() - 2], kTile), i);
      // The loops of all steps have the same number in `space`, so each step
      // needs a scope: elements of earlier steps must not be recalled.
      b.openScope();
      inside(indices[last], sizes[last], [&] {
        inside(indices[crossed], sizes[crossed], [&] { body(indices); });
      });
      b.closeScope();
      b.space.pop();
    }
    b.popDims(1 + outer.size());
  };
  b.stepLoop(grid.team, constantI64(b, llvm::product_of(outer)), grid.teams,
             emitTile);
}

void GpuThreads::nest(const Nest &nest, const ElementsBody &elements) {
  ArrayRef<int64_t> sizes = nest.sizes;
  auto [merges, crossed] = analyzeNest(nest, b.spec.inputs);
  auto body = [&](ArrayRef<Index> loops) {
    Indices indices = shifted(&b, loops, nest.begin);
    Values computed = elements(indices);
    for (auto [element, target] : llvm::zip_equal(computed, nest.targets))
      b.store(element, target, indices);
  };
  if (crossed >= 0 && sizes[crossed] >= kTile && sizes.back() >= kTile)
    return emitTiles(b, grid, sizes, crossed, body);
  // The number of iterations of the innermost merged loop. The vector width
  // must divide this number unless all loops are merged into one. In that case,
  // the elements after the last whole vector are computed one by one.
  int64_t line = llvm::product_of(sizes);
  for (int64_t d = 0, e = sizes.size(); d + 1 < e; ++d)
    if (sizes[d] != 1 && !(merges[d] && sizes[d + 1] != 1))
      line = llvm::product_of(sizes.drop_front(d + 1));
  bool isOneLine = line == llvm::product_of(sizes) && line >= kWarp;
  int64_t width = vectorWidth(b.spec, isOneLine ? 0 : line);
  emitVectors(b, *this, sizes, merges, width, body);
}

} // namespace dpc::codegen
