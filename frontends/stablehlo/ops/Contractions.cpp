//===- Contractions.cpp - Matmuls and dot_general -------------------------===//
#include "frontends/emit/Contraction.h"
#include "frontends/stablehlo/Call.h"

using namespace mlir;

namespace dpc::frontend::hlo {

namespace {

/// Labels of one operand: batch dimensions, contracted dimensions, the rest.
struct Labels {
  std::string text;
  std::string rest;
};

std::optional<Labels> labelsOf(Call &c, const Val &x, const Shape &batch,
                               const Shape &contracted, char firstFree) {
  Labels labels;
  labels.text.assign(static_cast<size_t>(x.rank()), '?');
  auto mark = [&](const Shape &dims, char first) {
    for (auto [i, dim] : llvm::enumerate(dims)) {
      if (dim < 0 || dim >= x.rank() || labels.text[dim] != '?')
        return false;
      labels.text[dim] = static_cast<char>(first + i);
    }
    return true;
  };
  if (!mark(batch, 'a') || !mark(contracted, 'k')) {
    c.fail("its dimension numbers do not exist in {0}", x);
    return std::nullopt;
  }
  for (char &label : labels.text)
    if (label == '?') {
      label = firstFree++;
      labels.rest += label;
    }
  return labels;
}

/// The accumulation type.
Type sumType(Emitter &e, Type operands, Type result) {
  if (!isa<FloatType>(result))
    return e.f64();
  return operands.getIntOrFloatBitWidth() >= result.getIntOrFloatBitWidth()
             ? operands
             : result;
}

Val dotGeneral(Call &c, Val a, Val b) {
  RankedTensorType type = c.resultType();
  llvm::StringMap<Shape> dims = c.fields("dot_dimension_numbers");
  if (c.emit.failed())
    return {};
  Shape batchA = dims["lhs_batching_dimensions"],
        batchB = dims["rhs_batching_dimensions"],
        sumA = dims["lhs_contracting_dimensions"],
        sumB = dims["rhs_contracting_dimensions"];
  constexpr int64_t kMax = 10; // labels of one kind
  if (batchA.size() != batchB.size() || sumA.size() != sumB.size() ||
      a.rank() > kMax || b.rank() > kMax)
    return c.fail("its dimension numbers do not fit {0} and {1}", a, b);
  auto left = labelsOf(c, a, batchA, sumA, 'A');
  auto right = labelsOf(c, b, batchB, sumB, 'N');
  if (!left || !right)
    return {};
  std::string result;
  for (size_t i = 0; i < batchA.size(); ++i)
    result += static_cast<char>('a' + i);
  result += left->rest + right->rest;
  Emitter &e = c.emit;
  Type element = type.getElementType();
  Type sum = sumType(e, a.element(), element);
  Val product = einsum(e, left->text + "," + right->text + "->" + result,
                       {e.convert(a, sum), e.convert(b, sum)});
  return e.convert(product, element);
}

/// Multiplies two matrices, or a matrix and a vector.
Val dot(Call &c) {
  RankedTensorType type = c.resultType();
  Val a = c.in(0), b = c.in(1);
  if (c.emit.failed())
    return {};
  Type sum = sumType(c.emit, a.element(), type.getElementType());
  Val product =
      stackedMatmul(c.emit, c.emit.convert(a, sum), c.emit.convert(b, sum));
  return c.emit.convert(product, type.getElementType());
}

} // namespace

void addContractions(OperatorTable &table) {
  table["stablehlo.dot_general"] = dotGeneral;
  table["stablehlo.dot"] = dot;
}

} // namespace dpc::frontend::hlo
