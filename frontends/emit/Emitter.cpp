//===- Emitter.cpp - Builds or folds dpc ops ------------------------------===//
#include "frontends/emit/Emitter.h"

using namespace mlir;

namespace dpc::frontend {

/// The module computes results with more elements than this, unless they are
/// uniform or triangular.
static constexpr int64_t kFoldLimit = int64_t(1) << 22;

RankedTensorType Val::type() const {
  return constant ? constant->type() : cast<RankedTensorType>(value.getType());
}

llvm::ArrayRef<int64_t> Val::shape() const {
  return constant ? constant->shape()
                  : cast<RankedTensorType>(value.getType()).getShape();
}

std::string describe(llvm::ArrayRef<int64_t> shape) {
  std::string text = "[";
  for (auto [i, d] : llvm::enumerate(shape))
    text += (i ? ", " : "") + std::to_string(d);
  return text + "]";
}

std::string describe(RankedTensorType type) {
  std::string text = describe(type.getShape()) + " ";
  llvm::raw_string_ostream(text) << type.getElementType();
  return text;
}

Shape iotaDims(int64_t n) {
  Shape dims;
  for (int64_t d = 0; d < n; ++d)
    dims.push_back(d);
  return dims;
}

static bool isUniform(const ConstTensor &t) {
  return t.layout() == ConstTensor::Layout::Splat;
}

/// Whether an op on `operands` is evaluated at import: all operands are known,
/// and the result is small or stays symbolic (at most one operand is triangular
/// and the others are uniform).
static bool foldable(llvm::ArrayRef<int64_t> shape,
                     std::initializer_list<Val> operands) {
  // Unsigned 64-bit numbers do not fit a Scalar.
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

static RankedTensorType typeOf(llvm::ArrayRef<int64_t> shape, Type element) {
  return RankedTensorType::get(shape, element);
}

Val Emitter::fail(const llvm::Twine &why) {
  if (error.empty())
    error = why.str();
  return {};
}

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

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
    row = binary(BinaryKind::add, row, static_cast<double>(tensor.diagonal()));
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
  return Val(IotaOp::create(builder, loc, typeOf(shape, builder.getI64Type()),
                            builder.getI64IntegerAttr(dim), TypeAttr())
                 .getResult());
}

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

bool Emitter::sameElement(Val a, Val b) {
  if (a.element() == b.element())
    return true;
  fail("operands have different element types: " + describe(a.type()) +
       " and " + describe(b.type()));
  return false;
}

/// Kinds whose result for an integer is an integer.
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
  fail("operand of type " + describe(x.type()) + " is not accepted; it must " +
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
      fail("shapes " + describe(a) + " and " + describe(b) +
           " do not broadcast");
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
  return Val(UnaryOp::create(builder, loc, x.type(), kind, materialize(x))
                 .getResult());
}

Val Emitter::binary(BinaryKind kind, Val a, Val b) {
  if (!a || !b || !sameElement(a, b))
    return {};
  // Logical kinds combine integers bit by bit.
  bool isBitwise = isLogical(kind) && !a.isFloat();
  if (!isBitwise && !accepts(a, true, isLogical(kind)))
    return {};
  auto shape = broadcastShape(a.shape(), b.shape());
  if (!shape)
    return {};
  if (foldable(*shape, {a, b})) {
    Val x = broadcastTo(a, *shape), y = broadcastTo(b, *shape);
    return Val(mapElements(*x.constant, *y.constant, a.element(),
                           [&](Scalar p, Scalar q) {
                             return evalBinary(kind, p, q, a.isFloat());
                           }));
  }
  Value x = expanded(a, *shape), y = expanded(b, *shape);
  return Val(
      BinaryOp::create(builder, loc, typeOf(*shape, a.element()), kind, x, y)
          .getResult());
}

Val Emitter::round(Val x) {
  Val low = unary(UnaryKind::floor, x);
  Val rest = binary(BinaryKind::sub, x, low);
  Val odd = binary(BinaryKind::rem, unary(UnaryKind::abs, low), 2.0);
  if (!odd)
    return {};
  Val half = scalar(0.5, x.element()), one = scalar(1, x.element());
  // Round up above a half, and at a half if the floor is odd.
  Val even =
      select(compare(CompareKind::eq, rest, half), odd, scalar(0, x.element()));
  Val up = select(compare(CompareKind::gt, rest, half), one, even);
  return binary(BinaryKind::add, low, up);
}

Val Emitter::binary(BinaryKind kind, Val x, double value) {
  return x ? binary(kind, x, scalar(value, x.element())) : Val();
}

Val Emitter::compare(CompareKind kind, Val a, Val b) {
  if (!a || !b || !sameElement(a, b))
    return {};
  auto shape = broadcastShape(a.shape(), b.shape());
  if (!shape)
    return {};
  Type boolean = builder.getI1Type();
  if (foldable(*shape, {a, b})) {
    Val x = broadcastTo(a, *shape), y = broadcastTo(b, *shape);
    return Val(
        mapElements(*x.constant, *y.constant, boolean, [&](Scalar p, Scalar q) {
          Scalar r;
          r.i = evalCompare(kind, p, q, a.isFloat());
          return r;
        }));
  }
  Value x = expanded(a, *shape), y = expanded(b, *shape);
  return Val(
      CompareOp::create(builder, loc, typeOf(*shape, boolean), kind, x, y)
          .getResult());
}

Val Emitter::select(Val condition, Val onTrue, Val onFalse) {
  if (!condition || !onTrue || !onFalse || !sameElement(onTrue, onFalse))
    return {};
  if (!condition.element().isInteger(1))
    return fail("condition must be boolean, not " + describe(condition.type()));
  auto shape = broadcastShape(onTrue.shape(), onFalse.shape());
  if (shape)
    shape = broadcastShape(*shape, condition.shape());
  if (!shape)
    return {};
  if (foldable(*shape, {condition, onTrue, onFalse}))
    return Val(selectElements(*broadcastTo(condition, *shape).constant,
                              *broadcastTo(onTrue, *shape).constant,
                              *broadcastTo(onFalse, *shape).constant));
  Value c = expanded(condition, *shape);
  Value t = expanded(onTrue, *shape), f = expanded(onFalse, *shape);
  return Val(SelectOp::create(builder, loc, t.getType(), c, t, f).getResult());
}

Val Emitter::convert(Val x, Type element) {
  if (!x || x.element() == element)
    return x;
  if (foldable(x.shape(), {x}))
    return Val(convertTo(*x.constant, element));
  return Val(ConvertOp::create(builder, loc, typeOf(x.shape(), element),
                               materialize(x))
                 .getResult());
}

//===----------------------------------------------------------------------===//
// Movement
//===----------------------------------------------------------------------===//

Val Emitter::reshape(Val x, llvm::ArrayRef<int64_t> shape) {
  if (!x || x.shape() == shape)
    return x;
  if (numElements(x.shape()) != numElements(shape))
    return fail("cannot reshape " + describe(x.shape()) + " to " +
                describe(shape));
  if (foldable(shape, {x}))
    return Val(reshapeTo(*x.constant, shape));
  return Val(ReshapeOp::create(builder, loc, typeOf(shape, x.element()),
                               materialize(x))
                 .getResult());
}

Val Emitter::transpose(Val x, llvm::ArrayRef<int64_t> perm) {
  if (!x || llvm::equal(perm, llvm::seq<int64_t>(0, perm.size())))
    return x;
  Shape shape;
  for (int64_t p : perm)
    shape.push_back(x.dim(p));
  if (foldable(shape, {x}))
    return Val(transposed(*x.constant, perm));
  return Val(TransposeOp::create(builder, loc, typeOf(shape, x.element()),
                                 materialize(x), perm)
                 .getResult());
}

Val Emitter::broadcast(Val x, llvm::ArrayRef<int64_t> shape,
                       llvm::ArrayRef<int64_t> dims) {
  if (!x || x.shape() == shape)
    return x;
  if (foldable(shape, {x}))
    return Val(frontend::broadcastTo(*x.constant, shape, dims));
  return Val(BroadcastOp::create(builder, loc, typeOf(shape, x.element()),
                                 materialize(x), dims)
                 .getResult());
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
    return fail("cannot broadcast " + describe(x.shape()) + " to " +
                describe(shape));
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
    // Reverse along d, then slice the rest unchanged.
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
  return Val(SliceOp::create(builder, loc, typeOf(sizes, x.element()),
                             materialize(x), offsets, positive)
                 .getResult());
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
        return fail("cannot join " + describe(used[0].shape()) + " and " +
                    describe(part.shape()) + " along dimension " +
                    llvm::Twine(dim));
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
  return Val(ConcatOp::create(builder, loc, typeOf(shape, used[0].element()),
                              values, builder.getI64IntegerAttr(dim))
                 .getResult());
}

//===----------------------------------------------------------------------===//
// Reductions, matmul, rows
//===----------------------------------------------------------------------===//

Val Emitter::reduce(ReduceKind kind, Val x, llvm::ArrayRef<int64_t> dims) {
  if (!x || dims.empty())
    return x;
  if (foldable(x.shape(), {x}) && numElements(x.shape()) <= kFoldLimit)
    return Val(reduced(kind, *x.constant, dims));
  Shape shape;
  for (int64_t d = 0; d < x.rank(); ++d)
    if (!llvm::is_contained(dims, d))
      shape.push_back(x.dim(d));
  return Val(ReduceOp::create(builder, loc, typeOf(shape, x.element()), kind,
                              materialize(x), dims)
                 .getResult());
}

Val Emitter::mean(Val x, llvm::ArrayRef<int64_t> dims) {
  if (!x)
    return {};
  int64_t count = 1;
  for (int64_t d : dims)
    count *= x.dim(d);
  Val sum = reduce(ReduceKind::sum, x, dims);
  if (!x.isFloat())
    return binary(BinaryKind::div, sum, static_cast<double>(count));
  return binary(BinaryKind::mul, sum, 1.0 / static_cast<double>(count));
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
    return fail("contracted dimensions differ: " + describe(a.shape()) +
                " times " + describe(b.shape()));
  Shape shape(a.shape().drop_back(2));
  shape.push_back(m);
  shape.push_back(n);
  Value x = materialize(a), y = materialize(b);
  return Val(
      MatmulOp::create(builder, loc, typeOf(shape, a.element()), x, y, ta, tb)
          .getResult());
}

Val Emitter::softmax(Val x) {
  if (!x)
    return {};
  return Val(
      SoftmaxOp::create(builder, loc, x.type(), materialize(x)).getResult());
}

std::pair<Val, Val> Emitter::topk(Val x, int64_t k, bool largest) {
  if (!x)
    return {};
  if (x.rank() == 0 || k < 1 || k > x.shape().back())
    return {fail("cannot pick " + llvm::Twine(k) + " elements of each row of " +
                 describe(x.type())),
            Val()};
  Shape shape(x.shape());
  shape.back() = k;
  auto op = TopKOp::create(builder, loc, typeOf(shape, x.element()),
                           typeOf(shape, builder.getI64Type()), materialize(x),
                           !largest);
  return {Val(op.getValues()), Val(op.getIndices())};
}

Val Emitter::cumsum(Val x, bool exclusive, bool reverse) {
  if (!x)
    return {};
  return Val(CumSumOp::create(builder, loc, x.type(), materialize(x), exclusive,
                              reverse)
                 .getResult());
}

Val Emitter::logSoftmax(Val x) {
  if (!x)
    return {};
  int64_t last = x.rank() - 1;
  Val top = keepDims(reduce(ReduceKind::max, x, {last}), x, {last});
  Val shifted = binary(BinaryKind::sub, x, top);
  Val sum = reduce(ReduceKind::sum, unary(UnaryKind::exp, shifted), {last});
  Val log = keepDims(unary(UnaryKind::log, sum), x, {last});
  return binary(BinaryKind::sub, shifted, log);
}

Val Emitter::crossEntropy(Val scores, Val labels, int64_t ignore) {
  if (!scores || !labels)
    return {};
  Type element = scores.element();
  auto type = RankedTensorType::get(
      labels.shape(), element.isF64() ? element : builder.getF32Type());
  Value rows = materialize(scores), classes = materialize(labels);
  return Val(CrossEntropyOp::create(builder, loc, type, type, rows, classes,
                                    builder.getI64IntegerAttr(ignore))
                 .getLoss());
}

Val Emitter::embedding(Val table, Val ids) {
  if (!table || !ids)
    return {};
  Shape shape(ids.shape());
  shape.push_back(table.dim(1));
  Value t = materialize(table), i = materialize(ids);
  return Val(EmbeddingOp::create(builder, loc, typeOf(shape, table.element()),
                                 t, i, TypeAttr())
                 .getResult());
}

} // namespace dpc::frontend
