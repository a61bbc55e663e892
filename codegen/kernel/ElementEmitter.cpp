//===- ElementEmitter.cpp - Emits one element of any value ----------------===//
#include "codegen/kernel/ElementEmitter.h"
#include "codegen/kernel/KernelScalars.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

#include <cmath>

using namespace mlir;

namespace dpc::codegen {

/// Returns nullopt if the index is not affine.
static std::optional<std::pair<int64_t, int64_t>> range(const LoopSpace &space,
                                                        const Index &index) {
  if (index.isOpaque)
    return std::nullopt;
  std::pair<int64_t, int64_t> bounds{index.constant, index.constant};
  for (auto [d, c] : llvm::enumerate(index.coefs))
    (c < 0 ? bounds.first : bounds.second) += c * space.largest(d);
  return bounds;
}

static Indices positionsIn(ElementEmitter &b, ArrayRef<LocalFactor> factors,
                           const Index &index) {
  return delinearize(&b, b.space, index,
                     llvm::map_to_vector(factors, [](const LocalFactor &f) {
                       return f.local;
                     }));
}

/// Emits the position in [0, size) that is closest to `position`. Loads must
/// stay inside their operand even if their result is not used.
static Index clamped(ElementEmitter &b, Value position, int64_t size) {
  return LoopSpace::opaque(minS(b, maxS(b, position, 0), size - 1));
}

// A dimension may have several factors f0 x f1 x ... The mask is true where the
// position in each uneven factor is below the valid size of the factor.
static Value maskAt(ElementEmitter &b, MaskOp op, ArrayRef<Index> indices) {
  Value keep;
  unsigned next = 0;
  for (auto [d, index] : llvm::enumerate(indices)) {
    auto factors = factorsOf(op.getGlobal(), d, shapeOf(op.getX())[d]);
    Indices positions = positionsIn(b, factors, index);
    for (auto [factor, position] : llvm::zip_equal(factors, positions)) {
      if (!factor.uneven)
        continue;
      Value inside = cmp(b, IntPredicate::slt, b.space.materialize(b, position),
                         b.scalar(op, next++));
      keep = keep ? andI(b, keep, inside) : inside;
    }
  }
  Value x = b.at(op.getX(), indices);
  if (!keep)
    return x;
  double fill = op.getValue().convertToDouble();
  ReduceKind kind = fill < 0 ? ReduceKind::max : ReduceKind::min;
  Value other = std::isinf(fill)
                    ? b.math.neutral(kind, x.getType(),
                                     isUnsigned(elementTypeOf(op.getX())))
                    : b.math.constant(x.getType(), fill);
  return select(b, keep, x, other);
}

static Value iotaAt(ElementEmitter &b, IotaOp op, ArrayRef<Index> indices) {
  int64_t d = op.getDim();
  auto factors = factorsOf(op.getGlobal(), d, shapeOf(op.getResult())[d]);
  Indices positions = positionsIn(b, factors, indices[d]);
  Value sum = constantI64(b, 0);
  unsigned next = 0;
  for (auto [factor, position] : llvm::zip_equal(factors, positions)) {
    Value global = b.space.materialize(b, position);
    if (!factor.axes.empty())
      global = addI(b, global, b.scalar(op, next++));
    sum = addI(b, mulI(b, sum, factor.size), global);
  }
  return b.math.convert(sum, computeTypeOf(op.getResult()));
}

static Value concatAt(ElementEmitter &b, ConcatOp op, ArrayRef<Index> indices) {
  int64_t dim = op.getDim(), begin = 0;
  auto bounds = range(b.space, indices[dim]);
  Value position, result;
  for (Value part : op.getParts()) {
    int64_t end = begin + shapeOf(part)[dim];
    Indices inner(indices);
    inner[dim] = LoopSpace::shift(indices[dim], -begin);
    if (bounds && bounds->first >= begin && bounds->second < end)
      return b.at(part, inner);
    if (!position)
      position = b.space.materialize(b, indices[dim]);
    inner[dim] = clamped(b, subI(b, position, begin), end - begin);
    Value element = b.at(part, inner);
    if (result)
      element = select(b, cmp(b, IntPredicate::slt, position, begin), result,
                       element);
    result = element;
    begin = end;
  }
  return result;
}

static Value padAt(ElementEmitter &b, PadOp op, ArrayRef<Index> indices) {
  Value inside;
  Indices inner;
  auto require = [&](Value condition) {
    inside = inside ? andI(b, inside, condition) : condition;
  };
  for (auto [d, index] : llvm::enumerate(indices)) {
    int64_t low = op.getLow()[d], stride = op.getStrides()[d];
    int64_t size = shapeOf(op.getX())[d];
    auto bounds = range(b.space, index);
    if (bounds &&
        (bounds->second < low || bounds->first > low + (size - 1) * stride))
      return b.math.constant(computeTypeOf(op.getResult()), 0);
    if (stride == 1 && bounds && bounds->first >= low &&
        bounds->second < low + size) {
      inner.push_back(LoopSpace::shift(index, -low));
      continue;
    }
    Value shifted = subI(b, b.space.materialize(b, index), low);
    require(cmp(b, IntPredicate::sge, shifted, 0));
    Value position = shifted;
    if (stride != 1) {
      position = divS(b, shifted, stride);
      require(cmp(b, IntPredicate::eq, remS(b, shifted, stride), 0));
    }
    require(cmp(b, IntPredicate::slt, position, size));
    inner.push_back(clamped(b, position, size));
  }
  Value x = b.at(op.getX(), inner);
  if (!inside)
    return x;
  return select(b, inside, x, b.math.constant(x.getType(), 0));
}

// emitCut() cuts nests in the middle of the last dimension, so the half that
// contains an index is usually known. Otherwise selects choose the half.
static Value ropeAt(ElementEmitter &b, RopeOp op, ArrayRef<Index> indices) {
  int64_t size = shapeOf(op.getX()).back(), half = size / 2;
  Indices other(indices), table(indices.take_back(2));
  auto bounds = range(b.space, indices.back());
  Value isFirst;
  bool first = bounds && bounds->second < half;
  if (first || (bounds && bounds->first >= half)) {
    other.back() = LoopSpace::shift(indices.back(), first ? half : -half);
  } else {
    Value j = b.space.materialize(b, indices.back());
    isFirst = cmp(b, IntPredicate::slt, j, half);
    other.back() = LoopSpace::opaque(
        select(b, isFirst, addI(b, j, half), subI(b, j, half)));
  }
  // y = x cos + rot(x) sin with rot(x) = (-x2, x1). The inverse is
  // x cos + (x2 sin2, -x1 sin1). The suffixes 1 and 2 denote the first and the
  // second half of the last dimension.
  Value straight =
      b.math.mul(b.at(op.getX(), indices), b.at(op.getCos(), table));
  Indices turnedTable(table);
  if (op.getInverse())
    turnedTable.back() = other.back();
  Value turned =
      b.math.mul(b.at(op.getX(), other), b.at(op.getSin(), turnedTable));
  bool negateFirst = !op.getInverse();
  if (!isFirst)
    return first == negateFirst ? b.math.sub(straight, turned)
                                : b.math.add(straight, turned);
  Value plus = b.math.add(straight, turned),
        minus = b.math.sub(straight, turned);
  return negateFirst ? select(b, isFirst, minus, plus)
                     : select(b, isFirst, plus, minus);
}

std::pair<Value, Value> lookUp(ElementEmitter &b, Operation *op, Value id,
                               int64_t localSize) {
  Value row = b.math.convert(id, b.getI64Type());
  Value valid = constantI64(b, localSize);
  if (b.hasScalars(op)) {
    row = subI(b, row, b.scalar(op, 0));
    valid = b.scalar(op, 1);
  }
  // A negative row is large as an unsigned number, so one comparison suffices.
  Value found = cmp(b, IntPredicate::ult, row, valid);
  return {row, found};
}

static Value embeddingAt(ElementEmitter &b, EmbeddingOp op,
                         ArrayRef<Index> indices) {
  Value id = b.at(op.getIds(), indices.drop_back());
  auto [row, found] = lookUp(b, op, id, shapeOf(op.getTable())[0]);
  Value safe = select(b, found, row, constantI64(b, 0));
  Index rowIndex = LoopSpace::opaque(safe);
  Value element = b.at(op.getTable(), {rowIndex, indices.back()});
  return select(b, found, element, b.math.constant(element.getType(), 0));
}

static Value crossEntropyGradAt(ElementEmitter &b, CrossEntropyGradOp op,
                                ArrayRef<Index> indices) {
  Value logit = b.at(op.getLogits(), indices);
  ArrayRef<Index> row = indices.take_front(1);
  Type type = logit.getType();
  auto [column, found] =
      lookUp(b, op, b.at(op.getLabels(), row), shapeOf(op.getLogits())[1]);
  Value j = b.space.materialize(b, indices[1]);
  Value isLabel = andI(b, found, cmp(b, IntPredicate::eq, column, j));
  Value prob = b.math.expOfDifference(logit, b.at(op.getLse(), row));
  Value one =
      select(b, isLabel, b.math.constant(type, 1), b.math.constant(type, 0));
  Value dloss = b.at(op.getDloss(), row);
  // Ignored rows have dloss = 0. Their lse may be NaN, so 0 is selected.
  Value result = b.math.mul(b.math.sub(prob, one), dloss);
  Value zero = b.math.constant(type, 0);
  Value ignored = cmp(b, FloatPredicate::OEQ, dloss, zero);
  return select(b, ignored, zero, result);
}

Value maskTerm(ElementEmitter &b, Value mask, ArrayRef<Index> indices) {
  Indices inner;
  for (auto [size, index] : llvm::zip_equal(shapeOf(mask), indices))
    inner.push_back(size == 1 ? LoopSpace::constant(0) : index);
  return b.at(mask, inner);
}

std::optional<MemoryRef> flatOperand(ElementEmitter &b, Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument)
    return std::nullopt;
  const MemoryRef &memory = b.arguments.inputs[argument.getArgNumber()];
  if (!memory.view.isDense())
    return std::nullopt;
  return MemoryRef{memory.pointer,
                   StridedView::dense({tensorType(value).getNumElements()}),
                   memory.element};
}

Value addSquare(ElementEmitter &b, Value sum, Value x,
                const std::optional<MemoryRef> &flat, ArrayRef<Index> indices) {
  Value element =
      flat ? b.load(*flat, computeTypeOf(x), indices) : b.at(x, indices);
  element = b.math.convert(element, b.getF64Type());
  return b.math.accumulate(ReduceKind::sum, sum, b.math.mul(element, element));
}

static Value scoresGradAt(ElementEmitter &b, AttentionScoresGradOp op,
                          unsigned result, ArrayRef<Index> indices) {
  ArrayRef<Index> row = indices.drop_back();
  Value score = b.at(op.getScores(), indices);
  Type type = score.getType();
  Value scale = b.math.constant(type, op.getScale().convertToDouble());
  Value exponent = b.math.mul(score, scale);
  if (op.getMask())
    exponent = b.math.add(exponent, maskTerm(b, op.getMask(), indices));
  // A row whose scores are all -inf has lse -inf and probabilities of 0.
  Value lse = b.at(op.getLse(), row);
  Value visible =
      cmp(b, FloatPredicate::UNE, lse, b.math.neutral(ReduceKind::max, type));
  Value zero = b.math.constant(type, 0);
  if (op.getCausal()) {
    ArrayRef<int64_t> shape = shapeOf(op.getScores());
    Value s = b.space.materialize(b, indices[3]);
    Value t = addI(b, b.space.materialize(b, indices[2]), shape[3] - shape[2]);
    visible = andI(b, visible, cmp(b, IntPredicate::sle, s, t));
  }
  Value p = select(b, visible, b.math.expOfDifference(exponent, lse), zero);
  if (result == 0)
    return p;
  Value inner =
      b.math.sub(b.at(op.getDprobs(), indices), b.at(op.getDelta(), row));
  Value ds = b.math.mul(scale, b.math.mul(p, inner));
  return select(b, visible, ds, zero);
}

/// Returns `old` if `apply` exists and is false at run time, else `next`.
static Value unlessSkipped(ElementEmitter &b, Value apply, Value next,
                           Value old) {
  return apply ? select(b, b.at(apply, {}), next, old) : next;
}

// The powers are f64: in f32, 1 - beta2^step loses half of its digits.
static Value adamwAt(ElementEmitter &b, AdamWOp op, unsigned result,
                     ArrayRef<Index> indices) {
  Type f64 = b.getF64Type();
  Value p = b.at(op.getP(), indices), m = b.at(op.getM(), indices);
  Value v = b.at(op.getV(), indices);
  Type type = p.getType();
  // The scalars of a step are always f32.
  Value g = b.math.mul(b.at(op.getG(), indices),
                       b.math.convert(b.at(op.getScale(), {}), type));
  Value lr = b.math.convert(b.at(op.getLr(), {}), type);
  Value step = b.math.convert(b.at(op.getStep(), {}), f64);
  double beta1 = op.getBeta1().convertToDouble();
  double beta2 = op.getBeta2().convertToDouble();
  auto correction = [&](double beta) -> Value {
    return b.math.sub(b.math.constant(f64, 1), b.math.power(beta, step));
  };
  Value m1 = b.math.add(b.math.mul(m, b.math.constant(type, beta1)),
                        b.math.mul(g, b.math.constant(type, 1 - beta1)));
  if (result == 1)
    return unlessSkipped(b, op.getApply(), m1, m);
  Value v1 = b.math.add(
      b.math.mul(v, b.math.constant(type, beta2)),
      b.math.mul(b.math.mul(g, g), b.math.constant(type, 1 - beta2)));
  if (result == 2)
    return unlessSkipped(b, op.getApply(), v1, v);
  Value stepSize = b.math.convert(
      b.math.div(b.math.convert(lr, f64), correction(beta1)), type);
  Value root = b.math.convert(
      math::SqrtOp::create(b, correction(beta2)).getResult(), type);
  double decay = op.getWeightDecay().convertToDouble();
  Value shrink = b.math.sub(b.math.constant(type, 1),
                            b.math.mul(lr, b.math.constant(type, decay)));
  Value eps = b.math.constant(type, op.getEps().convertToDouble());
  Value denominator =
      b.math.add(b.math.div(math::SqrtOp::create(b, v1), root), eps);
  Value p1 = b.math.sub(b.math.mul(p, shrink),
                        b.math.mul(stepSize, b.math.div(m1, denominator)));
  return unlessSkipped(b, op.getApply(), p1, p);
}

static Value sgdAt(ElementEmitter &b, SgdOp op, unsigned result,
                   ArrayRef<Index> indices) {
  Value p = b.at(op.getP(), indices);
  Type type = p.getType();
  auto scalar = [&](Value value) {
    return b.math.convert(b.at(value, {}), type);
  };
  Value g = b.math.mul(b.at(op.getG(), indices), scalar(op.getScale()));
  Value decay = b.math.constant(type, op.getWeightDecay().convertToDouble());
  g = b.math.add(g, b.math.mul(decay, p));
  Value momentum = b.math.constant(type, op.getMomentum().convertToDouble());
  Value old = b.at(op.getBuffer(), indices);
  Value buffer = b.math.add(b.math.mul(momentum, old), g);
  Value first = cmp(b, FloatPredicate::OLE, scalar(op.getStep()),
                    b.math.constant(type, 1));
  Value b1 = select(b, first, g, buffer);
  if (result == 1)
    return unlessSkipped(b, op.getApply(), b1, old);
  Value p1 = b.math.sub(p, b.math.mul(scalar(op.getLr()), b1));
  return unlessSkipped(b, op.getApply(), p1, p);
}

ElementEmitter::ElementEmitter(OpBuilder &builder, const KernelSpec &spec,
                               StringRef symbol, KernelTarget target)
    : KernelBuilder(builder, target), spec(spec), symbol(symbol.str()) {
  yields.assign(body().getTerminator()->operand_begin(),
                body().getTerminator()->operand_end());
}

Value ElementEmitter::scalar(Operation *op, unsigned position) const {
  return arguments.scalars.find(op)->second[position];
}

const MemoryRef *ElementEmitter::targetOf(Value value) const {
  const auto *it = llvm::find(yields, value);
  return it == yields.end() ? nullptr : &arguments.outputs[it - yields.begin()];
}

Value ElementEmitter::load(const MemoryRef &memory, Type elementType,
                           ArrayRef<Index> indices) {
  loops->beforeLoad();
  return loadElement(*this, memory, elementType, indices);
}

void ElementEmitter::store(Value scalar, const MemoryRef &memory,
                           ArrayRef<Index> indices) {
  if (!loops->keepsStore(scalar, memory, indices))
    storeElement(*this, scalar, memory, indices);
}

Value ElementEmitter::loadConstant(ConstantOp op, ArrayRef<Index> indices) {
  DenseElementsAttr value =
      computedElements(cast<DenseElementsAttr>(op.getValue()));
  Type elementType = value.getElementType();
  if (value.isSplat())
    return arith::ConstantOp::create(
        *this, cast<TypedAttr>(value.getSplatValue<Attribute>()));
  auto type = cast<RankedTensorType>(value.getType());
  Type storage = storageTypeOf(elementType);
  if (storage != elementType)
    value = cast<DenseIntElementsAttr>(value).mapValues(
        storage, [](const APInt &bit) { return bit.zext(8); });
  value = value.reshape(RankedTensorType::get(type.getNumElements(), storage));
  auto function = getBlock()->getParent()->getParentOfType<func::FuncOp>();
  Operation *self = op.getOperation();
  std::string name = symbol + "_c" +
                     std::to_string(std::distance(self->getBlock()->begin(),
                                                  Block::iterator(self)));
  auto module = function->getParentOfType<ModuleOp>();
  if (!module.lookupSymbol(name)) {
    OpBuilder::InsertionGuard guard(*this);
    setInsertionPoint(function);
    LLVM::GlobalOp::create(
        *this, LLVM::LLVMArrayType::get(storage, type.getNumElements()),
        /*isConstant=*/true, LLVM::Linkage::Internal, name, value,
        /*alignment=*/64);
  }
  MemoryRef memory{LLVM::AddressOfOp::create(
                       *this, LLVM::LLVMPointerType::get(getContext()), name),
                   StridedView::dense(type.getShape()), Type()};
  return load(memory, elementType, indices);
}

Value ElementEmitter::at(Value value, ArrayRef<Index> indices) {
  if (Value known = recall(value, indices))
    return known;
  Value element = compute(value, indices);
  remember(value, indices, element);
  return element;
}

static Value computePlaced(ElementEmitter &b, Value value,
                           ArrayRef<Index> indices) {
  unsigned number = cast<OpResult>(value).getResultNumber();
  return TypeSwitch<Operation *, Value>(value.getDefiningOp())
      .Case([&](MaskOp o) { return maskAt(b, o, indices); })
      .Case([&](IotaOp o) { return iotaAt(b, o, indices); })
      .Case([&](ConcatOp o) { return concatAt(b, o, indices); })
      .Case([&](PadOp o) { return padAt(b, o, indices); })
      .Case([&](RopeOp o) { return ropeAt(b, o, indices); })
      .Case([&](EmbeddingOp o) { return embeddingAt(b, o, indices); })
      .Case([&](CrossEntropyGradOp o) {
        return crossEntropyGradAt(b, o, indices);
      })
      .Case([&](AttentionScoresGradOp o) {
        return scoresGradAt(b, o, number, indices);
      })
      .Case([&](MaxPoolOp o) { return maxPoolAt(b, o, number, indices); })
      .Case([&](MaxPoolGradOp o) { return maxPoolGradAt(b, o, indices); })
      .Case([&](AdamWOp o) { return adamwAt(b, o, number, indices); })
      .Case([&](SgdOp o) { return sgdAt(b, o, number, indices); })
      .Case([&](RankSliceOp o) {
        Indices inner{LoopSpace::opaque(b.scalar(o, 0))};
        inner.append(indices.begin(), indices.end());
        return b.at(o.getInput(), inner);
      })
      .Default([](Operation *) { return Value(); });
}

Value ElementEmitter::compute(Value value, ArrayRef<Index> indices) {
  if (auto it = stored.find(value); it != stored.end())
    return load(it->second, computeTypeOf(value), indices);
  if (auto it = computed.find(value); it != computed.end())
    return it->second(indices);
  if (auto argument = dyn_cast<BlockArgument>(value))
    return load(arguments.inputs[argument.getArgNumber()], computeTypeOf(value),
                indices);
  Operation *op = value.getDefiningOp();
  if (auto moved = movedIndices(this, space, op, indices))
    return at(op->getOperand(0), *moved);
  Value result =
      TypeSwitch<Operation *, Value>(op)
          .Case([&](ConstantOp c) { return loadConstant(c, indices); })
          .Case([&](UnaryOp u) {
            return math.unary(u.getKind(), at(u.getX(), indices),
                              isUnsigned(elementTypeOf(u.getX())));
          })
          .Case([&](BinaryOp o) {
            Value x = at(o.getA(), indices);
            return math.binary(o.getKind(), x, at(o.getB(), indices),
                               isUnsigned(elementTypeOf(o.getA())));
          })
          .Case([&](CompareOp o) {
            Value x = at(o.getA(), indices);
            return math.compare(o.getKind(), x, at(o.getB(), indices),
                                isUnsigned(elementTypeOf(o.getA())));
          })
          .Case([&](SelectOp o) -> Value {
            Value c = at(o.getCondition(), indices);
            Value x = at(o.getOnTrue(), indices);
            return select(*this, c, x, at(o.getOnFalse(), indices));
          })
          .Case([&](ConvertOp o) {
            return convertElement(*this, at(o.getX(), indices),
                                  elementTypeOf(o.getX()),
                                  elementTypeOf(value));
          })
          .Default([&](Operation *) {
            return computePlaced(*this, value, indices);
          });
  if (!result) {
    op->emitOpError("has no code for these element types inside a kernel; "
                    "remove it or move it out of dpc.kernel");
    failed = true;
    result = math.constant(computeTypeOf(value), 0);
  }
  return result;
}

} // namespace dpc::codegen
