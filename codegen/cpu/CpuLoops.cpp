//===- CpuLoops.cpp - Kernels as loops of one thread ----------------------===//
#include "codegen/cpu/CpuLoops.h"
#include "codegen/kernel/KernelFunction.h"
#include "codegen/kernel/Nests.h"
#include "codegen/kernel/RowKernels.h"

using namespace mlir;

namespace dpc::codegen {

Values CpuLoops::rowFold(const RowFold &fold, int64_t size, Value limit,
                         const ColumnBody &body) {
  return b.spaceFold(size, fold.init(), body, limit);
}

void CpuLoops::rowLoop(int64_t size, Value limit,
                       const std::function<void(Index)> &body) {
  b.spaceLoop(size, body, limit);
}

void CpuLoops::restLoop(int64_t size, Value limit, const LoopBody &body) {
  Value rest = subI(b, constantI64(b, size), limit);
  b.forLoop(rest, [&](Value i) { body(addI(b, i, limit)); });
}

/// The side of a tile, in elements. When a nest transposes, one tile of the
/// source and one tile of the result fit in the L1 cache together.
static constexpr int64_t kTile = 32;

/// Tiles the loop `crossed` and the last loop.
static void emitTiled(ElementEmitter &b, ArrayRef<int64_t> sizes,
                      int64_t crossed, Indices &loops,
                      const std::function<void()> &body) {
  int64_t last = sizes.size() - 1;
  loops.resize(sizes.size());
  auto tiles = [&](int64_t d) {
    return llvm::divideCeilSigned(sizes[d], kTile);
  };
  auto within = [&](int64_t d, const Index &tile, auto next) {
    Value upper = constantI64(b, kTile);
    Index first = LoopSpace::scale(&b, tile, kTile);
    if (sizes[d] % kTile != 0)
      upper = minS(
          b, upper,
          subI(b, constantI64(b, sizes[d]), b.space.materialize(b, first)));
    auto visit = [&](Index i) {
      loops[d] = LoopSpace::add(&b, first, i);
      next();
    };
    b.spaceLoop(kTile, visit, upper);
  };
  std::function<void(int64_t)> open = [&](int64_t d) {
    if (d == crossed)
      return open(d + 1);
    if (d < last)
      return b.spaceLoop(sizes[d], [&](Index i) {
        loops[d] = i;
        open(d + 1);
      });
    b.spaceLoop(tiles(crossed), [&](Index row) {
      b.spaceLoop(tiles(last), [&](Index column) {
        within(crossed, row, [&] { within(last, column, body); });
      });
    });
  };
  open(0);
}

void CpuLoops::nest(const Nest &nest, const ElementsBody &elements) {
  ArrayRef<int64_t> sizes = nest.sizes;
  auto [merges, crossed] = analyzeNest(nest, b.spec.inputs);
  Indices loops;
  auto body = [&] {
    Indices indices = shifted(&b, loops, nest.begin);
    Values computed = elements(indices);
    for (auto [element, target] : llvm::zip_equal(computed, nest.targets))
      b.store(element, target, indices);
  };
  if (crossed >= 0 && sizes[crossed] >= 2 * kTile && sizes.back() >= 2 * kTile)
    return emitTiled(b, sizes, crossed, loops, body);
  // `pending` is the size of all outer loops that are merged into loop d.
  std::function<void(unsigned, int64_t)> open =
      [&, &merges = merges](unsigned d, int64_t pending) {
        if (d == sizes.size())
          return body();
        auto enter = [&](Value var, int64_t next) {
          int64_t loop = b.space.push(sizes[d], var);
          loops.push_back(b.space.loop(loop));
          open(d + 1, next);
          loops.pop_back();
          b.space.pop();
        };
        if (d + 1 < sizes.size() && merges[d])
          return enter({}, pending * sizes[d]);
        b.forLoop(constantI64(b, pending * sizes[d]),
                  [&](Value i) { enter(i, 1); });
      };
  open(0, 1);
}

static void emitRows(ElementEmitter &b, Operation *rowOp) {
  // dscale and dbias are sums over rows. They start at 0.
  if (auto grad = dyn_cast<NormGradOp>(rowOp))
    for (auto [value, target] : llvm::zip_equal(b.yields, b.arguments.outputs))
      if (value == grad.getDscale() || value == grad.getDbias())
        fill(b, target, computeTypeOf(value), 0);
  Indices row;
  b.spaceLoops(shapeOf(rowOp->getOperand(0)).drop_back(), row,
               [&] { emitRow(b, rowOp, row); });
}

EmittedKernel emitForCpu(ElementEmitter &b) {
  func::FuncOp impl =
      createFunction(b, b.symbol + "_impl", /*hasScratch=*/false);
  emitEntry(b, impl, b.symbol);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(impl.addEntryBlock());
  bindArguments(b, impl, /*hasScratch=*/false);
  b.resetScopes();
  CpuLoops loops(b);
  b.loops = &loops;
  if (Operation *rowOp = findRowOp(b.spec.op))
    emitRows(b, rowOp);
  else if (llvm::any_of(b.body(),
                        [](Operation &op) { return isReduction(&op); }))
    emitReductions(b);
  else
    emitResults(b, llvm::to_vector(llvm::seq<unsigned>(b.yields.size())));
  func::ReturnOp::create(b);
  annotateLoops(b, impl);
  return {{{b.symbol, {}}}};
}

} // namespace dpc::codegen
