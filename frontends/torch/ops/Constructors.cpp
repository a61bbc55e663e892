//===- Constructors.cpp - Operators that create tensors -------------------===//
#include "frontends/torch/Call.h"

#include <cmath>

using namespace mlir;

namespace dpc::frontend::pt2 {

namespace {

/// Longer ranges are errors.
constexpr double kMaxRange = 1 << 26;

/// Fills `shape` with `value`, in the result type that the file states.
Val filled(Call &c, const Shape &shape, double value) {
  Type element = c.resultElement();
  int64_t count = 1;
  for (int64_t d : shape)
    if (d < 0 || llvm::MulOverflow(count, d, count))
      return c.fail("size {0} is invalid", shape);
  return element ? c.emit.splat(value, element, shape) : Val();
}

template <int value> Val fillSize(Call &c) {
  return filled(c, c.ints("size"), value);
}
template <int value> Val fillLike(Call &c, Val x) {
  return filled(c, Shape(x.shape()), value);
}
Val full(Call &c) { return filled(c, c.ints("size"), c.number("fill_value")); }
Val fullLike(Call &c, Val x) {
  return filled(c, Shape(x.shape()), c.number("fill_value"));
}
Val scalarTensor(Call &c) { return filled(c, {}, c.number("s")); }

/// Returns start + n * step for n = 0 to count - 1.
Val sequence(Call &c, double start, double step, double count) {
  Type element = c.resultElement();
  if (!element || c.emit.failed())
    return {};
  if (!(count <= kMaxRange) || count < 0)
    return c.fail("a range of {0} elements is not supported",
                  std::to_string(count));
  std::vector<Scalar> values;
  for (int64_t n = 0; n < static_cast<int64_t>(count); ++n)
    values.push_back(
        makeScalar(start + static_cast<double>(n) * step, element));
  return Val(ConstTensor::dense(element, {static_cast<int64_t>(count)},
                                std::move(values)));
}

Val arange(Call &c) {
  double start = c.number("start"), step = c.number("step");
  if (step == 0)
    return c.fail("the step is zero");
  double count = std::ceil((c.number("end") - start) / step);
  return sequence(c, start, step, std::max(count, 0.0));
}

Val linspace(Call &c) {
  double start = c.number("start"), end = c.number("end");
  auto steps = static_cast<double>(c.integer("steps"));
  return sequence(c, start, steps > 1 ? (end - start) / (steps - 1) : 0, steps);
}

/// Keeps the elements on one side of a diagonal and sets the others to zero.
template <bool isUpper> Val triangle(Call &c, Val x) {
  Emitter &e = c.emit;
  int64_t diagonal = c.integer("diagonal");
  if (e.failed())
    return {};
  if (x.rank() < 2)
    return c.fail("needs a matrix, not {0}", x);
  if (x.constant && x.constant->layout() == ConstTensor::Layout::Splat)
    return Val(triangularPart(*x.constant, diagonal, isUpper));
  Scalar yes, no;
  yes.i = 1, no.i = 0;
  // Keep j - i >= diagonal if `isUpper`, and j - i <= diagonal otherwise.
  Val kept(isUpper ? ConstTensor::triangle(e.boolean(), x.shape().take_back(2),
                                           no, yes, diagonal)
                   : ConstTensor::triangle(e.boolean(), x.shape().take_back(2),
                                           yes, no, diagonal + 1));
  return e.select(kept, x, 0);
}

Val eye(Call &c) {
  int64_t rows = c.integer("n"), columns = c.has("m") ? c.integer("m") : rows;
  Val ones = filled(c, {rows, columns}, 1);
  return ones ? Val(triangularPart(
                    triangularPart(*ones.constant, 0, /*upper=*/true)
                        .compacted(),
                    0,
                    /*upper=*/false))
              : Val();
}

/// The indices of one side of a diagonal, as [2, count].
template <bool isUpper> Val triangleIndices(Call &c) {
  Type element = c.resultElement();
  int64_t rows = c.integer("row"), columns = c.integer("col");
  int64_t offset = c.integer("offset");
  if (!element || c.emit.failed())
    return {};
  if (static_cast<double>(rows) * static_cast<double>(columns) > kMaxRange)
    return c.fail("a matrix of {0} by {1} is not supported", rows, columns);
  std::vector<Scalar> places[2];
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      if (isUpper ? j - i >= offset : j - i <= offset) {
        Scalar row, column;
        row.i = i, column.i = j;
        places[0].push_back(row);
        places[1].push_back(column);
      }
  auto count = static_cast<int64_t>(places[0].size());
  llvm::append_range(places[0], places[1]);
  return Val(ConstTensor::dense(element, {2, count}, std::move(places[0])));
}

} // namespace

void addConstructors(OperatorTable &t) {
  t["arange.default"] = {"end, start=0, step=1, dtype=None", arange};
  t["arange.start"] = {"start, end, step=1, dtype=None", arange};
  t["arange.start_step"] = {"start, end, step=1, dtype=None", arange};
  t["linspace.default"] = {"start, end, steps, dtype=None", linspace};
  t["full.default"] = {"size, fill_value, dtype=None", full};
  t["full_like.default"] = {"self, fill_value, dtype=None", fullLike};
  t["new_full.default"] = {"self, size, fill_value, dtype=None", full};
  t["scalar_tensor.default"] = {"s, dtype=None", scalarTensor};
  for (const char *name : {"zeros.default", "empty.memory_format"})
    t[name] = {"size, dtype=None", fillSize<0>};
  for (const char *name : {"new_zeros.default", "new_empty.default"})
    t[name] = {"self, size, dtype=None", fillSize<0>};
  t["ones.default"] = {"size, dtype=None", fillSize<1>};
  t["new_ones.default"] = {"self, size, dtype=None", fillSize<1>};
  t["zeros_like.default"] = {"self, dtype=None", fillLike<0>};
  t["empty_like.default"] = {"self, dtype=None", fillLike<0>};
  t["ones_like.default"] = {"self, dtype=None", fillLike<1>};
  t["triu.default"] = {"self, diagonal=0", triangle<true>};
  t["tril.default"] = {"self, diagonal=0", triangle<false>};
  t["triu_indices.default"] = {"row, col, offset=0, dtype=None",
                               triangleIndices<true>};
  t["tril_indices.default"] = {"row, col, offset=0, dtype=None",
                               triangleIndices<false>};
  t["eye.default"] = {"n, m=None, dtype=None", eye};
  t["eye.m"] = {"n, m, dtype=None", eye};
}

} // namespace dpc::frontend::pt2
