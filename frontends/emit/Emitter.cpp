//===- Emitter.cpp - Builds or folds dpc ops ------------------------------===//
#include "frontends/emit/Emitter.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace dpc::frontend {

/// Larger results are not folded, unless they are uniform or triangular.
static constexpr int64_t kFoldLimit = int64_t(1) << 22;

RankedTensorType Val::type() const {
  return constant ? constant->type() : cast<RankedTensorType>(value.getType());
}

llvm::ArrayRef<int64_t> Val::shape() const {
  return constant ? constant->shape()
                  : cast<RankedTensorType>(value.getType()).getShape();
}

Shape iotaDims(int64_t end, int64_t first) {
  return llvm::to_vector<6>(llvm::seq(first, std::max(first, end)));
}

Shape joinShapes(std::initializer_list<llvm::ArrayRef<int64_t>> parts) {
  Shape shape;
  for (llvm::ArrayRef<int64_t> part : parts)
    llvm::append_range(shape, part);
  return shape;
}

Shape mergedFrom(llvm::ArrayRef<int64_t> shape, int64_t axis) {
  return joinShapes(
      {shape.take_front(axis), {numElements(shape.drop_front(axis))}});
}

Shape unitShape(int64_t rank, int64_t dim, int64_t size) {
  Shape shape(rank, 1);
  shape[dim] = size;
  return shape;
}

Shape channelsLast(int64_t rank) {
  return joinShapes({{0}, iotaDims(rank, 2), {1}});
}

llvm::StringRef roleOf(Value value) {
  auto argument = dyn_cast_if_present<BlockArgument>(value);
  auto function =
      argument ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp())
               : func::FuncOp();
  auto role = function ? function.getArgAttrOfType<StringAttr>(
                             argument.getArgNumber(), attr::kRole)
                       : StringAttr();
  return role ? role.getValue() : llvm::StringRef();
}

static bool isUniform(const ConstTensor &t) {
  return t.layout() == ConstTensor::Layout::Splat;
}

/// Whether an op on `operands` is evaluated at import time. All operands must
/// be known. The result must be small, or at most one operand is triangular and
/// the others are uniform.
static bool foldable(llvm::ArrayRef<int64_t> shape,
                     std::initializer_list<Val> operands) {
  // A Scalar cannot represent all unsigned 64-bit integers.
  if (!llvm::all_of(operands, [](const Val &v) {
        return v.constant && !v.element().isUnsignedInteger(64);
      }))
    return false;
  auto shaped = llvm::count_if(
      operands, [](const Val &v) { return !isUniform(*v.constant); });
  auto dense = llvm::count_if(operands, [](const Val &v) {
    return v.constant->layout() == ConstTensor::Layout::Dense;
  });
  return numElements(shape) <= kFoldLimit || (dense == 0 && shaped <= 1);
}

Type Emitter::statisticsType(const Val &x) {
  return x.element().isF64() ? x.element() : f32();
}

static RankedTensorType typeOf(llvm::ArrayRef<int64_t> shape, Type element) {
  return RankedTensorType::get(shape, element);
}

Val Emitter::fail(const llvm::Twine &why) {
  if (error.empty())
    error = why.str();
  return {};
}

Value Emitter::materialize(Val v) {
  if (!v.constant)
    return v.value;
  auto known = materialized.find(v.constant.get());
  if (known != materialized.end())
    return known->second.second;
  ConstTensor compact = v.constant->compacted();
  Value value = compact.layout() == ConstTensor::Layout::Triangle
                    ? emitTriangle(compact)
                    : emitConstant(compact);
  materialized[v.constant.get()] = {v.constant, value};
  return value;
}

Value Emitter::emitConstant(const ConstTensor &tensor) {
  return ConstantOp::create(builder, loc, tensor.type(), tensor.toAttr());
}

Value Emitter::emitTriangle(const ConstTensor &tensor) {
  // Element (.., i, j) is `above` where j - i >= diagonal.
  int64_t rank = tensor.rank();
  Val row = iota(tensor.shape(), rank - 2);
  Val column = iota(tensor.shape(), rank - 1);
  CompareKind kind = CompareKind::ge;
  if (tensor.diagonal() == 1)
    kind = CompareKind::gt;
  else if (tensor.diagonal() != 0)
    row = add(row, tensor.diagonal());
  Scalar below = tensor.stored()[0], above = tensor.stored()[1];
  if (tensor.element().isInteger(1)) {
    if (!above.i)
      kind = kind == CompareKind::gt ? CompareKind::le : CompareKind::lt;
    return compare(kind, column, row).value;
  }
  Val inside = compare(kind, column, row);
  return select(
             inside,
             Val(ConstTensor::splat(tensor.element(), tensor.shape(), above)),
             Val(ConstTensor::splat(tensor.element(), tensor.shape(), below)))
      .value;
}

bool isZero(const Val &v) {
  return v.constant &&
         (v.constant->layout() == ConstTensor::Layout::Splat ||
          v.constant->size() == 1) &&
         (v.isFloat() ? v.constant->at(0).f == 0 : v.constant->at(0).i == 0);
}

Val Emitter::scalar(double value, Type element) {
  return splat(value, element, {});
}

Val Emitter::splat(double value, Type element, llvm::ArrayRef<int64_t> shape) {
  return Val(ConstTensor::splat(element, shape, makeScalar(value, element)));
}

Val Emitter::iota(llvm::ArrayRef<int64_t> shape, int64_t dim) {
  return make<IotaOp>(typeOf(shape, builder.getI64Type()),
                      builder.getI64IntegerAttr(dim), TypeAttr());
}

bool Emitter::sameElement(Val a, Val b) {
  if (a.element() == b.element())
    return true;
  fail("operands have different element types: {0} and {1}", a, b);
  return false;
}

static bool takesIntegers(UnaryKind kind) {
  switch (kind) {
  case UnaryKind::neg:
  case UnaryKind::abs:
  case UnaryKind::sign:
  case UnaryKind::relu:
    return true;
  default:
    return false;
  }
}

static bool isLogical(BinaryKind kind) {
  return kind == BinaryKind::logical_and || kind == BinaryKind::logical_or ||
         kind == BinaryKind::logical_xor;
}

bool Emitter::accepts(Val x, bool integers, bool booleans) {
  bool isBoolean = x.element().isInteger(1);
  if (booleans ? isBoolean : x.isFloat() || (integers && !isBoolean))
    return true;
  fail("operand of type {0} is not accepted; it must {1}", x,
       (booleans   ? "be boolean"
        : integers ? "hold numbers"
                   : "hold floats"));
  return false;
}

std::optional<Shape> Emitter::broadcastShape(llvm::ArrayRef<int64_t> a,
                                             llvm::ArrayRef<int64_t> b) {
  if (a.size() < b.size())
    std::swap(a, b);
  Shape shape(a);
  size_t shift = a.size() - b.size();
  for (size_t d = 0; d < b.size(); ++d) {
    int64_t &size = shape[d + shift];
    if (size == 1)
      size = b[d];
    else if (b[d] != 1 && b[d] != size) {
      fail("shapes {0} and {1} do not broadcast", a, b);
      return std::nullopt;
    }
  }
  return shape;
}

Value Emitter::expanded(Val v, llvm::ArrayRef<int64_t> shape) {
  if (v.constant && v.constant->size() == 1)
    return materialize(
        Val(ConstTensor::splat(v.element(), shape, v.constant->at(0))));
  if (v.constant && isUniform(*v.constant))
    return materialize(broadcastTo(v, shape));
  return broadcastTo(Val(materialize(v)), shape).value;
}

Val Emitter::unary(UnaryKind kind, Val x) {
  if (!x || !accepts(x, takesIntegers(kind), kind == UnaryKind::logical_not))
    return {};
  if (foldable(x.shape(), {x}))
    return Val(mapElements(*x.constant, x.element(), [&](Scalar v) {
      return evalUnary(kind, v, x.isFloat());
    }));
  return make<UnaryOp>(x.type(), kind, materialize(x));
}

std::pair<Val, Val> Emitter::valuesOf(Operand a, Operand b) {
  if (a.number && b.value)
    a.value = scalar(*a.number, b.value.element());
  if (b.number && a.value)
    b.value = scalar(*b.number, a.value.element());
  if (a.number && b.number)
    fail("operands {0} and {1} are numbers; at least one must be a tensor",
         *a.number, *b.number);
  return {std::move(a.value), std::move(b.value)};
}

Val Emitter::binary(BinaryKind kind, Operand left, Operand right) {
  auto [a, b] = valuesOf(std::move(left), std::move(right));
  if (!a || !b || !sameElement(a, b))
    return {};
  // Logical kinds are bitwise on integers.
  bool isFloat = a.isFloat(), isBitwise = isLogical(kind) && !isFloat;
  if (!isBitwise && !accepts(a, true, isLogical(kind)))
    return {};
  auto shape = broadcastShape(a.shape(), b.shape());
  if (!shape)
    return {};
  if (foldable(*shape, {a, b})) {
    Val x = broadcastTo(a, *shape), y = broadcastTo(b, *shape);
    return mapElements(
        *x.constant, *y.constant, a.element(),
        [&](Scalar p, Scalar q) { return evalBinary(kind, p, q, isFloat); });
  }
  Value x = expanded(a, *shape), y = expanded(b, *shape);
  return make<BinaryOp>(typeOf(*shape, a.element()), kind, x, y);
}

Val Emitter::extremum(BinaryKind kind, Operand a, Operand b, Ties ties) {
  Val result = binary(kind, std::move(a), std::move(b));
  if (result && !result.constant && result.isFloat())
    result.value.getDefiningOp()->setAttr(
        attr::kTieGradient,
        builder.getI64IntegerAttr(static_cast<int64_t>(ties)));
  return result;
}

Val Emitter::round(Val x) {
  Val low = floor(x);
  Val rest = sub(x, low);
  Val odd = rem(abs(low), 2);
  // Round up above 0.5, and at 0.5 if the floor is odd.
  Val even = select(eq(rest, 0.5), odd, 0);
  Val up = select(gt(rest, 0.5), 1, even);
  return add(low, up);
}

Val Emitter::compare(CompareKind kind, Operand left, Operand right) {
  auto [a, b] = valuesOf(std::move(left), std::move(right));
  if (!a || !b || !sameElement(a, b))
    return {};
  auto shape = broadcastShape(a.shape(), b.shape());
  if (!shape)
    return {};
  if (foldable(*shape, {a, b})) {
    Val x = broadcastTo(a, *shape), y = broadcastTo(b, *shape);
    return mapElements(*x.constant, *y.constant, boolean(),
                       [kind, isFloat = a.isFloat()](Scalar p, Scalar q) {
                         Scalar r;
                         r.i = evalCompare(kind, p, q, isFloat);
                         return r;
                       });
  }
  Value x = expanded(a, *shape), y = expanded(b, *shape);
  return make<CompareOp>(typeOf(*shape, boolean()), kind, x, y);
}

Val Emitter::select(Val condition, Operand ifTrue, Operand ifFalse) {
  auto [onTrue, onFalse] = valuesOf(std::move(ifTrue), std::move(ifFalse));
  if (!condition || !onTrue || !onFalse || !sameElement(onTrue, onFalse))
    return {};
  if (!condition.element().isInteger(1))
    return fail("condition must be boolean, not {0}", condition);
  auto shape = broadcastShape(onTrue.shape(), onFalse.shape());
  if (shape)
    shape = broadcastShape(*shape, condition.shape());
  if (!shape)
    return {};
  if (foldable(*shape, {condition, onTrue, onFalse}))
    return selectElements(*broadcastTo(condition, *shape).constant,
                          *broadcastTo(onTrue, *shape).constant,
                          *broadcastTo(onFalse, *shape).constant);
  Value c = expanded(condition, *shape);
  Value t = expanded(onTrue, *shape), f = expanded(onFalse, *shape);
  return make<SelectOp>(t.getType(), c, t, f);
}

Val Emitter::convert(Val x, Type element) {
  if (!x || x.element() == element)
    return x;
  if (foldable(x.shape(), {x}))
    return Val(convertTo(*x.constant, element));
  return make<ConvertOp>(typeOf(x.shape(), element), materialize(x));
}

Val Emitter::reshape(Val x, llvm::ArrayRef<int64_t> shape) {
  if (!x || x.shape() == shape)
    return x;
  if (numElements(x.shape()) != numElements(shape))
    return fail("cannot reshape {0} to {1}", x.shape(), shape);
  if (foldable(shape, {x}))
    return Val(reshapeTo(*x.constant, shape));
  return make<ReshapeOp>(typeOf(shape, x.element()), materialize(x));
}

Val Emitter::transpose(Val x, llvm::ArrayRef<int64_t> perm) {
  if (!x || llvm::equal(perm, llvm::seq<int64_t>(0, perm.size())))
    return x;
  Shape shape;
  for (int64_t p : perm)
    shape.push_back(x.dim(p));
  if (foldable(shape, {x}))
    return Val(transposed(*x.constant, perm));
  return make<TransposeOp>(typeOf(shape, x.element()), materialize(x), perm);
}

Val Emitter::broadcast(Val x, llvm::ArrayRef<int64_t> shape,
                       llvm::ArrayRef<int64_t> dims) {
  if (!x || x.shape() == shape)
    return x;
  if (foldable(shape, {x}))
    return Val(frontend::broadcastTo(*x.constant, shape, dims));
  return make<BroadcastOp>(typeOf(shape, x.element()), materialize(x), dims);
}

Val Emitter::broadcastTo(Val x, llvm::ArrayRef<int64_t> shape) {
  if (!x)
    return {};
  int64_t shift = static_cast<int64_t>(shape.size()) - x.rank();
  bool fits = shift >= 0;
  Shape dims;
  for (int64_t d = 0; fits && d < x.rank(); ++d) {
    fits = x.dim(d) == 1 || x.dim(d) == shape[d + shift];
    dims.push_back(d + shift);
  }
  if (!fits)
    return fail("cannot broadcast {0} to {1}", x.shape(), shape);
  return broadcast(x, shape, dims);
}

Val Emitter::slice(Val x, llvm::ArrayRef<int64_t> offsets,
                   llvm::ArrayRef<int64_t> sizes,
                   llvm::ArrayRef<int64_t> steps) {
  if (!x)
    return {};
  bool whole = x.shape() == sizes;
  for (auto [offset, step] : llvm::zip(offsets, steps))
    whole &= offset == 0 && step == 1;
  if (whole)
    return x;
  if (foldable(sizes, {x}))
    return Val(sliced(*x.constant, offsets, sizes, steps));
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (steps[d] > 0 || sizes[d] <= 1)
      continue;
    // Take the positions along d, then slice the other dimensions.
    Shape positions;
    for (int64_t n = 0; n < sizes[d]; ++n)
      positions.push_back(offsets[d] + n * steps[d]);
    Shape from(offsets), by(steps);
    from[d] = 0;
    by[d] = 1;
    return slice(take(x, d, positions), from, sizes, by);
  }
  Shape positive(steps);
  for (int64_t &step : positive)
    step = std::max<int64_t>(step, 1);
  return make<SliceOp>(typeOf(sizes, x.element()), materialize(x), offsets,
                       positive);
}

Val Emitter::sliceDim(Val x, int64_t dim, int64_t begin, int64_t size,
                      int64_t step) {
  if (!x)
    return {};
  Shape offsets(x.rank(), 0), sizes(x.shape()), steps(x.rank(), 1);
  offsets[dim] = begin;
  sizes[dim] = size;
  steps[dim] = step;
  return slice(x, offsets, sizes, steps);
}

Val Emitter::concat(llvm::ArrayRef<Val> parts, int64_t dim) {
  llvm::SmallVector<Val> used;
  for (const Val &part : parts) {
    if (!part)
      return {};
    if (part.dim(dim) != 0 || parts.size() == 1)
      used.push_back(part);
  }
  if (used.empty())
    return parts.front();
  if (used.size() == 1)
    return used.front();
  Shape shape(used[0].shape());
  shape[dim] = 0;
  for (const Val &part : used) {
    if (!sameElement(used[0], part))
      return {};
    shape[dim] += part.dim(dim);
    for (int64_t d = 0; d < part.rank(); ++d)
      if (part.rank() != used[0].rank() ||
          (d != dim && part.dim(d) != used[0].dim(d)))
        return fail("cannot join {0} and {1} along dimension {2}",
                    used[0].shape(), part.shape(), dim);
  }
  if (numElements(shape) <= kFoldLimit &&
      llvm::all_of(used, [](const Val &v) { return !!v.constant; })) {
    llvm::SmallVector<const ConstTensor *> tensors;
    for (const Val &part : used)
      tensors.push_back(part.constant.get());
    return Val(concatenated(tensors, dim));
  }
  llvm::SmallVector<Value> values;
  for (const Val &part : used)
    values.push_back(materialize(part));
  return make<ConcatOp>(typeOf(shape, used[0].element()), values,
                        builder.getI64IntegerAttr(dim));
}

Val Emitter::reduce(ReduceKind kind, Val x, llvm::ArrayRef<int64_t> dims) {
  if (!x || dims.empty())
    return x;
  if (foldable(x.shape(), {x}) && numElements(x.shape()) <= kFoldLimit)
    return Val(reduced(kind, *x.constant, dims));
  Shape shape;
  for (int64_t d = 0; d < x.rank(); ++d)
    if (!llvm::is_contained(dims, d))
      shape.push_back(x.dim(d));
  return make<ReduceOp>(typeOf(shape, x.element()), kind, materialize(x), dims);
}

Val Emitter::mean(Val x, llvm::ArrayRef<int64_t> dims) {
  if (!x)
    return {};
  auto sizes = llvm::map_range(dims, [&](int64_t d) { return x.dim(d); });
  int64_t count = llvm::product_of(sizes);
  Val sum = reduce(ReduceKind::sum, x, dims);
  if (!x.isFloat())
    return div(sum, count);
  return mul(sum, 1.0 / static_cast<double>(count));
}

Val Emitter::keepDims(Val reduced, Val original, llvm::ArrayRef<int64_t> dims) {
  if (!reduced)
    return {};
  Shape shape(original.shape());
  for (int64_t d : dims)
    shape[d] = 1;
  return reshape(reduced, shape);
}

Val Emitter::matmul(Val a, Val b, bool ta, bool tb) {
  if (!a || !b || !sameElement(a, b))
    return {};
  int64_t ra = a.rank(), rb = b.rank();
  int64_t m = a.dim(ra - (ta ? 1 : 2)), ka = a.dim(ra - (ta ? 2 : 1));
  int64_t kb = b.dim(rb - (tb ? 1 : 2)), n = b.dim(rb - (tb ? 2 : 1));
  if (ka != kb)
    return fail("contracted dimensions differ: {0} times {1}", a.shape(),
                b.shape());
  Shape shape(a.shape().drop_back(2));
  shape.push_back(m);
  shape.push_back(n);
  Value x = materialize(a), y = materialize(b);
  return make<MatmulOp>(typeOf(shape, a.element()), x, y, ta, tb);
}

Val Emitter::softmax(Val x) {
  if (!x)
    return {};
  return make<SoftmaxOp>(x.type(), materialize(x));
}

std::pair<Val, Val> Emitter::topk(Val x, int64_t k, bool largest) {
  if (!x)
    return {};
  if (x.rank() == 0 || k < 1 || k > x.shape().back())
    return {fail("cannot pick {0} elements of each row of {1}", k, x), Val()};
  Shape shape(x.shape());
  shape.back() = k;
  auto op = TopKOp::create(builder, loc, typeOf(shape, x.element()),
                           typeOf(shape, i64()), materialize(x), !largest);
  return {Val(op.getValues()), Val(op.getIndices())};
}

std::pair<Val, Val> Emitter::topk(Val x, int64_t dim, int64_t k, bool largest) {
  auto [values, indices] = topk(swapWithLast(x, dim), k, largest);
  values = swapWithLast(values, dim);
  return {values, swapWithLast(indices, dim)};
}

Val Emitter::cumsum(Val x, bool exclusive, bool reverse) {
  if (!x)
    return {};
  return make<CumSumOp>(x.type(), materialize(x), exclusive, reverse);
}

Val Emitter::logSoftmax(Val x) {
  if (!x)
    return {};
  int64_t last = x.rank() - 1;
  Val top = keepDims(reduce(ReduceKind::max, x, {last}), x, {last});
  Val shifted = sub(x, top);
  Val sum = reduce(ReduceKind::sum, exp(shifted), {last});
  return sub(shifted, keepDims(log(sum), x, {last}));
}

Val Emitter::logSumExp(Val x, llvm::ArrayRef<int64_t> dims) {
  Val top = reduce(ReduceKind::max, x, dims);
  Val shifted = sub(x, keepDims(top, x, dims));
  return add(log(reduce(ReduceKind::sum, exp(shifted), dims)), top);
}

/// The `ignore_index` of losses that ignore no label.
static constexpr int64_t kNoLabel = -100;

Val Emitter::crossEntropy(Val scores, Val labels,
                          std::optional<int64_t> ignored) {
  if (!scores || !labels)
    return {};
  auto type = typeOf(labels.shape(), statisticsType(scores));
  Value rows = materialize(scores), classes = materialize(labels);
  auto loss =
      CrossEntropyOp::create(builder, loc, type, type, rows, classes,
                             static_cast<uint64_t>(ignored.value_or(kNoLabel)));
  if (!ignored)
    loss->setAttr(attr::kBounded, builder.getUnitAttr());
  return Val(loss.getLoss());
}

Val Emitter::embedding(Val table, Val ids) {
  if (!table || !ids)
    return {};
  Shape shape(ids.shape());
  shape.push_back(table.dim(1));
  Value t = materialize(table), i = materialize(ids);
  return make<EmbeddingOp>(typeOf(shape, table.element()), t, i, TypeAttr());
}

} // namespace dpc::frontend
