//===- ConstTensor.cpp - Tensors known at import time ---------------------===//
#include "frontends/emit/ConstTensor.h"

#include "llvm/ADT/APFloat.h"

#include <cmath>
#include <cstring>

#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;

namespace dpc::frontend {

int64_t numElements(llvm::ArrayRef<int64_t> shape) {
  int64_t n = 1;
  for (int64_t d : shape)
    if (llvm::MulOverflow(n, d, n))
      return std::numeric_limits<int64_t>::max();
  return n;
}

static llvm::APFloat toAPFloat(double value, FloatType type) {
  bool lost;
  llvm::APFloat number(value);
  number.convert(type.getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven,
                 &lost);
  return number;
}

Scalar coerce(Scalar value, Type element) {
  if (element.isF64() || element.isInteger(64))
    return value;
  if (auto type = dyn_cast<IntegerType>(element); type && type.getWidth() > 1) {
    unsigned rest = 64 - type.getWidth();
    uint64_t high = static_cast<uint64_t>(value.i) << rest;
    value.i = type.isUnsigned() ? static_cast<int64_t>(high >> rest)
                                : static_cast<int64_t>(high) >> rest;
    return value;
  }
  if (element.isF32()) {
    value.f = static_cast<float>(value.f);
  } else if (auto type = dyn_cast<FloatType>(element)) {
    bool lost;
    llvm::APFloat number = toAPFloat(value.f, type);
    number.convert(llvm::APFloat::IEEEdouble(),
                   llvm::APFloat::rmNearestTiesToEven, &lost);
    value.f = number.convertToDouble();
  } else {
    value.i = value.i != 0;
  }
  return value;
}

Scalar makeScalar(double value, Type element) {
  Scalar s;
  if (isa<FloatType>(element))
    s.f = value;
  else
    s.i = static_cast<int64_t>(value);
  return coerce(s, element);
}

ConstTensor ConstTensor::dense(Type element, llvm::ArrayRef<int64_t> shape,
                               std::vector<Scalar> values) {
  assert(static_cast<int64_t>(values.size()) == numElements(shape));
  ConstTensor t;
  t.elementType = element;
  t.dims.assign(shape.begin(), shape.end());
  // A Splat stays small when it is broadcast.
  t.kind = values.size() == 1 ? Layout::Splat : Layout::Dense;
  t.values = std::move(values);
  return t;
}

ConstTensor ConstTensor::splat(Type element, llvm::ArrayRef<int64_t> shape,
                               Scalar value) {
  ConstTensor t;
  t.elementType = element;
  t.dims.assign(shape.begin(), shape.end());
  t.values = {value};
  return t;
}

ConstTensor ConstTensor::triangle(Type element, llvm::ArrayRef<int64_t> shape,
                                  Scalar below, Scalar above,
                                  int64_t diagonal) {
  assert(shape.size() >= 2);
  ConstTensor t = splat(element, shape, below);
  t.kind = Layout::Triangle;
  t.values.push_back(above);
  t.diag = diagonal;
  return t;
}

ConstTensor ConstTensor::ints(MLIRContext *context,
                              llvm::ArrayRef<int64_t> numbers) {
  std::vector<Scalar> values(numbers.size());
  for (auto [scalar, number] : llvm::zip(values, numbers))
    scalar.i = number;
  return dense(IntegerType::get(context, 64),
               {static_cast<int64_t>(numbers.size())}, std::move(values));
}

Scalar ConstTensor::at(int64_t index) const {
  switch (kind) {
  case Layout::Dense:
    return values[index];
  case Layout::Splat:
    return values[0];
  case Layout::Triangle: {
    int64_t columns = dims.back();
    int64_t rows = dims[dims.size() - 2];
    int64_t i = index / columns % rows;
    int64_t j = index % columns;
    return values[j - i >= diag ? 1 : 0];
  }
  }
  llvm_unreachable("all layouts handled");
}

Shape ConstTensor::asInts() const {
  Shape result;
  for (int64_t n = 0; n < size(); ++n)
    result.push_back(isFloat() ? static_cast<int64_t>(at(n).f) : at(n).i);
  return result;
}

RankedTensorType ConstTensor::type() const {
  return RankedTensorType::get(dims, elementType);
}

/// Compares bits, so that NaN equals itself and -0.0 differs from 0.0.
static bool same(Scalar a, Scalar b) { return a.i == b.i; }

ConstTensor ConstTensor::compacted() const {
  if (kind != Layout::Dense || values.empty())
    return *this;
  if (llvm::all_of(values, [&](Scalar v) { return same(v, values[0]); }))
    return splat(elementType, dims, values[0]);
  if (rank() < 2 || dims.back() < 2 || dims[rank() - 2] < 2)
    return *this;
  // The diagonal is where the first row changes from v0 to v1. If the first row
  // is uniform, v0 is in the bottom-left corner.
  int64_t columns = dims.back(), rows = dims[rank() - 2];
  int64_t change = 1;
  while (change < columns && same(values[change], values[0]))
    ++change;
  Scalar below = values[0], above = values[0];
  int64_t diagonal = change;
  if (change < columns) {
    above = values[change];
  } else {
    below = values[(rows - 1) * columns];
    int64_t row = 0;
    while (row < rows && same(values[row * columns], above))
      ++row;
    diagonal = 1 - row;
  }
  ConstTensor candidate = triangle(elementType, dims, below, above, diagonal);
  for (int64_t n = 0; n < size(); ++n)
    if (!same(candidate.at(n), values[n]))
      return *this;
  return candidate;
}

DenseElementsAttr ConstTensor::toAttr() const {
  int64_t count = kind == Layout::Splat ? 1 : size();
  if (auto floatType = dyn_cast<FloatType>(elementType)) {
    if (elementType.isF32()) {
      std::vector<float> numbers(count);
      for (int64_t n = 0; n < count; ++n)
        numbers[n] = static_cast<float>(at(n).f);
      return DenseElementsAttr::get(type(), llvm::ArrayRef(numbers));
    }
    llvm::SmallVector<llvm::APFloat> numbers;
    for (int64_t n = 0; n < count; ++n)
      numbers.push_back(toAPFloat(at(n).f, floatType));
    return DenseElementsAttr::get(type(), numbers);
  }
  llvm::SmallVector<llvm::APInt> numbers;
  unsigned width = elementType.getIntOrFloatBitWidth();
  for (int64_t n = 0; n < count; ++n)
    numbers.emplace_back(width, static_cast<uint64_t>(at(n).i),
                         /*isSigned=*/width > 1, /*implicitTrunc=*/true);
  return DenseElementsAttr::get(type(), numbers);
}

ConstTensor mapElements(const ConstTensor &x, Type element,
                        llvm::function_ref<Scalar(Scalar)> fn) {
  std::vector<Scalar> values = x.stored();
  for (Scalar &v : values)
    v = coerce(fn(v), element);
  switch (x.layout()) {
  case ConstTensor::Layout::Dense:
    return ConstTensor::dense(element, x.shape(), std::move(values));
  case ConstTensor::Layout::Splat:
    return ConstTensor::splat(element, x.shape(), values[0]);
  case ConstTensor::Layout::Triangle:
    return ConstTensor::triangle(element, x.shape(), values[0], values[1],
                                 x.diagonal());
  }
  llvm_unreachable("all layouts handled");
}

ConstTensor mapElements(const ConstTensor &a, const ConstTensor &b,
                        Type element,
                        llvm::function_ref<Scalar(Scalar, Scalar)> fn) {
  assert(a.shape() == b.shape());
  if (b.layout() == ConstTensor::Layout::Splat)
    return mapElements(a, element,
                       [&](Scalar x) { return fn(x, b.stored()[0]); });
  if (a.layout() == ConstTensor::Layout::Splat)
    return mapElements(b, element,
                       [&](Scalar y) { return fn(a.stored()[0], y); });
  auto both = [&](Scalar x, Scalar y) { return coerce(fn(x, y), element); };
  if (a.layout() == ConstTensor::Layout::Triangle && b.layout() == a.layout() &&
      a.diagonal() == b.diagonal())
    return ConstTensor::triangle(
        element, a.shape(), both(a.stored()[0], b.stored()[0]),
        both(a.stored()[1], b.stored()[1]), a.diagonal());
  std::vector<Scalar> values(a.size());
  for (int64_t n = 0; n < a.size(); ++n)
    values[n] = both(a.at(n), b.at(n));
  return ConstTensor::dense(element, a.shape(), std::move(values));
}

ConstTensor selectElements(const ConstTensor &condition,
                           const ConstTensor &onTrue,
                           const ConstTensor &onFalse) {
  using Layout = ConstTensor::Layout;
  if (condition.layout() == Layout::Splat)
    return condition.stored()[0].i ? onTrue : onFalse;
  if (condition.layout() == Layout::Triangle &&
      onTrue.layout() == Layout::Splat && onFalse.layout() == Layout::Splat) {
    auto pick = [&](Scalar c) {
      return c.i ? onTrue.stored()[0] : onFalse.stored()[0];
    };
    return ConstTensor::triangle(
        onTrue.element(), onTrue.shape(), pick(condition.stored()[0]),
        pick(condition.stored()[1]), condition.diagonal());
  }
  std::vector<Scalar> values(condition.size());
  for (int64_t n = 0; n < condition.size(); ++n)
    values[n] = condition.at(n).i ? onTrue.at(n) : onFalse.at(n);
  return ConstTensor::dense(onTrue.element(), onTrue.shape(),
                            std::move(values));
}

} // namespace dpc::frontend
