//===- ConstMovement.cpp - Data movement of host tensors ------------------===//
#include "frontends/emit/ConstTensor.h"
#include "ir/ScalarSemantics.h"

#include <cmath>

using namespace mlir;

namespace dpc::frontend {

static Shape stridesOf(llvm::ArrayRef<int64_t> shape) {
  Shape strides(shape.size(), 1);
  for (int64_t d = static_cast<int64_t>(shape.size()) - 2; d >= 0; --d)
    strides[d] = strides[d + 1] * shape[d + 1];
  return strides;
}

static void forEachIndex(llvm::ArrayRef<int64_t> shape,
                         llvm::function_ref<void(llvm::ArrayRef<int64_t>)> fn) {
  Shape index(shape.size(), 0);
  for (int64_t n = numElements(shape); n > 0; --n) {
    fn(index);
    for (int64_t d = static_cast<int64_t>(shape.size()) - 1; d >= 0; --d) {
      if (++index[d] < shape[d])
        break;
      index[d] = 0;
    }
  }
}

ConstTensor convertTo(const ConstTensor &x, Type element) {
  bool fromFloat = x.isFloat(), toFloat = isa<FloatType>(element);
  return mapElements(x, element, [&](Scalar v) {
    Scalar r;
    if (toFloat)
      r.f = fromFloat ? v.f
            : x.element().isUnsignedInteger(64)
                ? static_cast<double>(static_cast<uint64_t>(v.i))
                : static_cast<double>(v.i);
    else if (!fromFloat)
      r.i = v.i;
    else if (element.isInteger(1))
      r.i = v.f != 0.0;
    else
      r.i = std::isfinite(v.f) ? static_cast<int64_t>(v.f) : 0;
    return r;
  });
}

/// Element `index` of the result is element `position(index)`, row-major, of x.
static ConstTensor
gathered(const ConstTensor &x, llvm::ArrayRef<int64_t> shape,
         llvm::function_ref<int64_t(llvm::ArrayRef<int64_t>)> position) {
  if (x.layout() == ConstTensor::Layout::Splat)
    return ConstTensor::splat(x.element(), shape, x.stored()[0]);
  std::vector<Scalar> values;
  values.reserve(numElements(shape));
  forEachIndex(shape, [&](llvm::ArrayRef<int64_t> index) {
    values.push_back(x.at(position(index)));
  });
  return ConstTensor::dense(x.element(), shape, std::move(values));
}

static ConstTensor withLeading(const ConstTensor &x,
                               llvm::ArrayRef<int64_t> shape,
                               int64_t diagonal) {
  return ConstTensor::triangle(x.element(), shape, x.stored()[0], x.stored()[1],
                               diagonal);
}

ConstTensor reshapeTo(const ConstTensor &x, llvm::ArrayRef<int64_t> shape) {
  if (x.layout() == ConstTensor::Layout::Splat)
    return ConstTensor::splat(x.element(), shape, x.stored()[0]);
  if (x.layout() == ConstTensor::Layout::Triangle && shape.size() >= 2 &&
      x.shape().take_back(2) == shape.take_back(2))
    return withLeading(x, shape, x.diagonal());
  if (x.layout() == ConstTensor::Layout::Dense)
    return ConstTensor::dense(x.element(), shape, x.stored());
  std::vector<Scalar> values;
  values.reserve(x.size());
  for (int64_t n = 0; n < x.size(); ++n)
    values.push_back(x.at(n));
  return ConstTensor::dense(x.element(), shape, std::move(values));
}

ConstTensor broadcastTo(const ConstTensor &x, llvm::ArrayRef<int64_t> shape,
                        llvm::ArrayRef<int64_t> dims) {
  int64_t rank = static_cast<int64_t>(shape.size());
  if (x.layout() == ConstTensor::Layout::Triangle &&
      dims[x.rank() - 1] == rank - 1 && dims[x.rank() - 2] == rank - 2 &&
      x.shape().take_back(2) == shape.take_back(2))
    return withLeading(x, shape, x.diagonal());
  Shape strides = stridesOf(x.shape());
  return gathered(x, shape, [&](llvm::ArrayRef<int64_t> index) {
    int64_t position = 0;
    for (int64_t d = 0; d < x.rank(); ++d)
      if (x.shape()[d] != 1)
        position += index[dims[d]] * strides[d];
    return position;
  });
}

ConstTensor transposed(const ConstTensor &x, llvm::ArrayRef<int64_t> perm) {
  Shape shape, strides;
  Shape own = stridesOf(x.shape());
  for (int64_t p : perm) {
    shape.push_back(x.shape()[p]);
    strides.push_back(own[p]);
  }
  return gathered(x, shape, [&](llvm::ArrayRef<int64_t> index) {
    int64_t position = 0;
    for (auto [i, s] : llvm::zip(index, strides))
      position += i * s;
    return position;
  });
}

ConstTensor sliced(const ConstTensor &x, llvm::ArrayRef<int64_t> offsets,
                   llvm::ArrayRef<int64_t> sizes,
                   llvm::ArrayRef<int64_t> steps) {
  int64_t rank = x.rank();
  if (x.layout() == ConstTensor::Layout::Triangle && steps[rank - 1] == 1 &&
      steps[rank - 2] == 1)
    return withLeading(x, sizes,
                       x.diagonal() - offsets[rank - 1] + offsets[rank - 2]);
  Shape strides = stridesOf(x.shape());
  return gathered(x, sizes, [&](llvm::ArrayRef<int64_t> index) {
    int64_t position = 0;
    for (int64_t d = 0; d < rank; ++d)
      position += (offsets[d] + index[d] * steps[d]) * strides[d];
    return position;
  });
}

ConstTensor concatenated(llvm::ArrayRef<const ConstTensor *> parts,
                         int64_t dim) {
  Shape shape(parts[0]->shape());
  int64_t outer = 1;
  for (int64_t d = 0; d < dim; ++d)
    outer *= shape[d];
  shape[dim] = 0;
  for (const ConstTensor *part : parts)
    shape[dim] += part->shape()[dim];
  std::vector<Scalar> values;
  values.reserve(numElements(shape));
  for (int64_t o = 0; o < outer; ++o)
    for (const ConstTensor *part : parts) {
      int64_t chunk = part->size() / std::max<int64_t>(outer, 1);
      for (int64_t n = 0; n < chunk; ++n)
        values.push_back(part->at(o * chunk + n));
    }
  return ConstTensor::dense(parts[0]->element(), shape, std::move(values));
}

static Scalar neutral(ReduceKind kind, Type element) {
  Scalar s;
  if (isa<FloatType>(element))
    s.f = neutralOf(kind);
  else if (kind == ReduceKind::sum || kind == ReduceKind::prod)
    return makeScalar(neutralOf(kind), element);
  else
    s.i = kind == ReduceKind::max ? std::numeric_limits<int64_t>::min()
                                  : std::numeric_limits<int64_t>::max();
  return s;
}

ConstTensor reduced(ReduceKind kind, const ConstTensor &x,
                    llvm::ArrayRef<int64_t> dims) {
  Shape shape, kept;
  for (int64_t d = 0; d < x.rank(); ++d)
    if (!llvm::is_contained(dims, d)) {
      shape.push_back(x.shape()[d]);
      kept.push_back(d);
    }
  Shape strides = stridesOf(shape);
  std::vector<Scalar> values(numElements(shape), neutral(kind, x.element()));
  int64_t n = 0;
  forEachIndex(x.shape(), [&](llvm::ArrayRef<int64_t> index) {
    int64_t position = 0;
    for (auto [d, s] : llvm::zip(kept, strides))
      position += index[d] * s;
    values[position] =
        evalBinary(combinerOf(kind), values[position], x.at(n++), x.isFloat());
  });
  for (Scalar &v : values)
    v = coerce(v, x.element());
  return ConstTensor::dense(x.element(), shape, std::move(values));
}

ConstTensor triangularPart(const ConstTensor &x, int64_t k, bool upper) {
  Scalar zero = makeScalar(0, x.element());
  if (x.layout() == ConstTensor::Layout::Splat) {
    Scalar v = x.stored()[0];
    return upper
               ? ConstTensor::triangle(x.element(), x.shape(), zero, v, k)
               : ConstTensor::triangle(x.element(), x.shape(), v, zero, k + 1);
  }
  std::vector<Scalar> values;
  int64_t n = 0;
  forEachIndex(x.shape(), [&](llvm::ArrayRef<int64_t> index) {
    int64_t distance = index.back() - index[index.size() - 2];
    bool keep = upper ? distance >= k : distance <= k;
    values.push_back(keep ? x.at(n) : zero);
    ++n;
  });
  return ConstTensor::dense(x.element(), x.shape(), std::move(values));
}

} // namespace dpc::frontend
