//===- RowKernels.cpp - Kernels with one op on whole rows -----------------===//
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

static bool dependsOn(Value value, Operation *op) {
  Values worklist{value};
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

static RowFold foldOf(ElementEmitter &b, ArrayRef<ReduceKind> kinds,
                      Type type) {
  SmallVector<ReduceKind> all(kinds);
  return {SmallVector<Type>(kinds.size(), type),
          [&b, all, type] {
            Values init;
            for (ReduceKind kind : all)
              init.push_back(b.math.neutral(kind, type));
            return init;
          },
          accumulation(b, kinds)};
}

/// With `before`, stores the results that the row op needs, otherwise the
/// results that depend on the row op. Later code loads them again, which is
/// fast because the row is in the L1 cache.
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
    // Stores results with one value per row, except dscale and dbias (sums over
    // rows), which the row op stores.
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
    Values elements;
    for (unsigned i : wide)
      elements.push_back(b.at(b.yields[i], indices));
    for (auto [element, i] : llvm::zip_equal(elements, wide))
      b.store(element, b.arguments.outputs[i], indices);
  });
  for (unsigned i : wide)
    b.stored[b.yields[i]] = b.arguments.outputs[i];
}

/// A null `limit` means all columns.
static Value reduceRow(ElementEmitter &b, ReduceKind kind, Value x,
                       ArrayRef<Index> row,
                       function_ref<Value(ArrayRef<Index>)> element,
                       Value limit = {}) {
  return b.loops->rowFold(
      foldOf(b, kind, computeTypeOf(x)), shapeOf(x).back(), limit,
      [&](Index j, ValueRange carried) -> Values {
        return {b.math.accumulate(kind, carried[0], element(append(row, j)))};
      })[0];
}

static Value rowMax(ElementEmitter &b, Value x, ArrayRef<Index> row) {
  return reduceRow(b, ReduceKind::max, x, row,
                   [&](ArrayRef<Index> indices) { return b.at(x, indices); });
}

static void softmaxRow(ElementEmitter &b, SoftmaxOp op, ArrayRef<Index> row) {
  int64_t size = shapeOf(op.getX()).back();
  Type type = computeTypeOf(op.getX());
  Value greatest = rowMax(b, op.getX(), row);
  const MemoryRef *target = b.targetOf(op.getResult());
  auto exponential = [&](ArrayRef<Index> indices) {
    Value e = b.math.expOfDifference(b.at(op.getX(), indices), greatest);
    if (target)
      b.store(e, *target, indices);
    return e;
  };
  Value sum = reduceRow(b, ReduceKind::sum, op.getX(), row, exponential);
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
  auto product = [&](ArrayRef<Index> indices) {
    Value y = b.at(op.getY(), indices);
    return b.math.mul(y, b.at(op.getDy(), indices));
  };
  Value sum = reduceRow(b, ReduceKind::sum, op.getY(), row, product);
  b.computed[op.getDx()] = [=, &b](ArrayRef<Index> indices) mutable {
    Value y = b.at(op.getY(), indices);
    return b.math.mul(y, b.math.sub(b.at(op.getDy(), indices), sum));
  };
}

// Each pick is one pass over the row. It takes the best element after the
// previous pick, in the order (value, position). Rows of experts are short.
static void topkRow(ElementEmitter &b, TopKOp op, ArrayRef<Index> row) {
  Type type = computeTypeOf(op.getX());
  bool smallest = op.getSmallest();
  CompareKind before = smallest ? CompareKind::lt : CompareKind::gt;
  ReduceKind worst = smallest ? ReduceKind::min : ReduceKind::max;
  ReduceKind best = smallest ? ReduceKind::max : ReduceKind::min;
  Value none = constantI64(b, -1);
  bool whole = isUnsigned(elementTypeOf(op.getX()));
  auto pick = [&](Index, ValueRange last) {
    return b.spaceFold(
        shapeOf(op.getX()).back(),
        ValueRange{b.math.neutral(worst, type, whole), none},
        [&](Index i, ValueRange found) -> Values {
          Value x = b.at(op.getX(), append(row, i));
          Value position = b.space.materialize(b, i);
          auto less = [&](Value a, Value c) {
            return cmp(b, IntPredicate::slt, a, c);
          };
          Value later = andI(b, b.math.compare(CompareKind::eq, x, last[0]),
                             less(last[1], position));
          later = orI(b, b.math.compare(before, last[0], x, whole), later);
          Value better = orI(b, b.math.compare(before, x, found[0], whole),
                             andI(b, less(found[1], constantI64(b, 0)),
                                  b.math.compare(CompareKind::eq, x, x)));
          Value take = andI(b, later, better);
          return {select(b, take, x, found[0]),
                  select(b, take, position, found[1])};
        });
  };
  const MemoryRef *values = b.targetOf(op.getValues());
  const MemoryRef *indices = b.targetOf(op.getIndices());
  b.spaceFold(shapeOf(op.getValues()).back(),
              ValueRange{b.math.neutral(best, type, whole), none},
              [&](Index j, ValueRange last) -> Values {
                Values picked = pick(j, last);
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
              [&](Index i, ValueRange carried) -> Values {
                if (op.getReverse())
                  i = LoopSpace::opaque(subI(b, constantI64(b, size - 1),
                                             b.space.materialize(b, i)));
                Value sum = b.math.binary(BinaryKind::add, carried[0],
                                          b.at(op.getX(), append(row, i)));
                b.store(op.getExclusive() ? carried[0] : sum, *target,
                        append(row, i));
                return {sum};
              });
  b.stored[op.getResult()] = *target;
}

// Makes two passes and computes the variance from differences to the mean. Thus
// a large mean does not cost digits.
static void normRow(ElementEmitter &b, NormOp op, ArrayRef<Index> row) {
  int64_t size = shapeOf(op.getX()).back();
  Type type = computeTypeOf(op.getX());
  Value count = b.math.constant(type, static_cast<double>(size));
  bool layer = op.getKind() == NormKind::layer;
  Value mean = b.math.constant(type, 0);
  if (layer)
    mean = b.math.div(reduceRow(b, ReduceKind::sum, op.getX(), row,
                                [&](ArrayRef<Index> indices) {
                                  return b.at(op.getX(), indices);
                                }),
                      count);
  auto centered = [=, &b](ArrayRef<Index> indices) mutable {
    Value x = b.at(op.getX(), indices);
    return layer ? b.math.sub(x, mean) : x;
  };
  auto square = [&](ArrayRef<Index> indices) {
    Value d = centered(indices);
    return b.math.mul(d, d);
  };
  Value squares = reduceRow(b, ReduceKind::sum, op.getX(), row, square);
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

// With h = (x - mean) rstd and u = dy scale, dx = rstd (u - mean(u) - h mean(u
// h)), where mean() is over the row. For rms, mean(u) is absent.
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
  // On a GPU another stage computes the sums over rows (GpuReductions.cpp).
  const MemoryRef *dscale = b.isForGpu() ? nullptr : b.targetOf(op.getDscale());
  const MemoryRef *dbias = b.isForGpu() ? nullptr : b.targetOf(op.getDbias());
  Values sums = b.loops->rowFold(
      foldOf(b, {ReduceKind::sum, ReduceKind::sum}, type), size, {},
      [&](Index j, ValueRange carried) -> Values {
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

static void normalizeProbs(ElementEmitter &b, AttentionProbsOp op,
                           ArrayRef<Index> row, const MemoryRef &target,
                           Value limit, Value factor) {
  int64_t size = shapeOf(op.getScores()).back();
  Type type = computeTypeOf(op.getScores());
  b.loops->rowLoop(size, limit, [&](Index j) {
    Indices indices = append(row, j);
    b.store(b.math.mul(b.load(target, type, indices), factor), target, indices);
  });
  if (op.getCausal()) {
    Value zero = b.math.constant(type, 0);
    b.loops->restLoop(size, limit, [&](Value column) {
      b.store(zero, target, append(row, LoopSpace::opaque(column)));
    });
  }
  b.stored[op.getProbs()] = target;
}

// A causal row ends at the diagonal; later elements are not read. A row without
// columns, or with only scores of -inf, gives zeros instead of NaN.
static void probsRow(ElementEmitter &b, AttentionProbsOp op,
                     ArrayRef<Index> row) {
  ArrayRef<int64_t> shape = shapeOf(op.getScores());
  int64_t size = shape.back();
  Type type = computeTypeOf(op.getScores());
  Value scale = b.math.constant(type, op.getScale().convertToDouble());
  Value limit = constantI64(b, size);
  if (op.getCausal()) {
    Value t = b.space.materialize(b, row[2]);
    Value visible = addI(b, t, size - shape[2] + 1);
    limit = maxS(b, constantI64(b, 0), minS(b, limit, visible));
  }
  auto score = [&](ArrayRef<Index> indices) {
    Value x = b.math.mul(b.at(op.getScores(), indices), scale);
    return op.getMask() ? b.math.add(x, maskTerm(b, op.getMask(), indices)) : x;
  };
  Value columns = op.getCausal() ? limit : Value();
  Value greatest =
      reduceRow(b, ReduceKind::max, op.getScores(), row, score, columns);
  Value zero = b.math.constant(type, 0);
  Value empty = cmp(b, FloatPredicate::OEQ, greatest,
                    b.math.neutral(ReduceKind::max, type));
  Value shift = select(b, empty, zero, greatest);
  // Null if the kernel yields only lse, as in a recomputed forward pass.
  const MemoryRef *target = b.targetOf(op.getProbs());
  auto exponential = [&](ArrayRef<Index> indices) {
    Value e = b.math.expOfDifference(score(indices), shift);
    if (target)
      b.store(e, *target, indices);
    return e;
  };
  Value sum =
      reduceRow(b, ReduceKind::sum, op.getScores(), row, exponential, columns);
  if (target) {
    Value factor =
        select(b, empty, zero, b.math.div(b.math.constant(type, 1), sum));
    normalizeProbs(b, op, row, *target, columns, factor);
  }
  Value lse = b.math.add(b.math.log(sum), greatest);
  b.computed[op.getLse()] = [=](ArrayRef<Index>) { return lse; };
}

/// Computes the maximum of a row and the sum of e^(x - maximum). On GPUs, where
/// a row of logits does not fit in fast memory, one pass does both: a larger
/// element rescales the sum of the previous elements (Milakov and Gimelshein,
/// "Online normalizer calculation for softmax", 2018). The lowest finite number
/// is the initial maximum, since the difference of two infinities is NaN.
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
  auto join = [&b](ValueRange x, ValueRange y) -> Values {
    Value least = b.math.accumulate(ReduceKind::min, x[0], y[0]);
    Value most = b.math.accumulate(ReduceKind::max, x[0], y[0]);
    Value factor = b.math.expOfDifference(least, most);
    Value isGreater = b.math.compare(CompareKind::gt, y[0], x[0]);
    auto scaled = [&](Value other, Value own) {
      return b.math.accumulate(ReduceKind::sum, b.math.mul(other, factor), own);
    };
    return {most, select(b, isGreater, scaled(x[1], y[1]), scaled(y[1], x[1]))};
  };
  auto none = [&]() -> Values {
    return {b.math.constant(type, -std::numeric_limits<float>::max()),
            b.math.constant(type, 0)};
  };
  Values found = b.loops->rowFold(
      {{type, type}, none, join}, size, {}, [&](Index j, ValueRange carried) {
        Value x = b.at(op.getLogits(), append(row, j));
        return join(carried, {x, b.math.constant(type, 1)});
      });
  b.computed[max.getResult()] = [=](ArrayRef<Index>) { return found[0]; };
  b.computed[op.getSumexp()] = [=](ArrayRef<Index>) { return found[1]; };
}

// Columns at and after the valid size are padding, which may be NaN.
static void crossEntropyRow(ElementEmitter &b, CrossEntropySumsOp op,
                            ArrayRef<Index> row) {
  int64_t size = shapeOf(op.getLogits()).back();
  Type type = computeTypeOf(op.getLogits());
  Value shift = b.at(op.getRowmax(), row);
  Value valid = !b.hasScalars(op) ? Value() : b.scalar(op, 1);
  Value zero = b.math.constant(type, 0);
  if (!b.computed.count(op.getSumexp())) {
    auto exponential = [&](ArrayRef<Index> indices) {
      return b.math.expOfDifference(b.at(op.getLogits(), indices), shift);
    };
    Value sum =
        reduceRow(b, ReduceKind::sum, op.getLogits(), row, exponential, valid);
    b.computed[op.getSumexp()] = [=](ArrayRef<Index>) { return sum; };
  }
  auto [column, found] = lookUp(b, op, b.at(op.getLabels(), row), size);
  Value safe = select(b, found, column, constantI64(b, 0));
  Value logit = b.at(op.getLogits(), append(row, LoopSpace::opaque(safe)));
  Value picked = select(b, found, logit, zero);
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
