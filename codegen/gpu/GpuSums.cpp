//===- GpuSums.cpp - Reductions over dimensions on a GPU ------------------===//
#include "codegen/gpu/GpuSums.h"

#include "codegen/gpu/CompilePtx.h"

using namespace mlir;

namespace dpc::codegen {

/// Teams that keep a device busy.
static constexpr int64_t kBusy = 512;
/// A part should have this many elements for each thread of a team, or rows
/// for a thread of its own.
static constexpr int64_t kLeast = 16;

/// Columns of a thread.
static constexpr int64_t kMostColumns = 4;

static int64_t ceilDiv(int64_t a, int64_t n) { return (a + n - 1) / n; }

/// The threads that take the columns of `count` vectors.
static TeamShape columnTeam(int64_t count) {
  if (count <= kWarp)
    return {kWarp, kBlock / kWarp};
  return {std::min(kBlock, ceilDiv(count, kWarp) * kWarp), 1};
}

void planSums(GpuKernel &k, GpuSums &sums) {
  for (auto [d, size] : llvm::enumerate(sums.shape)) {
    bool isReduced = llvm::is_contained(sums.dims, static_cast<int64_t>(d));
    (isReduced ? sums.reducedSizes : sums.keptSizes).push_back(size);
    (isReduced ? sums.reduced : sums.kept) *= size;
  }
  bool isEmpty = sums.kept == 0 || sums.reduced == 0;
  sums.width = sums.shape.empty() || isEmpty
                   ? 1
                   : vectorWidth(k.b.spec, sums.shape.back());
  if (sums.dims.empty())
    sums.width = 1;
  // Every column of a thread is a register, and more where several rows are on
  // their way: with 8 of them the assembler spills. A warp's 4 columns of 16
  // bits are still whole lines.
  if (!sums.alongRows())
    sums.width = std::min<int64_t>(sums.width, kMostColumns);
  int64_t teams = std::max<int64_t>(1, sums.kept), least = kLeast * kBlock;
  if (!sums.alongRows()) {
    int64_t vectors = std::max<int64_t>(1, sums.kept / sums.width);
    teams = ceilDiv(vectors, columnTeam(vectors).threads);
    least = kLeast;
  }
  int64_t most = std::max<int64_t>(1, sums.reduced / least);
  sums.parts = std::clamp<int64_t>(ceilDiv(kBusy, teams), 1, most);
  int64_t step = sums.alongRows() ? sums.width : 1;
  sums.length =
      std::max<int64_t>(1, ceilDiv(ceilDiv(sums.reduced, sums.parts), step)) *
      step;
  sums.parts = std::max<int64_t>(1, ceilDiv(sums.reduced, sums.length));
  if (sums.parts == 1)
    return;
  for (GpuSums::Term &term : sums.terms) {
    term.scratch = {k.result.scratchBytes, term.type};
    int64_t bytes = sums.kept * sums.parts *
                    std::max(1u, term.type.getIntOrFloatBitWidth() / 8);
    k.result.scratchBytes += ceilDiv(bytes, 64) * 64;
  }
}

static Indices indicesOf(const GpuSums &sums, ArrayRef<Index> kept,
                         ArrayRef<Index> reduced) {
  Indices indices;
  for (int64_t d = 0, e = sums.shape.size(); d < e; ++d) {
    ArrayRef<Index> &from = llvm::is_contained(sums.dims, d) ? reduced : kept;
    indices.push_back(from.front());
    from = from.drop_front();
  }
  return indices;
}

/// Stores one value for each term: the sums at `kept`, or their parts.
static void storeSums(ElementEmitter &b, const GpuSums &sums, ValueRange values,
                      ArrayRef<Index> kept, Value number, Value part) {
  for (auto [term, value] : llvm::zip_equal(sums.terms, values)) {
    if (sums.parts == 1) {
      b.store(value, b.arguments.outputs[term.result], kept);
      continue;
    }
    Value position = arith::AddIOp::create(
        b, arith::MulIOp::create(b, number, constantI64(b, sums.parts)), part);
    storeScratch(b, value, term.scratch, position);
  }
}

static SmallVector<Value> neutralTerms(KernelBuilder &b, const GpuSums &sums) {
  SmallVector<Value> values;
  for (const GpuSums::Term &term : sums.terms)
    values.push_back(b.math.neutral(term.kind, term.type, term.isUnsigned));
  return values;
}

static SmallVector<Value> addTerms(KernelBuilder &b, const GpuSums &sums,
                                   ValueRange x, ValueRange y) {
  SmallVector<Value> values;
  for (auto [term, a, c] : llvm::zip_equal(sums.terms, x, y))
    values.push_back(b.math.accumulate(term.kind, a, c, term.isUnsigned));
  return values;
}

static SmallVector<Value> termsAt(const GpuSums &sums,
                                  ArrayRef<Index> indices) {
  SmallVector<Value> values;
  for (const GpuSums::Term &term : sums.terms)
    values.push_back(term.element(indices));
  return values;
}

static SmallVector<Type> typesOf(const GpuSums &sums) {
  SmallVector<Type> types;
  for (const GpuSums::Term &term : sums.terms)
    types.push_back(term.type);
  return types;
}

/// Where part `part` begins and ends.
static std::pair<Value, Value> boundsOf(KernelBuilder &b, const GpuSums &sums,
                                        Value part) {
  Value length = constantI64(b, sums.length);
  Value begin = arith::MulIOp::create(b, part, length);
  Value end = arith::AddIOp::create(b, begin, length);
  if (sums.length * sums.parts != sums.reduced)
    end = arith::MinSIOp::create(b, end, constantI64(b, sums.reduced));
  return {begin, end};
}

// A team to each part of each sum.
static void emitPartialRows(GpuKernel &k, const GpuSums &sums) {
  ElementEmitter &b = k.b;
  GpuThreads &threads = k.threads;
  Combine combine = [&](ValueRange x, ValueRange y) {
    return addTerms(b, sums, x, y);
  };
  TeamShape shape = teamFor(sums.length, sums.width);
  int64_t step = shape.threads * sums.width;
  emitStage(k, sums.kept * sums.parts, shape, [&](Value number) {
    Value parts = constantI64(b, sums.parts);
    Value part = arith::RemUIOp::create(b, number, parts);
    Value sum = arith::DivUIOp::create(b, number, parts);
    auto [begin, end] = boundsOf(b, sums, part);
    Indices kept;
    b.pushDims(sum, sums.keptSizes, kept);
    SmallVector<Value> values =
        threads.fold(typesOf(sums), combine, [&](Value thread) {
          Value first = arith::AddIOp::create(
              b, begin,
              arith::MulIOp::create(b, thread, constantI64(b, sums.width)));
          return b.stepLoop(
              first, end, step, neutralTerms(b, sums),
              [&](Value position, ValueRange carried) {
                Indices reduced;
                b.pushDims(position, sums.reducedSizes, reduced, sums.width);
                Indices indices = indicesOf(sums, kept, reduced);
                SmallVector<Value> next(carried);
                for (int64_t i = 0; i < sums.width; ++i) {
                  Indices own(indices);
                  if (sums.width > 1)
                    own.back() =
                        LoopSpace::add(&b, own.back(), LoopSpace::constant(i));
                  next = combine(next, termsAt(sums, own));
                }
                b.popDims(reduced.size());
                return next;
              });
        });
    b.loops->once([&] { storeSums(b, sums, values, kept, sum, part); });
    b.popDims(kept.size());
  });
}

// A thread to each part of the sums of a vector of columns.
static void emitPartialColumns(GpuKernel &k, const GpuSums &sums) {
  ElementEmitter &b = k.b;
  GpuThreads &threads = k.threads;
  int64_t vectors = sums.kept / sums.width;
  TeamShape shape = columnTeam(vectors);
  int64_t teams = std::max<int64_t>(1, ceilDiv(vectors, shape.threads));
  size_t terms = sums.terms.size();
  auto addRow = [&](ArrayRef<Index> kept, Value row, ValueRange carried) {
    Indices reduced;
    b.pushDims(row, sums.reducedSizes, reduced);
    SmallVector<Value> next;
    for (int64_t i = 0; i < sums.width; ++i) {
      Indices own(kept);
      if (sums.width > 1)
        own.back() = LoopSpace::add(&b, own.back(), LoopSpace::constant(i));
      llvm::append_range(
          next, addTerms(b, sums, carried.slice(i * terms, terms),
                         termsAt(sums, indicesOf(sums, own, reduced))));
    }
    b.popDims(reduced.size());
    return next;
  };
  auto columns = [&](Value vector, Value part) {
    // Left alone, the assembler spills a register of some for more threads.
    k.functions.back()->setAttr(kKeepsManyValues, b.getUnitAttr());
    auto [begin, end] = boundsOf(b, sums, part);
    Value column = arith::MulIOp::create(b, vector, constantI64(b, sums.width));
    Indices kept;
    b.pushDims(column, sums.keptSizes, kept, sums.width);
    SmallVector<Value> init;
    for (int64_t i = 0; i < sums.width; ++i)
      llvm::append_range(init, neutralTerms(b, sums));
    SmallVector<Value> values =
        b.stepLoop(begin, end, 1, init, [&](Value row, ValueRange carried) {
          return addRow(kept, row, carried);
        });
    threads.storeTogether([&] {
      for (int64_t i = 0; i < sums.width; ++i) {
        Indices own(kept);
        if (sums.width > 1)
          own.back() = LoopSpace::add(&b, own.back(), LoopSpace::constant(i));
        storeSums(b, sums, ValueRange(values).slice(i * terms, terms), own,
                  arith::AddIOp::create(b, column, constantI64(b, i)), part);
      }
    });
    b.popDims(kept.size());
  };
  emitStage(k, teams * sums.parts, shape, [&](Value number) {
    Value count = constantI64(b, teams);
    Value part = arith::DivUIOp::create(b, number, count);
    Value tile = arith::RemUIOp::create(b, number, count);
    threads.phase([&](Value thread) {
      Value vector = arith::AddIOp::create(
          b, arith::MulIOp::create(b, tile, constantI64(b, shape.threads)),
          thread);
      b.whenBelow(vector, vectors, [&] { columns(vector, part); });
    });
  });
}

static void finishSums(GpuKernel &k, const GpuSums &sums) {
  ElementEmitter &b = k.b;
  GpuThreads &threads = k.threads;
  Combine combine = [&](ValueRange x, ValueRange y) {
    return addTerms(b, sums, x, y);
  };
  TeamShape shape = teamFor(sums.parts, 1);
  emitStage(k, sums.kept, shape, [&](Value number) {
    Indices kept;
    b.pushDims(number, sums.keptSizes, kept);
    Value first = arith::MulIOp::create(b, number, constantI64(b, sums.parts));
    SmallVector<Value> values =
        threads.fold(typesOf(sums), combine, [&](Value thread) {
          return b.stepLoop(
              thread, constantI64(b, sums.parts), shape.threads,
              neutralTerms(b, sums), [&](Value part, ValueRange carried) {
                Value position = arith::AddIOp::create(b, first, part);
                SmallVector<Value> others;
                for (const GpuSums::Term &term : sums.terms)
                  others.push_back(loadScratch(b, term.scratch, position));
                return combine(carried, others);
              });
        });
    b.loops->once([&] {
      for (auto [term, value] : llvm::zip_equal(sums.terms, values))
        b.store(value, b.arguments.outputs[term.result], kept);
    });
    b.popDims(kept.size());
  });
}

void emitSums(GpuKernel &k, const GpuSums &sums) {
  if (sums.alongRows())
    emitPartialRows(k, sums);
  else
    emitPartialColumns(k, sums);
  if (sums.parts > 1)
    finishSums(k, sums);
}

} // namespace dpc::codegen
