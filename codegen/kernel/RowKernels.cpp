//===- RowKernels.cpp - Kernels around one op on whole rows ---------------===//
#include "codegen/kernel/KernelEmitter.h"
#include "codegen/kernel/KernelScalars.h"

#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <limits>

using namespace mlir;

namespace dpc::codegen {

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}
static Type elementOf(Value value) { return computeTypeOf(value); }

Operation *findRowOp(KernelOp kernel) {
  for (Operation &op : kernel.getBody().front())
    if (isa<SoftmaxOp, SoftmaxGradOp, NormOp, NormGradOp, AttentionProbsOp,
            CrossEntropySumsOp, TopKOp, CumSumOp>(op))
      return &op;
  return nullptr;
}

static Indices append(ArrayRef<Index> row, Index column) {
  Indices indices(row);
  indices.push_back(column);
  return indices;
}

/// True when `value` is computed from `op` inside the kernel.
static bool dependsOn(Value value, Operation *op) {
  SmallVector<Value> worklist{value};
  llvm::SmallPtrSet<Operation *, 16> seen;
  while (!worklist.empty()) {
    Operation *def = worklist.pop_back_val().getDefiningOp();
    if (!def || !seen.insert(def).second)
      continue;
    if (def == op)
      return true;
    worklist.append(def->operand_begin(), def->operand_end());
  }
  return false;
}

LogicalResult KernelEmitter::emitRows(Operation *rowOp) {
  ArrayRef<int64_t> shape = shapeOf(rowOp->getOperand(0));
  // Column sums grow over the rows.
  if (auto grad = dyn_cast<NormGradOp>(rowOp))
    for (auto [value, target] : llvm::zip_equal(yields, outputs))
      if (value == grad.getDscale() || value == grad.getDbias())
        fill(target, elementOf(value), 0);
  Indices row;
  spaceLoops(shape.drop_back(), row, [&] { emitRow(rowOp, row); });
  return success();
}

/// Whether a thread by itself does a row: the op goes through it in order.
static bool isSerial(Operation *rowOp) { return isa<TopKOp, CumSumOp>(rowOp); }

void KernelEmitter::emitRowStage(Operation *rowOp) {
  ArrayRef<int64_t> shape = shapeOf(rowOp->getOperand(0));
  int64_t rows = 1;
  for (int64_t size : shape.drop_back())
    rows *= size;
  TeamShape shapeOfTeam = teamFor(shape.back(), vectorWidth(shape.back()));
  if (isSerial(rowOp))
    shapeOfTeam = {1, kBlock / 2};
  emitStage(rows, shapeOfTeam, [&](Value number) {
    Indices row;
    pushDims(number, shape.drop_back(), row);
    emitRow(rowOp, row);
    popDims(row.size());
  });
}

void KernelEmitter::emitRow(Operation *rowOp, ArrayRef<Index> row) {
  if (auto sums = dyn_cast<CrossEntropySumsOp>(rowOp))
    if (auto max = sums.getRowmax().getDefiningOp<ReduceOp>())
      findRowMax(sums, max, row);
  storeRowResults(rowOp, row, /*before=*/true);
  TypeSwitch<Operation *>(rowOp)
      .Case([&](SoftmaxOp op) { softmaxRow(op, row); })
      .Case([&](SoftmaxGradOp op) { softmaxGradRow(op, row); })
      .Case([&](TopKOp op) { once([&] { topkRow(op, row); }); })
      .Case([&](CumSumOp op) { once([&] { cumsumRow(op, row); }); })
      .Case([&](NormOp op) { normRow(op, row); })
      .Case([&](NormGradOp op) { normGradRow(op, row); })
      .Case([&](AttentionProbsOp op) { probsRow(op, row); })
      .Case([&](CrossEntropySumsOp op) { crossEntropyRow(op, row); });
  storeRowResults(rowOp, row, /*before=*/false);
  stored.clear();
  computed.clear();
}

/// Results that the row op needs (`before`), or that need it. What is stored
/// is read back afterwards: the row is in the nearest cache.
void KernelEmitter::storeRowResults(Operation *rowOp, ArrayRef<Index> row,
                                    bool before) {
  ArrayRef<int64_t> shape = shapeOf(rowOp->getOperand(0));
  SmallVector<unsigned> wide;
  for (auto [i, value] : llvm::enumerate(yields)) {
    if (stored.contains(value) || dependsOn(value, rowOp) == before)
      continue;
    if (shapeOf(value) == shape && shape.size() > 0) {
      wide.push_back(i);
      continue;
    }
    // A value per row; column sums are stored by the row op.
    bool columns = isa_and_nonnull<NormGradOp>(value.getDefiningOp()) &&
                   cast<OpResult>(value).getResultNumber() > 0;
    if (!columns && shapeOf(value) == shape.drop_back())
      once([&, i = i, value = value] {
        store(at(value, row), outputs[i], row);
      });
  }
  if (wide.empty())
    return;
  rowLoop(shape.back(), {}, [&](Index j) {
    Indices indices = append(row, j);
    SmallVector<Value> elements;
    for (unsigned i : wide)
      elements.push_back(at(yields[i], indices));
    for (auto [element, i] : llvm::zip_equal(elements, wide))
      store(element, outputs[i], indices);
  });
  for (unsigned i : wide)
    stored[yields[i]] = outputs[i];
}

Value KernelEmitter::rowMax(Value x, ArrayRef<Index> row) {
  return rowFold(ReduceKind::max, elementOf(x), shapeOf(x).back(), {},
                 [&](Index j, ValueRange carried) -> SmallVector<Value> {
                   return {math.accumulate(ReduceKind::max, carried[0],
                                           at(x, append(row, j)))};
                 })[0];
}

void KernelEmitter::softmaxRow(SoftmaxOp op, ArrayRef<Index> row) {
  int64_t size = shapeOf(op.getX()).back();
  Type type = elementOf(op.getX());
  Value greatest = rowMax(op.getX(), row);
  const MemoryRef *target = targetOf(op.getResult());
  Value sum =
      rowFold(ReduceKind::sum, type, size, {},
              [&](Index j, ValueRange carried) -> SmallVector<Value> {
                Indices indices = append(row, j);
                Value e =
                    math.expOfDifference(at(op.getX(), indices), greatest);
                if (target)
                  store(e, *target, indices);
                return {math.accumulate(ReduceKind::sum, carried[0], e)};
              })[0];
  Value factor = math.div(math.constant(type, 1), sum);
  if (!target) {
    computed[op.getResult()] = [=, this](ArrayRef<Index> indices) mutable {
      Value x = at(op.getX(), indices);
      return math.mul(math.expOfDifference(x, greatest), factor);
    };
    return;
  }
  rowLoop(size, {}, [&](Index j) {
    Indices indices = append(row, j);
    store(math.mul(load(*target, type, indices), factor), *target, indices);
  });
  stored[op.getResult()] = *target;
}

void KernelEmitter::softmaxGradRow(SoftmaxGradOp op, ArrayRef<Index> row) {
  Type type = elementOf(op.getY());
  Value sum =
      rowFold(ReduceKind::sum, type, shapeOf(op.getY()).back(), {},
              [&](Index j, ValueRange carried) -> SmallVector<Value> {
                Indices indices = append(row, j);
                Value y = at(op.getY(), indices);
                return {math.accumulate(ReduceKind::sum, carried[0],
                                        math.mul(y, at(op.getDy(), indices)))};
              })[0];
  computed[op.getDx()] = [=, this](ArrayRef<Index> indices) mutable {
    Value y = at(op.getY(), indices);
    return math.mul(y, math.sub(at(op.getDy(), indices), sum));
  };
}

const MemoryRef *KernelEmitter::targetOf(Value value) const {
  const auto *it = llvm::find(yields, value);
  return it == yields.end() ? nullptr : &outputs[it - yields.begin()];
}

// One pass over the row per pick: the best element that comes after the last
// pick in the order (value, position). Rows of experts are short.
void KernelEmitter::topkRow(TopKOp op, ArrayRef<Index> row) {
  Type type = elementOf(op.getX());
  bool smallest = op.getSmallest();
  CompareKind before = smallest ? CompareKind::lt : CompareKind::gt;
  ReduceKind worst = smallest ? ReduceKind::min : ReduceKind::max;
  ReduceKind best = smallest ? ReduceKind::max : ReduceKind::min;
  Value none = constantI64(b, -1);
  bool whole =
      isUnsigned(cast<RankedTensorType>(op.getX().getType()).getElementType());
  auto pick = [&](Index, ValueRange last) {
    return spaceFold(
        shapeOf(op.getX()).back(),
        ValueRange{math.neutral(worst, type, whole), none},
        [&](Index i, ValueRange found) -> SmallVector<Value> {
          Value x = at(op.getX(), append(row, i));
          Value position = space.materialize(b, i);
          auto less = [&](Value a, Value c) {
            return arith::CmpIOp::create(b, arith::CmpIPredicate::slt, a, c);
          };
          Value later = arith::AndIOp::create(
              b, math.compare(CompareKind::eq, x, last[0]),
              less(last[1], position));
          later = arith::OrIOp::create(
              b, math.compare(before, last[0], x, whole), later);
          Value better = arith::OrIOp::create(
              b, math.compare(before, x, found[0], whole),
              arith::AndIOp::create(b, less(found[1], constantI64(b, 0)),
                                    math.compare(CompareKind::eq, x, x)));
          Value take = arith::AndIOp::create(b, later, better);
          return {arith::SelectOp::create(b, take, x, found[0]),
                  arith::SelectOp::create(b, take, position, found[1])};
        });
  };
  const MemoryRef *values = targetOf(op.getValues());
  const MemoryRef *indices = targetOf(op.getIndices());
  spaceFold(shapeOf(op.getValues()).back(),
            ValueRange{math.neutral(best, type, whole), none},
            [&](Index j, ValueRange last) -> SmallVector<Value> {
              SmallVector<Value> picked = pick(j, last);
              if (values)
                store(picked[0], *values, append(row, j));
              if (indices)
                store(picked[1], *indices, append(row, j));
              return picked;
            });
  if (values)
    stored[op.getValues()] = *values;
  if (indices)
    stored[op.getIndices()] = *indices;
}

void KernelEmitter::cumsumRow(CumSumOp op, ArrayRef<Index> row) {
  int64_t size = shapeOf(op.getX()).back();
  const MemoryRef *target = targetOf(op.getResult());
  if (!target) {
    op->emitOpError("must be a result of its kernel");
    failed = true;
    return;
  }
  spaceFold(size, math.constant(elementOf(op.getX()), 0),
            [&](Index i, ValueRange carried) -> SmallVector<Value> {
              if (op.getReverse())
                i = LoopSpace::opaque(arith::SubIOp::create(
                    b, constantI64(b, size - 1), space.materialize(b, i)));
              Value sum = math.binary(BinaryKind::add, carried[0],
                                      at(op.getX(), append(row, i)));
              store(op.getExclusive() ? carried[0] : sum, *target,
                    append(row, i));
              return {sum};
            });
  stored[op.getResult()] = *target;
}

// Two passes: the variance of the differences, so that a large mean costs no
// digits.
void KernelEmitter::normRow(NormOp op, ArrayRef<Index> row) {
  int64_t size = shapeOf(op.getX()).back();
  Type type = elementOf(op.getX());
  Value count = math.constant(type, static_cast<double>(size));
  bool layer = op.getKind() == NormKind::layer;
  Value mean = math.constant(type, 0);
  if (layer)
    mean = math.div(
        rowFold(ReduceKind::sum, type, size, {},
                [&](Index j, ValueRange carried) -> SmallVector<Value> {
                  return {math.accumulate(ReduceKind::sum, carried[0],
                                          at(op.getX(), append(row, j)))};
                })[0],
        count);
  auto centered = [=, this](ArrayRef<Index> indices) mutable {
    Value x = at(op.getX(), indices);
    return layer ? math.sub(x, mean) : x;
  };
  Value squares = rowFold(
      ReduceKind::sum, type, size, {},
      [&](Index j, ValueRange carried) -> SmallVector<Value> {
        Value d = centered(append(row, j));
        return {math.accumulate(ReduceKind::sum, carried[0], math.mul(d, d))};
      })[0];
  Value variance = math.add(math.div(squares, count),
                            math.constant(type, op.getEps().convertToDouble()));
  Value rstd =
      math.div(math.constant(type, 1), math::SqrtOp::create(b, variance));
  computed[op.getMean()] = [=](ArrayRef<Index>) { return mean; };
  computed[op.getRstd()] = [=](ArrayRef<Index>) { return rstd; };
  computed[op.getY()] = [=, this](ArrayRef<Index> indices) mutable {
    Value y = math.mul(centered(indices), rstd);
    if (op.getScale())
      y = math.mul(y, at(op.getScale(), indices.back()));
    return op.getBias() ? math.add(y, at(op.getBias(), indices.back())) : y;
  };
}

// With h = (x - mean) rstd and u = dy scale (means over the row):
// dx = rstd (u - mean(u) - h mean(u h)); rms has no mean(u).
void KernelEmitter::normGradRow(NormGradOp op, ArrayRef<Index> row) {
  int64_t size = shapeOf(op.getX()).back();
  Type type = elementOf(op.getX());
  bool layer = op.getKind() == NormKind::layer;
  Value rstd = at(op.getRstd(), row);
  Value mean = layer ? at(op.getMean(), row) : Value();
  auto normalized = [=, this](ArrayRef<Index> indices) mutable {
    Value x = at(op.getX(), indices);
    return math.mul(layer ? math.sub(x, mean) : x, rstd);
  };
  auto upstream = [=, this](ArrayRef<Index> indices) mutable {
    Value dy = at(op.getDy(), indices);
    return op.getScale() ? math.mul(dy, at(op.getScale(), indices.back())) : dy;
  };
  // On a GPU, sums over rows are another stage's (GpuReduce.cpp).
  const MemoryRef *dscale = onGpu() ? nullptr : targetOf(op.getDscale());
  const MemoryRef *dbias = onGpu() ? nullptr : targetOf(op.getDbias());
  SmallVector<Value> sums = rowFold(
      {ReduceKind::sum, ReduceKind::sum}, type, size, {},
      [&](Index j, ValueRange carried) -> SmallVector<Value> {
        Indices indices = append(row, j);
        Value h = normalized(indices), u = upstream(indices);
        Value dy = at(op.getDy(), indices);
        if (dscale)
          store(math.add(load(*dscale, type, j), math.mul(dy, h)), *dscale, j);
        if (dbias)
          store(math.add(load(*dbias, type, j), dy), *dbias, j);
        return {math.accumulate(ReduceKind::sum, carried[0], u),
                math.accumulate(ReduceKind::sum, carried[1], math.mul(u, h))};
      });
  Value scale = math.constant(type, 1.0 / static_cast<double>(size));
  Value meanU = math.mul(sums[0], scale), meanUh = math.mul(sums[1], scale);
  computed[op.getDx()] = [=, this](ArrayRef<Index> indices) mutable {
    Value inner = upstream(indices);
    if (layer)
      inner = math.sub(inner, meanU);
    inner = math.sub(inner, math.mul(normalized(indices), meanUh));
    return math.mul(inner, rstd);
  };
}

/// The mask's element; unit dimensions repeat.
Value KernelEmitter::maskTerm(Value mask, ArrayRef<Index> indices) {
  Indices inner;
  for (auto [size, index] : llvm::zip_equal(shapeOf(mask), indices))
    inner.push_back(size == 1 ? LoopSpace::constant(0) : index);
  return at(mask, inner);
}

/// Zeros from column `limit` on.
void KernelEmitter::zeroBeyond(Value limit, int64_t size,
                               const MemoryRef &target, Type type,
                               ArrayRef<Index> row) {
  Value zero = math.constant(type, 0);
  auto clear = [&](Value column, ValueRange) {
    store(zero, target, append(row, LoopSpace::opaque(column)));
    return SmallVector<Value>();
  };
  if (onGpu())
    return phase([&](Value thread) {
      stepLoop(arith::AddIOp::create(b, limit, thread), constantI64(b, size),
               team.threads, {}, clear);
    });
  Value rest = arith::SubIOp::create(b, constantI64(b, size), limit);
  foldLoop(rest, {}, [&](Value i, ValueRange none) {
    return clear(arith::AddIOp::create(b, i, limit), none);
  });
}

/// Scales the first `limit` columns of a row by `factor`, clears those beyond.
void KernelEmitter::normalizeProbs(AttentionProbsOp op, ArrayRef<Index> row,
                                   const MemoryRef &target, Value limit,
                                   Value factor) {
  int64_t size = shapeOf(op.getScores()).back();
  Type type = elementOf(op.getScores());
  rowLoop(size, limit, [&](Index j) {
    Indices indices = append(row, j);
    store(math.mul(load(target, type, indices), factor), target, indices);
  });
  if (op.getCausal())
    zeroBeyond(limit, size, target, type, row);
  stored[op.getProbs()] = target;
}

// Causal rows stop at the diagonal; what lies beyond is never read. A row whose
// every score is -inf gives zeros, not NaN, like a row without columns.
void KernelEmitter::probsRow(AttentionProbsOp op, ArrayRef<Index> row) {
  ArrayRef<int64_t> shape = shapeOf(op.getScores());
  int64_t size = shape.back();
  Type type = elementOf(op.getScores());
  Value scale = math.constant(type, op.getScale().convertToDouble());
  Value limit = constantI64(b, size);
  if (op.getCausal()) {
    Value t = space.materialize(b, row[2]);
    Value visible =
        arith::AddIOp::create(b, t, constantI64(b, size - shape[2] + 1));
    limit = arith::MaxSIOp::create(b, constantI64(b, 0),
                                   arith::MinSIOp::create(b, limit, visible));
  }
  auto score = [&](ArrayRef<Index> indices) {
    Value x = math.mul(at(op.getScores(), indices), scale);
    return op.getMask() ? math.add(x, maskTerm(op.getMask(), indices)) : x;
  };
  Value columns = op.getCausal() ? limit : Value();
  auto fold = [&](ReduceKind kind, function_ref<Value(Indices)> body) {
    return rowFold(
        kind, type, size, columns,
        [&](Index j, ValueRange carried) -> SmallVector<Value> {
          return {math.accumulate(kind, carried[0], body(append(row, j)))};
        })[0];
  };
  Value greatest = fold(ReduceKind::max, score);
  Value zero = math.constant(type, 0);
  Value empty = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, greatest,
                                      math.neutral(ReduceKind::max, type));
  Value shift = arith::SelectOp::create(b, empty, zero, greatest);
  // Where a forward pass is made again, nobody may read more than lse.
  const MemoryRef *target = targetOf(op.getProbs());
  Value sum = fold(ReduceKind::sum, [&](Indices indices) {
    Value e = math.expOfDifference(score(indices), shift);
    if (target)
      store(e, *target, indices);
    return e;
  });
  if (target) {
    Value factor = arith::SelectOp::create(
        b, empty, zero, math.div(math.constant(type, 1), sum));
    normalizeProbs(op, row, *target, columns, factor);
  }
  Value lse = math.add(math.log(sum), greatest);
  computed[op.getLse()] = [=](ArrayRef<Index>) { return lse; };
}

/// The greatest of a row and the sum of e^(x - greatest), in one pass on GPUs,
/// where a row of logits is longer than what is near: a sum of what came so far
/// is scaled when a greater element comes (Milakov and Gimelshein, "Online
/// normalizer calculation for softmax", 2018). The least finite number stands
/// for no element, as the difference of two infinities is none.
void KernelEmitter::findRowMax(CrossEntropySumsOp op, ReduceOp max,
                               ArrayRef<Index> row) {
  assert(scalars[op].empty() && "of columns that are not split");
  int64_t size = shapeOf(op.getLogits()).back();
  Type type = elementOf(op.getLogits());
  if (!onGpu() || !type.isF32()) {
    Value greatest = rowMax(op.getLogits(), row);
    computed[max.getResult()] = [=](ArrayRef<Index>) { return greatest; };
    return;
  }
  auto join = [this](ValueRange x, ValueRange y) -> SmallVector<Value> {
    Value least = math.accumulate(ReduceKind::min, x[0], y[0]);
    Value most = math.accumulate(ReduceKind::max, x[0], y[0]);
    Value factor = math.expOfDifference(least, most);
    Value isGreater = math.compare(CompareKind::gt, y[0], x[0]);
    auto scaled = [&](Value other, Value own) {
      return math.accumulate(ReduceKind::sum, math.mul(other, factor), own);
    };
    return {most, arith::SelectOp::create(b, isGreater, scaled(x[1], y[1]),
                                          scaled(y[1], x[1]))};
  };
  SmallVector<Value> found = fold({type, type}, join, [&](Value thread) {
    SmallVector<Value> none = {
        math.constant(type, -std::numeric_limits<float>::max()),
        math.constant(type, 0)};
    return threadColumns(thread, size, {}, none,
                         [&](Index j, ValueRange carried) {
                           Value x = at(op.getLogits(), append(row, j));
                           return join(carried, {x, math.constant(type, 1)});
                         });
  });
  computed[max.getResult()] = [=](ArrayRef<Index>) { return found[0]; };
  computed[op.getSumexp()] = [=](ArrayRef<Index>) { return found[1]; };
}

// Columns beyond the valid ones are padding: they may hold NaN and are not
// visited.
void KernelEmitter::crossEntropyRow(CrossEntropySumsOp op,
                                    ArrayRef<Index> row) {
  int64_t size = shapeOf(op.getLogits()).back();
  Type type = elementOf(op.getLogits());
  Value shift = at(op.getRowmax(), row);
  Value valid = scalars[op].empty() ? Value() : scalar(op, 1);
  Value zero = math.constant(type, 0);
  if (!computed.count(op.getSumexp())) {
    Value sum =
        rowFold(ReduceKind::sum, type, size, valid,
                [&](Index j, ValueRange carried) -> SmallVector<Value> {
                  Value x = at(op.getLogits(), append(row, j));
                  return {math.accumulate(ReduceKind::sum, carried[0],
                                          math.expOfDifference(x, shift))};
                })[0];
    computed[op.getSumexp()] = [=](ArrayRef<Index>) { return sum; };
  }
  auto [column, found] = lookup(op, at(op.getLabels(), row), size);
  Value safe = arith::SelectOp::create(b, found, column, constantI64(b, 0));
  Value logit = at(op.getLogits(), append(row, LoopSpace::opaque(safe)));
  Value picked = arith::SelectOp::create(b, found, logit, zero);
  computed[op.getPicked()] = [=](ArrayRef<Index>) { return picked; };
}

} // namespace dpc::codegen
