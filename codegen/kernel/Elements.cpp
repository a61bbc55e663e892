//===- Elements.cpp - One element of any value of a kernel ----------------===//
#include "codegen/kernel/KernelEmitter.h"
#include "codegen/kernel/KernelScalars.h"

#include <cmath>

using namespace mlir;

namespace dpc::codegen {

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}
static Type elementOf(Value value) { return computeTypeOf(value); }
static Type storedType(Value value) {
  return cast<RankedTensorType>(value.getType()).getElementType();
}

//===----------------------------------------------------------------------===//
// Data movement
//===----------------------------------------------------------------------===//

Indices delinearize(ImplicitLocOpBuilder *b, const LoopSpace &space,
                    Index linear, ArrayRef<int64_t> shape) {
  Indices indices(shape.size(), LoopSpace::constant(0));
  bool outermost = true;
  for (size_t d = 0; d < shape.size() && outermost; ++d)
    outermost = shape[d] == 1;
  if (outermost)
    return indices;
  size_t first = 0;
  while (shape[first] == 1)
    ++first;
  for (size_t d = shape.size(); d-- > first + 1;) {
    if (shape[d] == 1)
      continue;
    if (auto parts = space.divide(linear, shape[d])) {
      indices[d] = parts->second;
      linear = parts->first;
      continue;
    }
    if (!b) {
      indices[d] = linear = LoopSpace::opaque({});
      continue;
    }
    Value whole = space.materialize(*b, linear);
    Value size = constantI64(*b, shape[d]);
    indices[d] = LoopSpace::opaque(arith::RemUIOp::create(*b, whole, size));
    linear = LoopSpace::opaque(arith::DivUIOp::create(*b, whole, size));
  }
  indices[first] = linear;
  return indices;
}

static Indices reshapedIndices(ImplicitLocOpBuilder *b, const LoopSpace &space,
                               ReshapeOp op, ArrayRef<Index> indices) {
  ArrayRef<int64_t> from = shapeOf(op.getX()), to = shapeOf(op.getResult());
  // Unit dimensions come and go without arithmetic.
  SmallVector<int64_t> fromSizes, toSizes;
  for (int64_t size : from)
    if (size != 1)
      fromSizes.push_back(size);
  Indices kept;
  for (auto [size, index] : llvm::zip_equal(to, indices))
    if (size != 1) {
      toSizes.push_back(size);
      kept.push_back(index);
    }
  if (fromSizes == toSizes) {
    Indices result;
    unsigned next = 0;
    for (int64_t size : from)
      result.push_back(size == 1 ? LoopSpace::constant(0) : kept[next++]);
    return result;
  }
  Index linear =
      LoopSpace::linearize(b, indices, StridedView::dense(to).strides, 0);
  return delinearize(b, space, linear, from);
}

std::optional<Indices> movedIndices(ImplicitLocOpBuilder *b,
                                    const LoopSpace &space, Operation *op,
                                    ArrayRef<Index> indices) {
  Indices result;
  if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    ArrayRef<int64_t> to = shapeOf(broadcast.getResult());
    for (auto [size, d] :
         llvm::zip_equal(shapeOf(broadcast.getX()), broadcast.getDims()))
      result.push_back(size == to[d] ? indices[d] : LoopSpace::constant(0));
    return result;
  }
  if (auto transpose = dyn_cast<TransposeOp>(op)) {
    result.resize(indices.size());
    for (auto [i, d] : llvm::enumerate(transpose.getPerm()))
      result[d] = indices[i];
    return result;
  }
  if (auto slice = dyn_cast<SliceOp>(op)) {
    for (auto [index, offset, stride] :
         llvm::zip_equal(indices, slice.getOffsets(), slice.getStrides()))
      result.push_back(LoopSpace::add(b, LoopSpace::scale(b, index, stride),
                                      LoopSpace::constant(offset)));
    return result;
  }
  if (auto reshape = dyn_cast<ReshapeOp>(op))
    return reshapedIndices(b, space, reshape, indices);
  return std::nullopt;
}

std::optional<std::pair<int64_t, int64_t>>
KernelEmitter::range(const Index &index) const {
  if (index.isOpaque)
    return std::nullopt;
  std::pair<int64_t, int64_t> bounds{index.constant, index.constant};
  for (auto [d, c] : llvm::enumerate(index.coefs))
    (c < 0 ? bounds.first : bounds.second) += c * space.largest(d);
  return bounds;
}

Value KernelEmitter::scalar(Operation *op, unsigned position) {
  return scalars[op][position];
}

//===----------------------------------------------------------------------===//
// Index-dependent ops
//===----------------------------------------------------------------------===//

// Local position in a dimension of factors f0 x f1 x ..: the mask holds when
// every uneven factor's own position is below its valid size.
Value KernelEmitter::maskAt(MaskOp op, ArrayRef<Index> indices) {
  Value keep;
  unsigned next = 0;
  for (auto [d, index] : llvm::enumerate(indices)) {
    auto factors = factorsOf(op.getGlobal(), d, shapeOf(op.getX())[d]);
    SmallVector<int64_t> sizes;
    for (const LocalFactor &factor : factors)
      sizes.push_back(factor.local);
    Indices positions = delinearize(&b, space, index, sizes);
    for (auto [factor, position] : llvm::zip_equal(factors, positions)) {
      if (!factor.uneven)
        continue;
      Value inside = arith::CmpIOp::create(b, arith::CmpIPredicate::slt,
                                           space.materialize(b, position),
                                           scalar(op, next++));
      keep = keep ? Value(arith::AndIOp::create(b, keep, inside)) : inside;
    }
  }
  Value x = at(op.getX(), indices);
  if (!keep)
    return x;
  double fill = op.getValue().convertToDouble();
  ReduceKind kind = fill < 0 ? ReduceKind::max : ReduceKind::min;
  Value other =
      std::isinf(fill)
          ? math.neutral(kind, x.getType(), isUnsigned(storedType(op.getX())))
          : math.constant(x.getType(), fill);
  return arith::SelectOp::create(b, keep, x, other);
}

Value KernelEmitter::iotaAt(IotaOp op, ArrayRef<Index> indices) {
  int64_t d = op.getDim();
  auto factors = factorsOf(op.getGlobal(), d, shapeOf(op.getResult())[d]);
  SmallVector<int64_t> sizes;
  for (const LocalFactor &factor : factors)
    sizes.push_back(factor.local);
  Indices positions = delinearize(&b, space, indices[d], sizes);
  Value sum = constantI64(b, 0);
  unsigned next = 0;
  for (auto [factor, position] : llvm::zip_equal(factors, positions)) {
    Value global = space.materialize(b, position);
    if (!factor.axes.empty())
      global = arith::AddIOp::create(b, global, scalar(op, next++));
    sum = arith::AddIOp::create(
        b, arith::MulIOp::create(b, sum, constantI64(b, factor.size)), global);
  }
  return math.convert(sum, elementOf(op.getResult()));
}

Value KernelEmitter::concatAt(ConcatOp op, ArrayRef<Index> indices) {
  int64_t dim = op.getDim(), begin = 0;
  auto bounds = range(indices[dim]);
  Value position, result;
  for (Value part : op.getParts()) {
    int64_t end = begin + shapeOf(part)[dim];
    Indices inner(indices);
    inner[dim] = LoopSpace::add(&b, indices[dim], LoopSpace::constant(-begin));
    if (bounds && bounds->first >= begin && bounds->second < end)
      return at(part, inner);
    if (!position)
      position = space.materialize(b, indices[dim]);
    // Out-of-range positions are clamped: the load must stay inside.
    Value shifted = arith::SubIOp::create(b, position, constantI64(b, begin));
    shifted = arith::MaxSIOp::create(b, shifted, constantI64(b, 0));
    shifted =
        arith::MinSIOp::create(b, shifted, constantI64(b, end - begin - 1));
    inner[dim] = LoopSpace::opaque(shifted);
    Value element = at(part, inner);
    if (result)
      element = arith::SelectOp::create(
          b,
          arith::CmpIOp::create(b, arith::CmpIPredicate::slt, position,
                                constantI64(b, begin)),
          result, element);
    result = element;
    begin = end;
  }
  return result;
}

Value KernelEmitter::padAt(PadOp op, ArrayRef<Index> indices) {
  Value inside;
  Indices inner;
  auto require = [&](Value condition) {
    inside =
        inside ? Value(arith::AndIOp::create(b, inside, condition)) : condition;
  };
  for (auto [d, index] : llvm::enumerate(indices)) {
    int64_t low = op.getLow()[d], stride = op.getStrides()[d];
    int64_t size = shapeOf(op.getX())[d];
    auto bounds = range(index);
    if (bounds &&
        (bounds->second < low || bounds->first > low + (size - 1) * stride))
      return math.constant(elementOf(op.getResult()), 0);
    if (stride == 1 && bounds && bounds->first >= low &&
        bounds->second < low + size) {
      inner.push_back(LoopSpace::add(&b, index, LoopSpace::constant(-low)));
      continue;
    }
    Value shifted = arith::SubIOp::create(b, space.materialize(b, index),
                                          constantI64(b, low));
    Value zero = constantI64(b, 0);
    require(arith::CmpIOp::create(b, arith::CmpIPredicate::sge, shifted, zero));
    Value position = shifted;
    if (stride != 1) {
      Value step = constantI64(b, stride);
      position = arith::DivSIOp::create(b, shifted, step);
      Value rest = arith::RemSIOp::create(b, shifted, step);
      require(arith::CmpIOp::create(b, arith::CmpIPredicate::eq, rest, zero));
    }
    require(arith::CmpIOp::create(b, arith::CmpIPredicate::slt, position,
                                  constantI64(b, size)));
    position = arith::MaxSIOp::create(b, position, zero);
    position = arith::MinSIOp::create(b, position, constantI64(b, size - 1));
    inner.push_back(LoopSpace::opaque(position));
  }
  Value x = at(op.getX(), inner);
  if (!inside)
    return x;
  return arith::SelectOp::create(b, inside, x, math.constant(x.getType(), 0));
}

// Nests are cut at D / 2 (emitCut), so that the half is known here; the
// selects are for a rope that is read at odd places.
Value KernelEmitter::ropeAt(RopeOp op, ArrayRef<Index> indices) {
  int64_t size = shapeOf(op.getX()).back(), half = size / 2;
  Indices other(indices), table(indices.take_back(2));
  auto bounds = range(indices.back());
  Value isFirst;
  bool first = bounds && bounds->second < half;
  if (first || (bounds && bounds->first >= half)) {
    other.back() = LoopSpace::add(&b, indices.back(),
                                  LoopSpace::constant(first ? half : -half));
  } else {
    Value j = space.materialize(b, indices.back());
    isFirst = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, j,
                                    constantI64(b, half));
    other.back() = LoopSpace::opaque(arith::SelectOp::create(
        b, isFirst, arith::AddIOp::create(b, j, constantI64(b, half)),
        arith::SubIOp::create(b, j, constantI64(b, half))));
  }
  // y = x cos + rot(x) sin with rot = (-x2, x1); the inverse is x cos +
  // (x2 sin2, -x1 sin1).
  Value straight = math.mul(at(op.getX(), indices), at(op.getCos(), table));
  Indices turnedTable(table);
  if (op.getInverse())
    turnedTable.back() = other.back();
  Value turned = math.mul(at(op.getX(), other), at(op.getSin(), turnedTable));
  bool negateFirst = !op.getInverse();
  if (!isFirst)
    return first == negateFirst ? math.sub(straight, turned)
                                : math.add(straight, turned);
  Value plus = math.add(straight, turned), minus = math.sub(straight, turned);
  return negateFirst ? arith::SelectOp::create(b, isFirst, minus, plus)
                     : arith::SelectOp::create(b, isFirst, plus, minus);
}

std::pair<Value, Value> KernelEmitter::lookup(Operation *op, Value id,
                                              int64_t localSize) {
  Value row = math.convert(id, b.getI64Type());
  Value valid = constantI64(b, localSize);
  if (!scalars[op].empty()) {
    row = arith::SubIOp::create(b, row, scalar(op, 0));
    valid = scalar(op, 1);
  }
  // Unsigned: negative rows are large.
  Value found = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, row, valid);
  return {row, found};
}

Value KernelEmitter::embeddingAt(EmbeddingOp op, ArrayRef<Index> indices) {
  Value id = at(op.getIds(), indices.drop_back());
  auto [row, found] = lookup(op, id, shapeOf(op.getTable())[0]);
  Value safe = arith::SelectOp::create(b, found, row, constantI64(b, 0));
  Index rowIndex = LoopSpace::opaque(safe);
  Value element = at(op.getTable(), {rowIndex, indices.back()});
  return arith::SelectOp::create(b, found, element,
                                 math.constant(element.getType(), 0));
}

Value KernelEmitter::crossEntropyGradAt(CrossEntropyGradOp op,
                                        ArrayRef<Index> indices) {
  Value logit = at(op.getLogits(), indices);
  ArrayRef<Index> row = indices.take_front(1);
  Type type = logit.getType();
  auto [column, found] =
      lookup(op, at(op.getLabels(), row), shapeOf(op.getLogits())[1]);
  Value j = space.materialize(b, indices[1]);
  Value isLabel = arith::AndIOp::create(
      b, found, arith::CmpIOp::create(b, arith::CmpIPredicate::eq, column, j));
  Value prob = math.expOfDifference(logit, at(op.getLse(), row));
  Value one = arith::SelectOp::create(b, isLabel, math.constant(type, 1),
                                      math.constant(type, 0));
  Value dloss = at(op.getDloss(), row);
  // Ignored rows have dloss 0, and their lse may be anything.
  Value result = math.mul(math.sub(prob, one), dloss);
  Value zero = math.constant(type, 0);
  Value ignored =
      arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, dloss, zero);
  return arith::SelectOp::create(b, ignored, zero, result);
}

Value KernelEmitter::scoresGradAt(AttentionScoresGradOp op, unsigned result,
                                  ArrayRef<Index> indices) {
  ArrayRef<Index> row = indices.drop_back();
  Value score = at(op.getScores(), indices);
  Type type = score.getType();
  Value scale = math.constant(type, op.getScale().convertToDouble());
  Value exponent = math.mul(score, scale);
  if (op.getMask())
    exponent = math.add(exponent, maskTerm(op.getMask(), indices));
  // A row whose every score is -inf has lse -inf, and probabilities of 0.
  Value lse = at(op.getLse(), row);
  Value visible = arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, lse,
                                        math.neutral(ReduceKind::max, type));
  Value zero = math.constant(type, 0);
  if (op.getCausal()) {
    ArrayRef<int64_t> shape = shapeOf(op.getScores());
    Value s = space.materialize(b, indices[3]);
    Value t = arith::AddIOp::create(b, space.materialize(b, indices[2]),
                                    constantI64(b, shape[3] - shape[2]));
    visible = arith::AndIOp::create(
        b, visible, arith::CmpIOp::create(b, arith::CmpIPredicate::sle, s, t));
  }
  Value p = arith::SelectOp::create(b, visible,
                                    math.expOfDifference(exponent, lse), zero);
  if (result == 0)
    return p;
  Value inner = math.sub(at(op.getDprobs(), indices), at(op.getDelta(), row));
  Value ds = math.mul(scale, math.mul(p, inner));
  return arith::SelectOp::create(b, visible, ds, zero);
}

//===----------------------------------------------------------------------===//
// Optimizers
//===----------------------------------------------------------------------===//

/// `next`, or `old` where `apply` (null: true) is false.
Value KernelEmitter::unlessSkipped(Value apply, Value next, Value old) {
  return apply ? arith::SelectOp::create(b, at(apply, {}), next, old) : next;
}

// The powers are in f64: 1 - beta2^step loses half of f32's digits.
Value KernelEmitter::adamwAt(AdamWOp op, unsigned result,
                             ArrayRef<Index> indices) {
  Type f64 = b.getF64Type();
  Value p = at(op.getP(), indices), m = at(op.getM(), indices);
  Value v = at(op.getV(), indices);
  Type type = p.getType();
  // The scalars of a step are f32, whatever is trained.
  Value g = math.mul(at(op.getG(), indices),
                     math.convert(at(op.getScale(), {}), type));
  Value lr = math.convert(at(op.getLr(), {}), type);
  Value step = math.convert(at(op.getStep(), {}), f64);
  double beta1 = op.getBeta1().convertToDouble();
  double beta2 = op.getBeta2().convertToDouble();
  auto correction = [&](double beta) -> Value {
    return math.sub(math.constant(f64, 1), math.power(beta, step));
  };
  Value m1 = math.add(math.mul(m, math.constant(type, beta1)),
                      math.mul(g, math.constant(type, 1 - beta1)));
  if (result == 1)
    return unlessSkipped(op.getApply(), m1, m);
  Value v1 = math.add(math.mul(v, math.constant(type, beta2)),
                      math.mul(math.mul(g, g), math.constant(type, 1 - beta2)));
  if (result == 2)
    return unlessSkipped(op.getApply(), v1, v);
  Value stepSize =
      math.convert(math.div(math.convert(lr, f64), correction(beta1)), type);
  Value root = math.convert(
      math::SqrtOp::create(b, correction(beta2)).getResult(), type);
  double decay = op.getWeightDecay().convertToDouble();
  Value shrink = math.sub(math.constant(type, 1),
                          math.mul(lr, math.constant(type, decay)));
  Value eps = math.constant(type, op.getEps().convertToDouble());
  Value denominator =
      math.add(math.div(math::SqrtOp::create(b, v1), root), eps);
  Value p1 = math.sub(math.mul(p, shrink),
                      math.mul(stepSize, math.div(m1, denominator)));
  return unlessSkipped(op.getApply(), p1, p);
}

Value KernelEmitter::sgdAt(SgdOp op, unsigned result, ArrayRef<Index> indices) {
  Value p = at(op.getP(), indices);
  Type type = p.getType();
  auto scalar = [&](Value value) { return math.convert(at(value, {}), type); };
  Value g = math.mul(at(op.getG(), indices), scalar(op.getScale()));
  Value decay = math.constant(type, op.getWeightDecay().convertToDouble());
  g = math.add(g, math.mul(decay, p));
  Value momentum = math.constant(type, op.getMomentum().convertToDouble());
  Value old = at(op.getBuffer(), indices);
  Value buffer = math.add(math.mul(momentum, old), g);
  Value first =
      arith::CmpFOp::create(b, arith::CmpFPredicate::OLE, scalar(op.getStep()),
                            math.constant(type, 1));
  Value b1 = arith::SelectOp::create(b, first, g, buffer);
  if (result == 1)
    return unlessSkipped(op.getApply(), b1, old);
  Value p1 = math.sub(p, math.mul(scalar(op.getLr()), b1));
  return unlessSkipped(op.getApply(), p1, p);
}

//===----------------------------------------------------------------------===//
// Dispatch
//===----------------------------------------------------------------------===//

Value KernelEmitter::at(Value value, ArrayRef<Index> indices) {
  for (Memo &memo : llvm::reverse(memos))
    if (auto it = memo.find(value); it != memo.end())
      for (auto &[known, element] : it->second)
        if (ArrayRef<Index>(known) == indices)
          return element;
  Value element = compute(value, indices);
  memos.back()[value].push_back({Indices(indices), element});
  return element;
}

/// The ops whose result depends on where they are or on several indices.
Value KernelEmitter::computePlaced(Value value, ArrayRef<Index> indices) {
  unsigned number = cast<OpResult>(value).getResultNumber();
  return TypeSwitch<Operation *, Value>(value.getDefiningOp())
      .Case([&](MaskOp o) { return maskAt(o, indices); })
      .Case([&](IotaOp o) { return iotaAt(o, indices); })
      .Case([&](ConcatOp o) { return concatAt(o, indices); })
      .Case([&](PadOp o) { return padAt(o, indices); })
      .Case([&](RopeOp o) { return ropeAt(o, indices); })
      .Case([&](EmbeddingOp o) { return embeddingAt(o, indices); })
      .Case(
          [&](CrossEntropyGradOp o) { return crossEntropyGradAt(o, indices); })
      .Case([&](AttentionScoresGradOp o) {
        return scoresGradAt(o, number, indices);
      })
      .Case([&](MaxPoolOp o) { return maxPoolAt(o, number, indices); })
      .Case([&](MaxPoolGradOp o) { return maxPoolGradAt(o, indices); })
      .Case([&](AdamWOp o) { return adamwAt(o, number, indices); })
      .Case([&](SgdOp o) { return sgdAt(o, number, indices); })
      .Case([&](RankSliceOp o) {
        Indices inner{LoopSpace::opaque(scalar(o, 0))};
        inner.append(indices.begin(), indices.end());
        return at(o.getInput(), inner);
      })
      .Default([](Operation *) { return Value(); });
}

Value KernelEmitter::converted(Value x, Type from, Type to) {
  x = math.convertElement(x, from, to);
  // What cannot be told from its code must be one of its type's numbers.
  bool isNarrow = isa<FloatType>(to) && to.getIntOrFloatBitWidth() < 16;
  return isNarrow ? widen(round(x, to), to) : x;
}

Value KernelEmitter::compute(Value value, ArrayRef<Index> indices) {
  if (auto it = stored.find(value); it != stored.end())
    return load(it->second, elementOf(value), indices);
  if (auto it = computed.find(value); it != computed.end())
    return it->second(indices);
  if (auto argument = dyn_cast<BlockArgument>(value))
    return load(inputs[argument.getArgNumber()], elementOf(value), indices);
  Operation *op = value.getDefiningOp();
  if (auto moved = movedIndices(&b, space, op, indices))
    return at(op->getOperand(0), *moved);
  Value result =
      TypeSwitch<Operation *, Value>(op)
          .Case([&](ConstantOp c) { return loadConstant(c, indices); })
          .Case([&](UnaryOp u) {
            return math.unary(u.getKind(), at(u.getX(), indices),
                              isUnsigned(storedType(u.getX())));
          })
          .Case([&](BinaryOp o) {
            Value x = at(o.getA(), indices);
            return math.binary(o.getKind(), x, at(o.getB(), indices),
                               isUnsigned(storedType(o.getA())));
          })
          .Case([&](CompareOp o) {
            Value x = at(o.getA(), indices);
            return math.compare(o.getKind(), x, at(o.getB(), indices),
                                isUnsigned(storedType(o.getA())));
          })
          .Case([&](SelectOp o) -> Value {
            Value c = at(o.getCondition(), indices);
            Value x = at(o.getOnTrue(), indices);
            return arith::SelectOp::create(b, c, x,
                                           at(o.getOnFalse(), indices));
          })
          .Case([&](ConvertOp o) {
            return converted(at(o.getX(), indices), storedType(o.getX()),
                             storedType(value));
          })
          .Default([&](Operation *) { return computePlaced(value, indices); });
  if (!result) {
    op->emitOpError("has no code for these element types inside a kernel; "
                    "remove it or move it out of dpc.kernel");
    failed = true;
    result = math.constant(elementOf(value), 0);
  }
  return result;
}

} // namespace dpc::codegen
