//===- RowKernels.cpp - Kernels around one op on whole rows ---------------===//
#include "codegen/kernel/RowKernels.h"

#include <limits>

using namespace mlir;

namespace dpc::codegen {

Operation *findRowOp(KernelOp kernel) {
  for (Operation &op : kernel.getBody().front())
    if (isa<SoftmaxOp, SoftmaxGradOp, NormOp, NormGradOp, AttentionProbsOp,
            CrossEntropySumsOp, TopKOp, CumSumOp>(op))
      return &op;
  return nullptr;
}

bool isReduction(Operation *op) {
  return isa<ReduceOp, SumSquaresOp, EmbeddingGradOp>(op);
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

bool isSerial(Operation *rowOp) { return isa<TopKOp, CumSumOp>(rowOp); }

/// The fold of values of one type that are accumulated.
static RowFold foldOf(ElementEmitter &b, ArrayRef<ReduceKind> kinds,
                      Type type) {
  SmallVector<ReduceKind> all(kinds);
  return {SmallVector<Type>(kinds.size(), type),
          [&b, all, type] {
            SmallVector<Value> init;
            for (ReduceKind kind : all)
              init.push_back(b.math.neutral(kind, type));
            return init;
          },
          accumulation(b, kinds)};
}

/// Results that the row op needs (`before`), or that need it. What is stored
/// is read back afterwards: the row is in the nearest cache.
static void storeRowResults(ElementEmitter &b, Operation *rowOp,
                            ArrayRef<Index> row, bool before) {
  ArrayRef<int64_t> shape = shapeOf(rowOp->getOperand(0));
  SmallVector<unsigned> wide;
  for (auto [i, value] : llvm::enumerate(b.yields)) {
    if (b.stored.contains(value) || dependsOn(value, rowOp) == before)
      continue;
    if (shapeOf(value) == shape && shape.size() > 0) {
      wide.push_back(i);
      continue;
    }
    // A value per row; column sums are stored by the row op.
    bool columns = isa_and_nonnull<NormGradOp>(value.getDefiningOp()) &&
                   cast<OpResult>(value).getResultNumber() > 0;
    if (!columns && shapeOf(value) == shape.drop_back())
      b.loops->once([&, i = i, value = value] {
        b.store(b.at(value, row), b.arguments.outputs[i], row);
      });
  }
  if (wide.empty())
    return;
  b.loops->rowLoop(shape.back(), {}, [&](Index j) {
    Indices indices = append(row, j);
    SmallVector<Value> elements;
    for (unsigned i : wide)
      elements.push_back(b.at(b.yields[i], indices));
    for (auto [element, i] : llvm::zip_equal(elements, wide))
      b.store(element, b.arguments.outputs[i], indices);
  });
  for (unsigned i : wide)
    b.stored[b.yields[i]] = b.arguments.outputs[i];
}

static Value rowMax(ElementEmitter &b, Value x, ArrayRef<Index> row) {
  return b.loops->rowFold(
      foldOf(b, ReduceKind::max, computeTypeOf(x)), shapeOf(x).back(), {},
      [&](Index j, ValueRange carried) -> SmallVector<Value> {
        return {b.math.accumulate(ReduceKind::max, carried[0],
                                  b.at(x, append(row, j)))};
      })[0];
}

static void softmaxRow(ElementEmitter &b, SoftmaxOp op, ArrayRef<Index> row) {
  int64_t size = shapeOf(op.getX()).back();
  Type type = computeTypeOf(op.getX());
  Value greatest = rowMax(b, op.getX(), row);
  const MemoryRef *target = b.targetOf(op.getResult());
  Value sum = b.loops->rowFold(
      foldOf(b, ReduceKind::sum, type), size, {},
      [&](Index j, ValueRange carried) -> SmallVector<Value> {
        Indices indices = append(row, j);
        Value e = b.math.expOfDifference(b.at(op.getX(), indices), greatest);
        if (target)
          b.store(e, *target, indices);
        return {b.math.accumulate(ReduceKind::sum, carried[0], e)};
      })[0];
  Value factor = b.math.div(b.math.constant(type, 1), sum);
  if (!target) {
    b.computed[op.getResult()] = [=, &b](ArrayRef<Index> indices) mutable {
      Value x = b.at(op.getX(), indices);
      return b.math.mul(b.math.expOfDifference(x, greatest), factor);
    };
    return;
  }
  b.loops->rowLoop(size, {}, [&](Index j) {
    Indices indices = append(row, j);
    b.store(b.math.mul(b.load(*target, type, indices), factor), *target,
            indices);
  });
  b.stored[op.getResult()] = *target;
}

static void softmaxGradRow(ElementEmitter &b, SoftmaxGradOp op,
                           ArrayRef<Index> row) {
  Type type = computeTypeOf(op.getY());
  Value sum = b.loops->rowFold(
      foldOf(b, ReduceKind::sum, type), shapeOf(op.getY()).back(), {},
      [&](Index j, ValueRange carried) -> SmallVector<Value> {
        Indices indices = append(row, j);
        Value y = b.at(op.getY(), indices);
        return {b.math.accumulate(ReduceKind::sum, carried[0],
                                  b.math.mul(y, b.at(op.getDy(), indices)))};
      })[0];
  b.computed[op.getDx()] = [=, &b](ArrayRef<Index> indices) mutable {
    Value y = b.at(op.getY(), indices);
    return b.math.mul(y, b.math.sub(b.at(op.getDy(), indices), sum));
  };
}

// One pass over the row per pick: the best element that comes after the last
// pick in the order (value, position). Rows of experts are short.
static void topkRow(ElementEmitter &b, TopKOp op, ArrayRef<Index> row) {
  Type type = computeTypeOf(op.getX());
  bool smallest = op.getSmallest();
  CompareKind before = smallest ? CompareKind::lt : CompareKind::gt;
  ReduceKind worst = smallest ? ReduceKind::min : ReduceKind::max;
  ReduceKind best = smallest ? ReduceKind::max : ReduceKind::min;
  Value none = constantI64(b, -1);
  bool whole =
      isUnsigned(cast<RankedTensorType>(op.getX().getType()).getElementType());
  auto pick = [&](Index, ValueRange last) {
    return b.spaceFold(
        shapeOf(op.getX()).back(),
        ValueRange{b.math.neutral(worst, type, whole), none},
        [&](Index i, ValueRange found) -> SmallVector<Value> {
          Value x = b.at(op.getX(), append(row, i));
          Value position = b.space.materialize(b, i);
          auto less = [&](Value a, Value c) {
            return arith::CmpIOp::create(b, arith::CmpIPredicate::slt, a, c);
          };
          Value later = arith::AndIOp::create(
              b, b.math.compare(CompareKind::eq, x, last[0]),
              less(last[1], position));
          later = arith::OrIOp::create(
              b, b.math.compare(before, last[0], x, whole), later);
          Value better = arith::OrIOp::create(
              b, b.math.compare(before, x, found[0], whole),
              arith::AndIOp::create(b, less(found[1], constantI64(b, 0)),
                                    b.math.compare(CompareKind::eq, x, x)));
          Value take = arith::AndIOp::create(b, later, better);
          return {arith::SelectOp::create(b, take, x, found[0]),
                  arith::SelectOp::create(b, take, position, found[1])};
        });
  };
  const MemoryRef *values = b.targetOf(op.getValues());
  const MemoryRef *indices = b.targetOf(op.getIndices());
  b.spaceFold(shapeOf(op.getValues()).back(),
              ValueRange{b.math.neutral(best, type, whole), none},
              [&](Index j, ValueRange last) -> SmallVector<Value> {
                SmallVector<Value> picked = pick(j, last);
                if (values)
                  b.store(picked[0], *values, append(row, j));
                if (indices)
                  b.store(picked[1], *indices, append(row, j));
                return picked;
              });
  if (values)
    b.stored[op.getValues()] = *values;
  if (indices)
    b.stored[op.getIndices()] = *indices;
}

static void cumsumRow(ElementEmitter &b, CumSumOp op, ArrayRef<Index> row) {
  int64_t size = shapeOf(op.getX()).back();
  const MemoryRef *target = b.targetOf(op.getResult());
  if (!target) {
    op->emitOpError("must be a result of its kernel");
    b.failed = true;
    return;
  }
  b.spaceFold(size, b.math.constant(computeTypeOf(op.getX()), 0),
              [&](Index i, ValueRange carried) -> SmallVector<Value> {
                if (op.getReverse())
                  i = LoopSpace::opaque(arith::SubIOp::create(
                      b, constantI64(b, size - 1), b.space.materialize(b, i)));
                Value sum = b.math.binary(BinaryKind::add, carried[0],
                                          b.at(op.getX(), append(row, i)));
                b.store(op.getExclusive() ? carried[0] : sum, *target,
                        append(row, i));
                return {sum};
              });
  b.stored[op.getResult()] = *target;
}

// Two passes: the variance of the differences, so that a large mean costs no
// digits.
static void normRow(ElementEmitter &b, NormOp op, ArrayRef<Index> row) {
  int64_t size = shapeOf(op.getX()).back();
  Type type = computeTypeOf(op.getX());
  Value count = b.math.constant(type, static_cast<double>(size));
  bool layer = op.getKind() == NormKind::layer;
  Value mean = b.math.constant(type, 0);
  if (layer)
    mean = b.math.div(
        b.loops->rowFold(
            foldOf(b, ReduceKind::sum, type), size, {},
            [&](Index j, ValueRange carried) -> SmallVector<Value> {
              return {b.math.accumulate(ReduceKind::sum, carried[0],
                                        b.at(op.getX(), append(row, j)))};
            })[0],
        count);
  auto centered = [=, &b](ArrayRef<Index> indices) mutable {
    Value x = b.at(op.getX(), indices);
    return layer ? b.math.sub(x, mean) : x;
  };
  Value squares =
      b.loops->rowFold(foldOf(b, ReduceKind::sum, type), size, {},
                       [&](Index j, ValueRange carried) -> SmallVector<Value> {
                         Value d = centered(append(row, j));
                         return {b.math.accumulate(ReduceKind::sum, carried[0],
                                                   b.math.mul(d, d))};
                       })[0];
  Value variance =
      b.math.add(b.math.div(squares, count),
                 b.math.constant(type, op.getEps().convertToDouble()));
  Value rstd =
      b.math.div(b.math.constant(type, 1), math::SqrtOp::create(b, variance));
  b.computed[op.getMean()] = [=](ArrayRef<Index>) { return mean; };
  b.computed[op.getRstd()] = [=](ArrayRef<Index>) { return rstd; };
  b.computed[op.getY()] = [=, &b](ArrayRef<Index> indices) mutable {
    Value y = b.math.mul(centered(indices), rstd);
    if (op.getScale())
      y = b.math.mul(y, b.at(op.getScale(), indices.back()));
    return op.getBias() ? b.math.add(y, b.at(op.getBias(), indices.back())) : y;
  };
}

// With h = (x - mean) rstd and u = dy scale (means over the row):
// dx = rstd (u - mean(u) - h mean(u h)); rms has no mean(u).
static void normGradRow(ElementEmitter &b, NormGradOp op, ArrayRef<Index> row) {
  int64_t size = shapeOf(op.getX()).back();
  Type type = computeTypeOf(op.getX());
  bool layer = op.getKind() == NormKind::layer;
  Value rstd = b.at(op.getRstd(), row);
  Value mean = layer ? b.at(op.getMean(), row) : Value();
  auto normalized = [=, &b](ArrayRef<Index> indices) mutable {
    Value x = b.at(op.getX(), indices);
    return b.math.mul(layer ? b.math.sub(x, mean) : x, rstd);
  };
  auto upstream = [=, &b](ArrayRef<Index> indices) mutable {
    Value dy = b.at(op.getDy(), indices);
    return op.getScale() ? b.math.mul(dy, b.at(op.getScale(), indices.back()))
                         : dy;
  };
  // On a GPU, sums over rows are another stage's (GpuReductions.cpp).
  const MemoryRef *dscale = b.isForGpu() ? nullptr : b.targetOf(op.getDscale());
  const MemoryRef *dbias = b.isForGpu() ? nullptr : b.targetOf(op.getDbias());
  SmallVector<Value> sums = b.loops->rowFold(
      foldOf(b, {ReduceKind::sum, ReduceKind::sum}, type), size, {},
      [&](Index j, ValueRange carried) -> SmallVector<Value> {
        Indices indices = append(row, j);
        Value h = normalized(indices), u = upstream(indices);
        Value dy = b.at(op.getDy(), indices);
        if (dscale)
          b.store(b.math.add(b.load(*dscale, type, j), b.math.mul(dy, h)),
                  *dscale, j);
        if (dbias)
          b.store(b.math.add(b.load(*dbias, type, j), dy), *dbias, j);
        return {
            b.math.accumulate(ReduceKind::sum, carried[0], u),
            b.math.accumulate(ReduceKind::sum, carried[1], b.math.mul(u, h))};
      });
  Value scale = b.math.constant(type, 1.0 / static_cast<double>(size));
  Value meanU = b.math.mul(sums[0], scale), meanUh = b.math.mul(sums[1], scale);
  b.computed[op.getDx()] = [=, &b](ArrayRef<Index> indices) mutable {
    Value inner = upstream(indices);
    if (layer)
      inner = b.math.sub(inner, meanU);
    inner = b.math.sub(inner, b.math.mul(normalized(indices), meanUh));
    return b.math.mul(inner, rstd);
  };
}

/// Zeros from column `limit` on.
static void zeroBeyond(ElementEmitter &b, Value limit, int64_t size,
                       const MemoryRef &target, Type type,
                       ArrayRef<Index> row) {
  Value zero = b.math.constant(type, 0);
  b.loops->restLoop(size, limit, [&](Value column) {
    b.store(zero, target, append(row, LoopSpace::opaque(column)));
  });
}

/// Scales the first `limit` columns of a row by `factor`, clears those beyond.
static void normalizeProbs(ElementEmitter &b, AttentionProbsOp op,
                           ArrayRef<Index> row, const MemoryRef &target,
                           Value limit, Value factor) {
  int64_t size = shapeOf(op.getScores()).back();
  Type type = computeTypeOf(op.getScores());
  b.loops->rowLoop(size, limit, [&](Index j) {
    Indices indices = append(row, j);
    b.store(b.math.mul(b.load(target, type, indices), factor), target, indices);
  });
  if (op.getCausal())
    zeroBeyond(b, limit, size, target, type, row);
  b.stored[op.getProbs()] = target;
}

// Causal rows stop at the diagonal; what lies beyond is never read. A row whose
// every score is -inf gives zeros, not NaN, like a row without columns.
static void probsRow(ElementEmitter &b, AttentionProbsOp op,
                     ArrayRef<Index> row) {
  ArrayRef<int64_t> shape = shapeOf(op.getScores());
  int64_t size = shape.back();
  Type type = computeTypeOf(op.getScores());
  Value scale = b.math.constant(type, op.getScale().convertToDouble());
  Value limit = constantI64(b, size);
  if (op.getCausal()) {
    Value t = b.space.materialize(b, row[2]);
    Value visible =
        arith::AddIOp::create(b, t, constantI64(b, size - shape[2] + 1));
    limit = arith::MaxSIOp::create(b, constantI64(b, 0),
                                   arith::MinSIOp::create(b, limit, visible));
  }
  auto score = [&](ArrayRef<Index> indices) {
    Value x = b.math.mul(b.at(op.getScores(), indices), scale);
    return op.getMask() ? b.math.add(x, maskTerm(b, op.getMask(), indices)) : x;
  };
  Value columns = op.getCausal() ? limit : Value();
  auto fold = [&](ReduceKind kind, function_ref<Value(Indices)> body) {
    return b.loops->rowFold(
        foldOf(b, kind, type), size, columns,
        [&](Index j, ValueRange carried) -> SmallVector<Value> {
          return {b.math.accumulate(kind, carried[0], body(append(row, j)))};
        })[0];
  };
  Value greatest = fold(ReduceKind::max, score);
  Value zero = b.math.constant(type, 0);
  Value empty = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, greatest,
                                      b.math.neutral(ReduceKind::max, type));
  Value shift = arith::SelectOp::create(b, empty, zero, greatest);
  // Where a forward pass is made again, nobody may read more than lse.
  const MemoryRef *target = b.targetOf(op.getProbs());
  Value sum = fold(ReduceKind::sum, [&](Indices indices) {
    Value e = b.math.expOfDifference(score(indices), shift);
    if (target)
      b.store(e, *target, indices);
    return e;
  });
  if (target) {
    Value factor = arith::SelectOp::create(
        b, empty, zero, b.math.div(b.math.constant(type, 1), sum));
    normalizeProbs(b, op, row, *target, columns, factor);
  }
  Value lse = b.math.add(b.math.log(sum), greatest);
  b.computed[op.getLse()] = [=](ArrayRef<Index>) { return lse; };
}

/// The greatest of a row and the sum of e^(x - greatest), in one pass on GPUs,
/// where a row of logits is longer than what is near: a sum of what came so far
/// is scaled when a greater element comes (Milakov and Gimelshein, "Online
/// normalizer calculation for softmax", 2018). The least finite number stands
/// for no element, as the difference of two infinities is none.
static void findRowMax(ElementEmitter &b, CrossEntropySumsOp op, ReduceOp max,
                       ArrayRef<Index> row) {
  assert(!b.hasScalars(op) && "of columns that are not split");
  int64_t size = shapeOf(op.getLogits()).back();
  Type type = computeTypeOf(op.getLogits());
  if (!b.isForGpu() || !type.isF32()) {
    Value greatest = rowMax(b, op.getLogits(), row);
    b.computed[max.getResult()] = [=](ArrayRef<Index>) { return greatest; };
    return;
  }
  auto join = [&b](ValueRange x, ValueRange y) -> SmallVector<Value> {
    Value least = b.math.accumulate(ReduceKind::min, x[0], y[0]);
    Value most = b.math.accumulate(ReduceKind::max, x[0], y[0]);
    Value factor = b.math.expOfDifference(least, most);
    Value isGreater = b.math.compare(CompareKind::gt, y[0], x[0]);
    auto scaled = [&](Value other, Value own) {
      return b.math.accumulate(ReduceKind::sum, b.math.mul(other, factor), own);
    };
    return {most, arith::SelectOp::create(b, isGreater, scaled(x[1], y[1]),
                                          scaled(y[1], x[1]))};
  };
  auto none = [&]() -> SmallVector<Value> {
    return {b.math.constant(type, -std::numeric_limits<float>::max()),
            b.math.constant(type, 0)};
  };
  SmallVector<Value> found = b.loops->rowFold(
      {{type, type}, none, join}, size, {}, [&](Index j, ValueRange carried) {
        Value x = b.at(op.getLogits(), append(row, j));
        return join(carried, {x, b.math.constant(type, 1)});
      });
  b.computed[max.getResult()] = [=](ArrayRef<Index>) { return found[0]; };
  b.computed[op.getSumexp()] = [=](ArrayRef<Index>) { return found[1]; };
}

// Columns beyond the valid ones are padding: they may hold NaN and are not
// visited.
static void crossEntropyRow(ElementEmitter &b, CrossEntropySumsOp op,
                            ArrayRef<Index> row) {
  int64_t size = shapeOf(op.getLogits()).back();
  Type type = computeTypeOf(op.getLogits());
  Value shift = b.at(op.getRowmax(), row);
  Value valid = !b.hasScalars(op) ? Value() : b.scalar(op, 1);
  Value zero = b.math.constant(type, 0);
  if (!b.computed.count(op.getSumexp())) {
    Value sum = b.loops->rowFold(
        foldOf(b, ReduceKind::sum, type), size, valid,
        [&](Index j, ValueRange carried) -> SmallVector<Value> {
          Value x = b.at(op.getLogits(), append(row, j));
          return {b.math.accumulate(ReduceKind::sum, carried[0],
                                    b.math.expOfDifference(x, shift))};
        })[0];
    b.computed[op.getSumexp()] = [=](ArrayRef<Index>) { return sum; };
  }
  auto [column, found] = lookUp(b, op, b.at(op.getLabels(), row), size);
  Value safe = arith::SelectOp::create(b, found, column, constantI64(b, 0));
  Value logit = b.at(op.getLogits(), append(row, LoopSpace::opaque(safe)));
  Value picked = arith::SelectOp::create(b, found, logit, zero);
  b.computed[op.getPicked()] = [=](ArrayRef<Index>) { return picked; };
}

void emitRow(ElementEmitter &b, Operation *rowOp, ArrayRef<Index> row) {
  if (auto sums = dyn_cast<CrossEntropySumsOp>(rowOp))
    if (auto max = sums.getRowmax().getDefiningOp<ReduceOp>())
      findRowMax(b, sums, max, row);
  storeRowResults(b, rowOp, row, /*before=*/true);
  TypeSwitch<Operation *>(rowOp)
      .Case([&](SoftmaxOp op) { softmaxRow(b, op, row); })
      .Case([&](SoftmaxGradOp op) { softmaxGradRow(b, op, row); })
      .Case([&](TopKOp op) { b.loops->once([&] { topkRow(b, op, row); }); })
      .Case([&](CumSumOp op) { b.loops->once([&] { cumsumRow(b, op, row); }); })
      .Case([&](NormOp op) { normRow(b, op, row); })
      .Case([&](NormGradOp op) { normGradRow(b, op, row); })
      .Case([&](AttentionProbsOp op) { probsRow(b, op, row); })
      .Case([&](CrossEntropySumsOp op) { crossEntropyRow(b, op, row); });
  storeRowResults(b, rowOp, row, /*before=*/false);
  b.stored.clear();
  b.computed.clear();
}

} // namespace dpc::codegen
