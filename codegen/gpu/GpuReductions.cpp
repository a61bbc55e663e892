//===- GpuReductions.cpp - Stages of row ops and of reductions ------------===//
#include "codegen/gpu/SplitReduction.h"
#include "codegen/kernel/RowKernels.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace dpc::codegen {

static int64_t countOf(Value value) {
  return tensorType(value).getNumElements();
}

/// Returns the sums over rows that the kernel yields for the gradient of a
/// norm: dscale = sum(dy h) and dbias = sum(dy), with h = (x - mean) rstd.
static std::optional<SplitReduction> columnReduction(ElementEmitter &b,
                                                     NormGradOp op) {
  SplitReduction reduction;
  llvm::append_range(reduction.shape, shapeOf(op.getX()));
  for (int64_t d = 0, e = reduction.shape.size(); d + 1 < e; ++d)
    reduction.dims.push_back(d);
  Type type = computeTypeOf(op.getX());
  bool layer = op.getKind() == NormKind::layer;
  auto add = [&](Value value, auto element) {
    for (auto [i, yield] : llvm::enumerate(b.yields))
      if (yield == value)
        reduction.terms.push_back(
            {.type = type, .result = unsigned(i), .element = element});
  };
  add(op.getDscale(), [=, &b](ArrayRef<Index> indices) mutable -> Value {
    ArrayRef<Index> row = indices.drop_back();
    Value x = b.at(op.getX(), indices);
    if (layer)
      x = b.math.sub(x, b.at(op.getMean(), row));
    return b.math.mul(b.at(op.getDy(), indices),
                      b.math.mul(x, b.at(op.getRstd(), row)));
  });
  add(op.getDbias(), [=, &b](ArrayRef<Index> indices) mutable -> Value {
    return b.at(op.getDy(), indices);
  });
  if (reduction.terms.empty())
    return std::nullopt;
  return reduction;
}

static void emitRowStage(GpuKernel &k, Operation *rowOp) {
  ElementEmitter &b = k.b;
  ArrayRef<int64_t> shape = shapeOf(rowOp->getOperand(0));
  int64_t rows = llvm::product_of(shape.drop_back());
  TeamShape team = teamFor(shape.back(), vectorWidth(b.spec, shape.back()));
  if (isSerial(rowOp))
    team = {1, kBlock / 2};
  emitStage(k, rows, team, [&](Value number) {
    Indices row;
    b.pushDims(number, shape.drop_back(), row);
    emitRow(b, rowOp, row);
    b.popDims(row.size());
  });
}

void emitRowStages(GpuKernel &k, Operation *rowOp) {
  std::optional<SplitReduction> reduction;
  if (auto grad = dyn_cast<NormGradOp>(rowOp))
    reduction = columnReduction(k.b, grad);
  if (reduction)
    planReduction(k, *reduction);
  emitRowStage(k, rowOp);
  if (reduction)
    emitReduction(k, *reduction);
}

static SplitReduction reductionOf(ElementEmitter &b, ReduceOp op,
                                  unsigned number) {
  SplitReduction reduction;
  llvm::append_range(reduction.shape, shapeOf(op.getX()));
  llvm::append_range(reduction.dims, op.getDims());
  llvm::sort(reduction.dims);
  reduction.terms.push_back(
      {.kind = op.getKind(),
       .type = computeTypeOf(op.getX()),
       .isUnsigned = isUnsigned(elementTypeOf(op.getX())),
       .result = number,
       .element = [=, &b](ArrayRef<Index> indices) mutable {
         return b.at(op.getX(), indices);
       }});
  return reduction;
}

static SmallVector<int64_t> squareTeams(SumSquaresOp op) {
  constexpr int64_t kShare = kBlock * 32, kMost = 1024;
  SmallVector<int64_t> teams;
  for (Value input : op.getInputs())
    teams.push_back(std::clamp<int64_t>(
        llvm::divideCeilSigned(countOf(input), kShare), 1, kMost));
  return teams;
}

static Value squaresOf(GpuKernel &k, Value input, Value part, int64_t parts) {
  ElementEmitter &b = k.b;
  GpuThreads &threads = k.threads;
  Type f64 = b.getF64Type();
  std::optional<MemoryRef> flat = flatOperand(b, input);
  SmallVector<int64_t> sizes(flat ? flat->view.shape : shapeOf(input));
  int64_t width = vectorWidth(b.spec, sizes.empty() ? 1 : sizes.back());
  int64_t step = threads.team.shape.threads * width * parts;
  return threads.fold(f64, accumulation(b, ReduceKind::sum), [&](Value thread) {
    // Adjacent teams take adjacent elements.
    Value first = addI(b, mulI(b, part, threads.team.shape.threads * width),
                       mulI(b, thread, width));
    return b.stepLoop(first, constantI64(b, countOf(input)), step,
                      b.math.constant(f64, 0),
                      [&](Value position, ValueRange carried) {
                        Indices indices;
                        b.pushDims(position, sizes, indices, width);
                        Value sum = carried[0];
                        for (int64_t i = 0; i < width; ++i)
                          sum = addSquare(b, sum, input, flat,
                                          LoopSpace::advance(indices, i));
                        b.popDims(indices.size());
                        return Values{sum};
                      });
  })[0];
}

// The first stage covers all inputs: each team sums the squares of a slice of
// one input. The second stage adds these sums.
static void emitSquareStages(GpuKernel &k, SumSquaresOp op, unsigned number,
                             int64_t offset) {
  ElementEmitter &b = k.b;
  GpuThreads &threads = k.threads;
  SmallVector<int64_t> teams = squareTeams(op);
  Scratch parts{offset, b.getF64Type()};
  int64_t total = llvm::sum_of(teams);
  emitStage(k, total, {kBlock, 1}, [&](Value number) {
    int64_t begin = 0, most = 0;
    for (auto [input, count] : llvm::zip_equal(op.getInputs(), teams)) {
      Value part = subI(b, number, begin);
      Value own = cmp(b, IntPredicate::ult, part, count);
      b.when(own, [&, input = input, count = count] {
        // A team runs one branch, so all branches use the same shared memory.
        threads.team.sharedBytes = 0;
        Value sum = squaresOf(k, input, part, count);
        b.loops->once([&] { storeScratch(b, sum, parts, number); });
      });
      most = std::max(most, threads.team.sharedBytes);
      begin += count;
    }
    threads.team.sharedBytes = most;
  });
  emitStage(k, 1, {kBlock, 1}, [&](Value) {
    Value sum = threads.fold(
        parts.type, accumulation(b, ReduceKind::sum), [&](Value thread) {
          return b.stepLoop(
              thread, constantI64(b, total), kBlock,
              b.math.constant(parts.type, 0), [&](Value i, ValueRange carried) {
                return Values{b.math.accumulate(ReduceKind::sum, carried[0],
                                                loadScratch(b, parts, i))};
              });
        })[0];
    b.loops->once([&] {
      b.store(b.math.convert(sum, computeTypeOf(op.getResult())),
              b.arguments.outputs[number], {});
    });
  });
}

static std::pair<Value, Value> rowOfId(ElementEmitter &b, EmbeddingGradOp op,
                                       Value position, Indices &indices) {
  b.pushDims(position, shapeOf(op.getIds()), indices);
  return lookUp(b, op, b.at(op.getIds(), indices), shapeOf(op.getResult())[0]);
}

static void emitEmbeddingLinks(GpuKernel &k, EmbeddingGradOp op,
                               const Scratch &next, const Scratch &first) {
  ElementEmitter &b = k.b;
  GpuThreads &threads = k.threads;
  int64_t count = countOf(op.getIds());
  TeamShape shape = teamFor(count, 1);
  Type i64 = b.getI64Type();
  using P = IntPredicate;
  emitStage(k, count, shape, [&](Value own) {
    Indices indices;
    auto [row, found] = rowOfId(b, op, own, indices);
    Value end = constantI64(b, count), none = constantI64(b, -1);
    auto links = threads.fold(
        {i64, i64}, accumulation(b, {ReduceKind::min, ReduceKind::max}),
        [&, row = row](Value thread) {
          return b.stepLoop(
              thread, end, shape.threads, ValueRange{end, none},
              [&](Value other, ValueRange carried) {
                Indices inner;
                Value same =
                    cmp(b, P::eq, rowOfId(b, op, other, inner).first, row);
                b.popDims(inner.size());
                auto linked = [&](P side, ReduceKind kind, Value best) {
                  Value is = andI(b, same, cmp(b, side, other, own));
                  return select(b, is, b.math.accumulate(kind, best, other),
                                best);
                };
                return Values{linked(P::sgt, ReduceKind::min, carried[0]),
                              linked(P::slt, ReduceKind::max, carried[1])};
              });
        });
    Value isFirst = andI(b, found, cmp(b, P::eq, links[1], none));
    b.loops->once([&] {
      storeScratch(b, links[0], next, own);
      storeScratch(b, extendU(b, i64, isFirst), first, own);
    });
    b.popDims(indices.size());
  });
}

/// Emits a loop that ends when the last carried value reaches `limit`.
static Values whileBelow(ImplicitLocOpBuilder &b, int64_t limit,
                         ValueRange init,
                         llvm::function_ref<Values(ValueRange)> body) {
  SmallVector<Type> types = llvm::to_vector(init.getTypes());
  SmallVector<Location> places(types.size(), b.getLoc());
  auto loop = scf::WhileOp::create(b, types, init);
  OpBuilder::InsertionGuard guard(b);
  Block *before = b.createBlock(&loop.getBefore(), {}, types, places);
  Value isBelow =
      cmp(b, IntPredicate::slt, before->getArguments().back(), limit);
  scf::ConditionOp::create(b, isBelow, before->getArguments());
  Block *after = b.createBlock(&loop.getAfter(), {}, types, places);
  scf::YieldOp::create(b, body(after->getArguments()));
  return {loop.getResults().begin(), loop.getResults().end()};
}

static void emitEmbeddingWalk(GpuKernel &k, EmbeddingGradOp op, unsigned number,
                              const Scratch &next, const Scratch &first) {
  ElementEmitter &b = k.b;
  GpuThreads &threads = k.threads;
  int64_t count = countOf(op.getIds()), columns = shapeOf(op.getDy()).back();
  int64_t width = vectorWidth(b.spec, columns);
  TeamShape shape = teamFor(columns, width);
  Type type = computeTypeOf(op.getDy());
  // Adds the row at `position` and all rows linked after it.
  auto walk = [&](Value position, const Index &column) {
    Values state(width, b.math.constant(type, 0));
    state.push_back(position);
    state = whileBelow(b, count, state, [&](ValueRange carried) {
      b.openScope();
      Indices indices;
      b.pushDims(carried.back(), shapeOf(op.getIds()), indices);
      Values sums;
      for (int64_t i = 0; i < width; ++i) {
        Indices from(indices);
        from.push_back(LoopSpace::shift(column, i));
        sums.push_back(b.math.add(carried[i], b.at(op.getDy(), from)));
      }
      b.popDims(indices.size());
      sums.push_back(loadScratch(b, next, carried.back()));
      b.closeScope();
      return sums;
    });
    state.pop_back();
    return state;
  };
  emitStage(k, count, shape, [&](Value own) {
    Indices indices;
    Value row = rowOfId(b, op, own, indices).first;
    // If an id occurs at several positions, only the first position computes
    // the sum of their rows.
    Value isFirst = cmp(b, IntPredicate::ne, loadScratch(b, first, own), 0);
    Value vectors =
        select(b, isFirst, constantI64(b, columns / width), constantI64(b, 0));
    threads.phase([&](Value thread) {
      b.stepLoop(thread, vectors, shape.threads, [&](Value vector) {
        Value start = mulI(b, vector, width);
        Index column = b.space.loop(b.space.push(columns, start, width));
        Values sums = walk(own, column);
        for (auto [i, sum] : llvm::enumerate(sums))
          b.store(sum, b.arguments.outputs[number],
                  {LoopSpace::opaque(row), LoopSpace::shift(column, i)});
        b.space.pop();
      });
    });
    b.popDims(indices.size());
  });
}

// Adds rows with the same id in the order of their positions, without atomics.
// The first stage links each position to the next position with the same id,
// and marks the first position of each id. In the second stage, one team per
// first position follows the links.
static void emitEmbeddingStages(GpuKernel &k, EmbeddingGradOp op,
                                unsigned number, int64_t offset) {
  int64_t count = countOf(op.getIds());
  emitFillStage(k, number, 0);
  if (count == 0)
    return;
  Type i64 = k.b.getI64Type();
  Scratch next{offset, i64};
  Scratch first{offset + (count + 7) / 8 * 64, i64};
  emitEmbeddingLinks(k, op, next, first);
  emitEmbeddingWalk(k, op, number, next, first);
}

/// Emits elementwise results first, so that reductions read them from memory.
void emitReductionStages(GpuKernel &k) {
  SmallVector<unsigned> plain;
  std::vector<std::function<void()>> stages;
  for (auto [i, value] : llvm::enumerate(k.b.yields)) {
    Operation *op = value.getDefiningOp();
    auto number = static_cast<unsigned>(i);
    if (auto reduce = dyn_cast_or_null<ReduceOp>(op)) {
      SplitReduction reduction = reductionOf(k.b, reduce, number);
      planReduction(k, reduction);
      stages.push_back([&k, reduction] { emitReduction(k, reduction); });
    } else if (auto squares = dyn_cast_or_null<SumSquaresOp>(op)) {
      int64_t offset = k.result.scratchBytes;
      int64_t count = llvm::sum_of(squareTeams(squares));
      k.result.scratchBytes += (count + 7) / 8 * 64;
      stages.push_back([&k, squares, number, offset] {
        emitSquareStages(k, squares, number, offset);
      });
    } else if (auto grad = dyn_cast_or_null<EmbeddingGradOp>(op)) {
      int64_t offset = k.result.scratchBytes;
      k.result.scratchBytes += (countOf(grad.getIds()) + 7) / 8 * 128;
      stages.push_back([&k, grad, number, offset] {
        emitEmbeddingStages(k, grad, number, offset);
      });
    } else {
      plain.push_back(number);
    }
  }
  if (!plain.empty())
    emitElementwiseStage(k, plain);
  for (const auto &stage : stages)
    stage();
}

} // namespace dpc::codegen
