//===- GpuReduce.cpp - The stages of kernels for GPUs ---------------------===//
#include "codegen/gpu/GpuSums.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace dpc::codegen {

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}
static Type elementOf(Value value) { return computeTypeOf(value); }
static int64_t countOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getNumElements();
}

ArrayRef<int64_t> KernelEmitter::outputShape(unsigned number) const {
  return shapeOf(yields[number]);
}

void KernelEmitter::emitForGpu() {
  if (!spec.groupSizes.empty())
    return emitGroupStage();
  Block &body = spec.op.getBody().front();
  if (Operation *rowOp = findRowOp(spec.op))
    return emitRowStages(rowOp);
  if (llvm::any_of(body, [](Operation &op) { return isReduction(&op); }))
    return emitReductionStages();
  emitElementwiseStage(llvm::to_vector(llvm::seq<unsigned>(yields.size())));
}

Value KernelEmitter::loadScratch(const Scratch &part, Value position) {
  int64_t bytes = part.type.getIntOrFloatBitWidth() / 8;
  MemoryRef memory{scratch, {part.offset / bytes, {1}, {1}}, Type()};
  return load(memory, part.type, LoopSpace::opaque(position));
}

void KernelEmitter::storeScratch(Value value, const Scratch &part,
                                 Value position) {
  int64_t bytes = part.type.getIntOrFloatBitWidth() / 8;
  MemoryRef memory{scratch, {part.offset / bytes, {1}, {1}}, Type()};
  store(value, memory, LoopSpace::opaque(position));
}

//===----------------------------------------------------------------------===//
// Rows, and sums over them
//===----------------------------------------------------------------------===//

void KernelEmitter::emitRowStages(Operation *rowOp) {
  std::optional<Sums> sums;
  if (auto grad = dyn_cast<NormGradOp>(rowOp))
    sums = columnSums(grad);
  if (sums)
    planSums(*sums);
  emitRowStage(rowOp);
  if (sums)
    emitSums(*sums);
}

/// dscale = sum of dy h and dbias = sum of dy over the rows, with
/// h = (x - mean) rstd; those that the kernel yields.
std::optional<KernelEmitter::Sums> KernelEmitter::columnSums(NormGradOp op) {
  Sums sums;
  llvm::append_range(sums.shape, shapeOf(op.getX()));
  for (int64_t d = 0, e = sums.shape.size(); d + 1 < e; ++d)
    sums.dims.push_back(d);
  Type type = elementOf(op.getX());
  bool layer = op.getKind() == NormKind::layer;
  auto add = [&](Value value, auto element) {
    for (auto [i, yield] : llvm::enumerate(yields))
      if (yield == value)
        sums.terms.push_back({ReduceKind::sum,
                              type,
                              false,
                              static_cast<unsigned>(i),
                              element,
                              {}});
  };
  add(op.getDscale(), [=, this](ArrayRef<Index> indices) mutable -> Value {
    ArrayRef<Index> row = indices.drop_back();
    Value x = at(op.getX(), indices);
    if (layer)
      x = math.sub(x, at(op.getMean(), row));
    return math.mul(at(op.getDy(), indices),
                    math.mul(x, at(op.getRstd(), row)));
  });
  add(op.getDbias(), [=, this](ArrayRef<Index> indices) mutable -> Value {
    return at(op.getDy(), indices);
  });
  if (sums.terms.empty())
    return std::nullopt;
  return sums;
}

KernelEmitter::Sums KernelEmitter::sumsOf(ReduceOp op, unsigned number) {
  Sums sums;
  llvm::append_range(sums.shape, shapeOf(op.getX()));
  llvm::append_range(sums.dims, op.getDims());
  llvm::sort(sums.dims);
  Type stored = cast<RankedTensorType>(op.getX().getType()).getElementType();
  sums.terms.push_back({op.getKind(),
                        elementOf(op.getX()),
                        isUnsigned(stored),
                        number,
                        [=, this](ArrayRef<Index> indices) mutable {
                          return at(op.getX(), indices);
                        },
                        {}});
  return sums;
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

/// Teams for each input of a sum of squares.
static SmallVector<int64_t> squareTeams(SumSquaresOp op) {
  constexpr int64_t kShare = kBlock * 32, kMost = 1024;
  SmallVector<int64_t> teams;
  for (Value input : op.getInputs())
    teams.push_back(
        std::clamp<int64_t>((countOf(input) + kShare - 1) / kShare, 1, kMost));
  return teams;
}

/// Elementwise results first: the reductions then read them from memory.
void KernelEmitter::emitReductionStages() {
  SmallVector<unsigned> plain;
  std::vector<std::function<void()>> stages;
  for (auto [i, value] : llvm::enumerate(yields)) {
    Operation *op = value.getDefiningOp();
    auto number = static_cast<unsigned>(i);
    if (auto reduce = dyn_cast_or_null<ReduceOp>(op)) {
      Sums sums = sumsOf(reduce, number);
      planSums(sums);
      stages.push_back([this, sums] { emitSums(sums); });
    } else if (auto squares = dyn_cast_or_null<SumSquaresOp>(op)) {
      int64_t offset = result.scratchBytes, count = 0;
      for (int64_t teams : squareTeams(squares))
        count += teams;
      result.scratchBytes += (count + 7) / 8 * 64;
      stages.push_back([this, squares, number, offset] {
        emitSquareStages(squares, number, offset);
      });
    } else if (auto grad = dyn_cast_or_null<EmbeddingGradOp>(op)) {
      int64_t offset = result.scratchBytes;
      result.scratchBytes += (countOf(grad.getIds()) + 7) / 8 * 128;
      stages.push_back([this, grad, number, offset] {
        emitEmbeddingStages(grad, number, offset);
      });
    } else {
      plain.push_back(number);
    }
  }
  if (!plain.empty())
    emitElementwiseStage(plain);
  for (const auto &stage : stages)
    stage();
}

/// The sum of the squares of one input's elements that are the team's.
Value KernelEmitter::squaresOf(Value input, Value part, int64_t parts) {
  Type f64 = b.getF64Type();
  int64_t count = countOf(input);
  auto argument = dyn_cast<BlockArgument>(input);
  bool isDense = argument && inputs[argument.getArgNumber()].view.isDense();
  // A dense operand is one long row.
  SmallVector<int64_t> sizes(shapeOf(input));
  MemoryRef flat;
  if (isDense) {
    sizes = {count};
    flat = {inputs[argument.getArgNumber()].pointer, StridedView::dense(sizes),
            inputs[argument.getArgNumber()].element};
  }
  int64_t width = vectorWidth(sizes.empty() ? 1 : sizes.back());
  int64_t step = team.threads * width * parts;
  return fold(f64, accumulation(ReduceKind::sum), [&](Value thread) {
    // Neighbouring teams take neighbouring pieces.
    Value first = arith::AddIOp::create(
        b, arith::MulIOp::create(b, part, constantI64(b, team.threads * width)),
        arith::MulIOp::create(b, thread, constantI64(b, width)));
    return stepLoop(
        first, constantI64(b, count), step, math.constant(f64, 0),
        [&](Value position, ValueRange carried) {
          Indices indices;
          pushDims(position, sizes, indices, width);
          Value sum = carried[0];
          for (int64_t i = 0; i < width; ++i) {
            Indices own(indices);
            if (width > 1)
              own.back() =
                  LoopSpace::add(&b, own.back(), LoopSpace::constant(i));
            Value x =
                isDense ? load(flat, elementOf(input), own) : at(input, own);
            x = math.convert(x, f64);
            sum = math.accumulate(ReduceKind::sum, sum, math.mul(x, x));
          }
          popDims(indices.size());
          return SmallVector<Value>{sum};
        });
  })[0];
}

// One stage over all inputs, in which each team has a piece of one of them.
void KernelEmitter::emitSquareStages(SumSquaresOp op, unsigned number,
                                     int64_t offset) {
  SmallVector<int64_t> teams = squareTeams(op);
  Scratch parts{offset, b.getF64Type()};
  int64_t total = 0;
  for (int64_t count : teams)
    total += count;
  emitStage(total, {kBlock, 1}, [&](Value number) {
    int64_t begin = 0, most = 0;
    for (auto [input, count] : llvm::zip_equal(op.getInputs(), teams)) {
      Value part = arith::SubIOp::create(b, number, constantI64(b, begin));
      Value own = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, part,
                                        constantI64(b, count));
      when(own, [&, input = input, count = count] {
        sharedBytes = 0; // A team has one input.
        Value sum = squaresOf(input, part, count);
        once([&] { storeScratch(sum, parts, number); });
      });
      most = std::max(most, sharedBytes);
      begin += count;
    }
    sharedBytes = most;
  });
  emitStage(1, {kBlock, 1}, [&](Value) {
    Value sum =
        fold(parts.type, accumulation(ReduceKind::sum), [&](Value thread) {
          return stepLoop(
              thread, constantI64(b, total), kBlock,
              math.constant(parts.type, 0), [&](Value i, ValueRange carried) {
                return SmallVector<Value>{math.accumulate(
                    ReduceKind::sum, carried[0], loadScratch(parts, i))};
              });
        })[0];
    once([&] {
      store(math.convert(sum, elementOf(op.getResult())), outputs[number], {});
    });
  });
}

//===----------------------------------------------------------------------===//
// The gradient of an embedding
//===----------------------------------------------------------------------===//

// Rows of one id are added in their order, without atomics: a stage links each
// position to the next one of the same id and marks the first ones; then each
// first one's team walks along its links.
void KernelEmitter::emitEmbeddingStages(EmbeddingGradOp op, unsigned number,
                                        int64_t offset) {
  int64_t count = countOf(op.getIds());
  emitFillStage(number, 0);
  if (count == 0)
    return;
  Scratch next{offset, b.getI64Type()};
  Scratch first{offset + (count + 7) / 8 * 64, b.getI64Type()};
  emitEmbeddingLinks(op, next, first);
  emitEmbeddingWalk(op, number, next, first);
}

/// Position `position` of the ids: its row of the table, and whether it is
/// here.
std::pair<Value, Value>
KernelEmitter::rowOfId(EmbeddingGradOp op, Value position, Indices &indices) {
  pushDims(position, shapeOf(op.getIds()), indices);
  return lookup(op, at(op.getIds(), indices), shapeOf(op.getResult())[0]);
}

void KernelEmitter::emitEmbeddingLinks(EmbeddingGradOp op, const Scratch &next,
                                       const Scratch &first) {
  int64_t count = countOf(op.getIds());
  TeamShape shape = teamFor(count, 1);
  Type i64 = b.getI64Type();
  using P = arith::CmpIPredicate;
  emitStage(count, shape, [&](Value own) {
    Indices indices;
    auto [row, found] = rowOfId(op, own, indices);
    Value end = constantI64(b, count), none = constantI64(b, -1);
    auto compare = [&](P predicate, Value x, Value y) -> Value {
      return arith::CmpIOp::create(b, predicate, x, y);
    };
    auto links =
        fold({i64, i64}, accumulation({ReduceKind::min, ReduceKind::max}),
             [&, row = row](Value thread) {
               return stepLoop(
                   thread, end, shape.threads, ValueRange{end, none},
                   [&](Value other, ValueRange carried) {
                     Indices inner;
                     Value same =
                         compare(P::eq, rowOfId(op, other, inner).first, row);
                     popDims(inner.size());
                     auto linked = [&](P side, ReduceKind kind, Value best) {
                       Value is = arith::AndIOp::create(
                           b, same, compare(side, other, own));
                       return arith::SelectOp::create(
                           b, is, math.accumulate(kind, best, other), best);
                     };
                     return SmallVector<Value>{
                         linked(P::sgt, ReduceKind::min, carried[0]),
                         linked(P::slt, ReduceKind::max, carried[1])};
                   });
             });
    Value isFirst =
        arith::AndIOp::create(b, found, compare(P::eq, links[1], none));
    once([&] {
      storeScratch(links[0], next, own);
      storeScratch(arith::ExtUIOp::create(b, i64, isFirst), first, own);
    });
    popDims(indices.size());
  });
}

/// Carries values through `body` while the last one is below `limit`.
static SmallVector<Value>
whileBelow(ImplicitLocOpBuilder &b, int64_t limit, ValueRange init,
           llvm::function_ref<SmallVector<Value>(ValueRange)> body) {
  SmallVector<Type> types = llvm::to_vector(init.getTypes());
  SmallVector<Location> places(types.size(), b.getLoc());
  auto loop = scf::WhileOp::create(b, types, init);
  OpBuilder::InsertionGuard guard(b);
  Block *before = b.createBlock(&loop.getBefore(), {}, types, places);
  Value isBelow = arith::CmpIOp::create(b, arith::CmpIPredicate::slt,
                                        before->getArguments().back(),
                                        constantI64(b, limit));
  scf::ConditionOp::create(b, isBelow, before->getArguments());
  Block *after = b.createBlock(&loop.getAfter(), {}, types, places);
  scf::YieldOp::create(b, body(after->getArguments()));
  return {loop.getResults().begin(), loop.getResults().end()};
}

void KernelEmitter::emitEmbeddingWalk(EmbeddingGradOp op, unsigned number,
                                      const Scratch &next,
                                      const Scratch &first) {
  int64_t count = countOf(op.getIds()), columns = shapeOf(op.getDy()).back();
  int64_t width = vectorWidth(columns);
  TeamShape shape = teamFor(columns, width);
  Type type = elementOf(op.getDy());
  // Adds the rows from `position` on to the sums of a vector of columns.
  auto walk = [&](Value position, const Index &column) {
    SmallVector<Value> state(width, math.constant(type, 0));
    state.push_back(position);
    state = whileBelow(b, count, state, [&](ValueRange carried) {
      memos.emplace_back();
      Indices indices;
      pushDims(carried.back(), shapeOf(op.getIds()), indices);
      SmallVector<Value> sums;
      for (int64_t i = 0; i < width; ++i) {
        Indices from(indices);
        from.push_back(LoopSpace::add(&b, column, LoopSpace::constant(i)));
        sums.push_back(math.add(carried[i], at(op.getDy(), from)));
      }
      popDims(indices.size());
      sums.push_back(loadScratch(next, carried.back()));
      memos.pop_back();
      return sums;
    });
    state.pop_back();
    return state;
  };
  emitStage(count, shape, [&](Value own) {
    Indices indices;
    Value row = rowOfId(op, own, indices).first;
    // Others than the first have no columns to do.
    Value isFirst =
        arith::CmpIOp::create(b, arith::CmpIPredicate::ne,
                              loadScratch(first, own), constantI64(b, 0));
    Value vectors = arith::SelectOp::create(
        b, isFirst, constantI64(b, columns / width), constantI64(b, 0));
    phase([&](Value thread) {
      stepLoop(thread, vectors, shape.threads, {},
               [&](Value vector, ValueRange) {
                 Value start =
                     arith::MulIOp::create(b, vector, constantI64(b, width));
                 Index column = space.loop(space.push(columns, start, width));
                 SmallVector<Value> sums = walk(own, column);
                 for (auto [i, sum] : llvm::enumerate(sums))
                   store(sum, outputs[number],
                         {LoopSpace::opaque(row),
                          LoopSpace::add(&b, column, LoopSpace::constant(i))});
                 space.pop();
                 return SmallVector<Value>();
               });
    });
    popDims(indices.size());
  });
}

} // namespace dpc::codegen
