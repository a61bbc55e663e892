//===- SplitReduction.cpp - Reductions over dimensions on a GPU
//------------------===//
#include "codegen/gpu/SplitReduction.h"

#include "codegen/gpu/CompilePtx.h"

using namespace mlir;

namespace dpc::codegen {

/// The number of teams that keeps any device busy.
static constexpr int64_t kBusy = 512;
/// The minimum number of elements that each thread of a team adds per part. If
/// threads compute columns, the minimum number of rows per part.
static constexpr int64_t kLeast = 16;

static constexpr int64_t kMostColumns = 4;

using llvm::divideCeilSigned;

static TeamShape columnTeam(int64_t count) {
  if (count <= kWarp)
    return {kWarp, kBlock / kWarp};
  return {std::min(kBlock, divideCeilSigned(count, kWarp) * kWarp), 1};
}

void planReduction(GpuKernel &k, SplitReduction &reduction) {
  for (auto [d, size] : llvm::enumerate(reduction.shape)) {
    bool isReduced =
        llvm::is_contained(reduction.dims, static_cast<int64_t>(d));
    (isReduced ? reduction.reducedSizes : reduction.keptSizes).push_back(size);
    (isReduced ? reduction.reduced : reduction.kept) *= size;
  }
  bool isEmpty = reduction.kept == 0 || reduction.reduced == 0;
  reduction.width = reduction.shape.empty() || isEmpty
                        ? 1
                        : vectorWidth(k.b.spec, reduction.shape.back());
  if (reduction.dims.empty())
    reduction.width = 1;
  // A thread needs a register per column, and more if several rows are in
  // flight; with 8 columns, the assembler spills. With 4 columns of 16 bits, a
  // warp still reads whole cache lines.
  if (!reduction.alongRows())
    reduction.width = std::min<int64_t>(reduction.width, kMostColumns);
  int64_t teams = std::max<int64_t>(1, reduction.kept), least = kLeast * kBlock;
  if (!reduction.alongRows()) {
    int64_t vectors = std::max<int64_t>(1, reduction.kept / reduction.width);
    teams = divideCeilSigned(vectors, columnTeam(vectors).threads);
    least = kLeast;
  }
  int64_t most = std::max<int64_t>(1, reduction.reduced / least);
  reduction.parts =
      std::clamp<int64_t>(divideCeilSigned(kBusy, teams), 1, most);
  int64_t step = reduction.alongRows() ? reduction.width : 1;
  reduction.length =
      std::max<int64_t>(
          1, divideCeilSigned(
                 divideCeilSigned(reduction.reduced, reduction.parts), step)) *
      step;
  reduction.parts = std::max<int64_t>(
      1, divideCeilSigned(reduction.reduced, reduction.length));
  if (reduction.parts == 1)
    return;
  for (SplitReduction::Term &term : reduction.terms) {
    term.scratch = {k.result.scratchBytes, term.type};
    int64_t bytes = reduction.kept * reduction.parts *
                    std::max(1u, term.type.getIntOrFloatBitWidth() / 8);
    k.result.scratchBytes += divideCeilSigned(bytes, 64) * 64;
  }
}

static Indices indicesOf(const SplitReduction &reduction, ArrayRef<Index> kept,
                         ArrayRef<Index> reduced) {
  Indices indices;
  for (int64_t d = 0, e = reduction.shape.size(); d < e; ++d) {
    ArrayRef<Index> &from =
        llvm::is_contained(reduction.dims, d) ? reduced : kept;
    indices.push_back(from.front());
    from = from.drop_front();
  }
  return indices;
}

/// Stores one value per term: as results, or as parts in scratch memory.
static void storeResults(ElementEmitter &b, const SplitReduction &reduction,
                         ValueRange values, ArrayRef<Index> kept, Value number,
                         Value part) {
  for (auto [term, value] : llvm::zip_equal(reduction.terms, values)) {
    if (reduction.parts == 1) {
      b.store(value, b.arguments.outputs[term.result], kept);
      continue;
    }
    Value position = addI(b, mulI(b, number, reduction.parts), part);
    storeScratch(b, value, term.scratch, position);
  }
}

static Values neutralTerms(KernelBuilder &b, const SplitReduction &reduction) {
  Values values;
  for (const SplitReduction::Term &term : reduction.terms)
    values.push_back(b.math.neutral(term.kind, term.type, term.isUnsigned));
  return values;
}

static Values addTerms(KernelBuilder &b, const SplitReduction &reduction,
                       ValueRange x, ValueRange y) {
  Values values;
  for (auto [term, a, c] : llvm::zip_equal(reduction.terms, x, y))
    values.push_back(b.math.accumulate(term.kind, a, c, term.isUnsigned));
  return values;
}

static Values termsAt(const SplitReduction &reduction,
                      ArrayRef<Index> indices) {
  Values values;
  for (const SplitReduction::Term &term : reduction.terms)
    values.push_back(term.element(indices));
  return values;
}

static SmallVector<Type> typesOf(const SplitReduction &reduction) {
  SmallVector<Type> types;
  for (const SplitReduction::Term &term : reduction.terms)
    types.push_back(term.type);
  return types;
}

static std::pair<Value, Value>
boundsOf(KernelBuilder &b, const SplitReduction &reduction, Value part) {
  Value length = constantI64(b, reduction.length);
  Value begin = mulI(b, part, length);
  Value end = addI(b, begin, length);
  if (reduction.length * reduction.parts != reduction.reduced)
    end = minS(b, end, reduction.reduced);
  return {begin, end};
}

// Emits a stage in which each team computes one part of one result.
static void emitRowParts(GpuKernel &k, const SplitReduction &reduction) {
  ElementEmitter &b = k.b;
  GpuThreads &threads = k.threads;
  Combine combine = [&](ValueRange x, ValueRange y) {
    return addTerms(b, reduction, x, y);
  };
  TeamShape shape = teamFor(reduction.length, reduction.width);
  int64_t step = shape.threads * reduction.width;
  emitStage(k, reduction.kept * reduction.parts, shape, [&](Value number) {
    Value parts = constantI64(b, reduction.parts);
    Value part = remU(b, number, parts);
    Value sum = divU(b, number, parts);
    auto [begin, end] = boundsOf(b, reduction, part);
    Indices kept;
    b.pushDims(sum, reduction.keptSizes, kept);
    Values values =
        threads.fold(typesOf(reduction), combine, [&](Value thread) {
          Value first = addI(b, begin, mulI(b, thread, reduction.width));
          return b.stepLoop(first, end, step, neutralTerms(b, reduction),
                            [&](Value position, ValueRange carried) {
                              Indices reduced;
                              b.pushDims(position, reduction.reducedSizes,
                                         reduced, reduction.width);
                              Indices indices =
                                  indicesOf(reduction, kept, reduced);
                              Values next(carried);
                              for (int64_t i = 0; i < reduction.width; ++i) {
                                Indices own = LoopSpace::advance(indices, i);
                                next = combine(next, termsAt(reduction, own));
                              }
                              b.popDims(reduced.size());
                              return next;
                            });
        });
    b.loops->once([&] { storeResults(b, reduction, values, kept, sum, part); });
    b.popDims(kept.size());
  });
}

// Emits a stage in which each thread computes one part of several columns.
static void emitColumnParts(GpuKernel &k, const SplitReduction &reduction) {
  ElementEmitter &b = k.b;
  GpuThreads &threads = k.threads;
  int64_t vectors = reduction.kept / reduction.width;
  TeamShape shape = columnTeam(vectors);
  int64_t teams =
      std::max<int64_t>(1, divideCeilSigned(vectors, shape.threads));
  size_t terms = reduction.terms.size();
  auto addRow = [&](ArrayRef<Index> kept, Value row, ValueRange carried) {
    Indices reduced;
    b.pushDims(row, reduction.reducedSizes, reduced);
    Values next;
    for (int64_t i = 0; i < reduction.width; ++i) {
      Indices own = LoopSpace::advance(Indices(kept), i);
      llvm::append_range(
          next,
          addTerms(b, reduction, carried.slice(i * terms, terms),
                   termsAt(reduction, indicesOf(reduction, own, reduced))));
    }
    b.popDims(reduced.size());
    return next;
  };
  auto columns = [&](Value vector, Value part) {
    // Without this mark, the assembler spills in order to run more threads.
    k.functions.back()->setAttr(kKeepsManyValues, b.getUnitAttr());
    auto [begin, end] = boundsOf(b, reduction, part);
    Value column = mulI(b, vector, reduction.width);
    Indices kept;
    b.pushDims(column, reduction.keptSizes, kept, reduction.width);
    Values init;
    for (int64_t i = 0; i < reduction.width; ++i)
      llvm::append_range(init, neutralTerms(b, reduction));
    Values values =
        b.stepLoop(begin, end, 1, init, [&](Value row, ValueRange carried) {
          return addRow(kept, row, carried);
        });
    threads.storeTogether([&] {
      for (int64_t i = 0; i < reduction.width; ++i) {
        Indices own = LoopSpace::advance(kept, i);
        storeResults(b, reduction, ValueRange(values).slice(i * terms, terms),
                     own, addI(b, column, i), part);
      }
    });
    b.popDims(kept.size());
  };
  emitStage(k, teams * reduction.parts, shape, [&](Value number) {
    Value count = constantI64(b, teams);
    Value part = divU(b, number, count);
    Value tile = remU(b, number, count);
    threads.phase([&](Value thread) {
      Value vector = addI(b, mulI(b, tile, shape.threads), thread);
      b.whenBelow(vector, vectors, [&] { columns(vector, part); });
    });
  });
}

static void emitCombination(GpuKernel &k, const SplitReduction &reduction) {
  ElementEmitter &b = k.b;
  GpuThreads &threads = k.threads;
  Combine combine = [&](ValueRange x, ValueRange y) {
    return addTerms(b, reduction, x, y);
  };
  TeamShape shape = teamFor(reduction.parts, 1);
  emitStage(k, reduction.kept, shape, [&](Value number) {
    Indices kept;
    b.pushDims(number, reduction.keptSizes, kept);
    Value first = mulI(b, number, reduction.parts);
    Values values =
        threads.fold(typesOf(reduction), combine, [&](Value thread) {
          return b.stepLoop(
              thread, constantI64(b, reduction.parts), shape.threads,
              neutralTerms(b, reduction), [&](Value part, ValueRange carried) {
                Value position = addI(b, first, part);
                Values others;
                for (const SplitReduction::Term &term : reduction.terms)
                  others.push_back(loadScratch(b, term.scratch, position));
                return combine(carried, others);
              });
        });
    b.loops->once([&] {
      for (auto [term, value] : llvm::zip_equal(reduction.terms, values))
        b.store(value, b.arguments.outputs[term.result], kept);
    });
    b.popDims(kept.size());
  });
}

void emitReduction(GpuKernel &k, const SplitReduction &reduction) {
  if (reduction.alongRows())
    emitRowParts(k, reduction);
  else
    emitColumnParts(k, reduction);
  if (reduction.parts > 1)
    emitCombination(k, reduction);
}

} // namespace dpc::codegen
