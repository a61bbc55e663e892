//===- Quantized.cpp - Quantized integers ---------------------------------===//
//
// A quantized number is (integer - zero point) * scale. Integer matmuls are
// computed in f64, which is exact, so that they use the GEMM library.
//
//===----------------------------------------------------------------------===//
#include "frontends/emit/Contraction.h"
#include "frontends/onnx/NodeContext.h"

#include <cmath>

using namespace mlir;

namespace dpc::frontend {

namespace {

/// Reshapes `v`, which has one element for all of x, one per position of `axis`
/// or one per block, so that it broadcasts to x.
Val spread(NodeContext &c, Val v, Val x, int64_t axis) {
  Emitter &e = c.emit;
  if (!v || numElements(v.shape()) == 1)
    return e.reshape(v, {});
  if (v.rank() == 1 && axis < x.rank() && v.dim(0) == x.dim(axis)) {
    Shape shape(x.rank(), 1);
    shape[axis] = v.dim(0);
    return e.reshape(v, shape);
  }
  int64_t block = c.intAttr("block_size", 0);
  if (v.rank() != x.rank() || block < 1 || v.dim(axis) * block < x.dim(axis))
    return c.fail("a scale or zero point " + describe(v.type()) +
                  " does not fit " + describe(x.type()));
  Shape wide(v.shape()), dims, flat(v.shape());
  wide.insert(wide.begin() + axis + 1, block);
  for (int64_t d = 0; d < v.rank(); ++d)
    dims.push_back(d <= axis ? d : d + 1);
  flat[axis] *= block;
  return e.sliceDim(e.reshape(e.broadcast(v, wide, dims), flat), axis, 0,
                    x.dim(axis));
}

/// The axis of the node: 1 by default, and 0 for vectors.
int64_t axisOf(NodeContext &c, Val x) {
  int64_t axis = c.intAttr("axis", 1);
  return x.rank() <= 1 ? 0 : c.axis(axis, x.rank());
}

/// Rounds y, adds the zero point (null: none) and saturates to the range of
/// `element`.
Val saturated(Emitter &e, Val y, Val zero, Type element) {
  auto floats = dyn_cast<FloatType>(element);
  double low, high;
  if (floats) {
    high =
        llvm::APFloat::getLargest(floats.getFloatSemantics()).convertToDouble();
    low = -high;
  } else {
    unsigned width = element.getIntOrFloatBitWidth();
    bool isUnsigned = element.isUnsignedInteger();
    double range = std::ldexp(1.0, static_cast<int>(width));
    low = isUnsigned ? 0 : -range / 2;
    high = (isUnsigned ? range : range / 2) - 1;
    y = e.round(y);
  }
  if (zero && y)
    y = e.binary(BinaryKind::add, y, e.convert(zero, y.element()));
  y = e.binary(BinaryKind::minimum, e.binary(BinaryKind::maximum, y, low),
               high);
  return e.convert(y, element);
}

void quantize(NodeContext &c) {
  Emitter &e = c.emit;
  Val x = c.in(0), scale = c.in(1), zero = c.has(2) ? c.in(2) : Val();
  if (!x || !scale)
    return;
  Type element = IntegerType::get(c.context(), 8, IntegerType::Unsigned);
  if (zero)
    element = zero.element();
  else if (int64_t to = c.intAttr("output_dtype", 0))
    element = elementTypeOf(static_cast<int32_t>(to), c.context());
  int64_t axis = axisOf(c, x);
  if (!element)
    c.fail("output_dtype is not supported");
  if (e.failed())
    return;
  Type f32 = e.builder.getF32Type();
  Val y = e.binary(BinaryKind::div, e.convert(x, f32),
                   spread(c, e.convert(scale, f32), x, axis));
  c.out(saturated(e, y, zero ? spread(c, zero, x, axis) : Val(), element));
}

/// (x - zero) * scale in f32.
Val dequantized(NodeContext &c, Val x, Val scale, Val zero, int64_t axis) {
  Emitter &e = c.emit;
  Type f32 = e.builder.getF32Type();
  Val y = e.convert(x, f32);
  if (zero)
    y = e.binary(BinaryKind::sub, y, spread(c, e.convert(zero, f32), x, axis));
  return e.binary(BinaryKind::mul, y,
                  spread(c, e.convert(scale, f32), x, axis));
}

void dequantize(NodeContext &c) {
  Val x = c.in(0), scale = c.in(1);
  if (!x || !scale)
    return;
  Type element = scale.element();
  if (int64_t to = c.intAttr("output_dtype", 0))
    element = elementTypeOf(static_cast<int32_t>(to), c.context());
  int64_t axis = axisOf(c, x);
  if (!element)
    c.fail("output_dtype is not supported");
  if (!c.emit.failed())
    c.out(c.emit.convert(
        dequantized(c, x, scale, c.has(2) ? c.in(2) : Val(), axis), element));
}

/// Quantizes to bytes with the range of the data.
void dynamicQuantize(NodeContext &c) {
  Emitter &e = c.emit;
  Val x = c.in(0);
  if (!x)
    return;
  Shape all = iotaDims(x.rank());
  Type byte = IntegerType::get(c.context(), 8, IntegerType::Unsigned);
  Val least =
      e.binary(BinaryKind::minimum, e.reduce(ReduceKind::min, x, all), 0.0);
  Val most =
      e.binary(BinaryKind::maximum, e.reduce(ReduceKind::max, x, all), 0.0);
  Val scale = e.binary(BinaryKind::div, e.binary(BinaryKind::sub, most, least),
                       x ? e.scalar(255, x.element()) : Val());
  Val zero = saturated(
      e, e.unary(UnaryKind::neg, e.binary(BinaryKind::div, least, scale)),
      Val(), byte);
  c.out(0, saturated(e, e.binary(BinaryKind::div, x, scale), zero, byte));
  c.out(1, scale);
  c.out(2, zero);
}

//===----------------------------------------------------------------------===//
// Matmuls and convolutions
//===----------------------------------------------------------------------===//

/// Integers minus their zero point (input `zeroAt`), in f64. A vector of zero
/// points applies along dimension `axis`.
Val shifted(NodeContext &c, Val x, int64_t zeroAt, int64_t axis) {
  Emitter &e = c.emit;
  Type f64 = e.builder.getF64Type();
  if (!x || !c.has(zeroAt))
    return e.convert(x, f64);
  Val zero = e.convert(c.in(zeroAt), f64);
  if (zero && zero.rank() == x.rank())
    return e.binary(BinaryKind::sub, e.convert(x, f64), zero);
  return e.binary(BinaryKind::sub, e.convert(x, f64), spread(c, zero, x, axis));
}

void matmulInteger(NodeContext &c) {
  Emitter &e = c.emit;
  Val a = c.in(0), b = c.in(1);
  if (!a || !b || a.rank() < 2 || b.rank() < 2) {
    c.fail("operands must be matrices");
    return;
  }
  Val y = stackedMatmul(e, shifted(c, a, 2, a.rank() - 2),
                        shifted(c, b, 3, b.rank() - 1));
  c.out(e.convert(y, e.builder.getI32Type()));
}

void convInteger(NodeContext &c) {
  Emitter &e = c.emit;
  Val y = convolution(c, shifted(c, c.in(0), 2, 1), shifted(c, c.in(1), 3, 0));
  c.out(e.convert(y, e.builder.getI32Type()));
}

/// Scales a product by the scales of its operands and requantizes it. The
/// second operand can have one scale per position of `axis`.
void requantize(NodeContext &c, Val y, Val factorA, Val factorB, int64_t axis) {
  Emitter &e = c.emit;
  Type f64 = e.builder.getF64Type();
  Val scale = c.in(6), zero = c.in(7);
  if (!y || !factorA || !factorB || !scale || !zero)
    return;
  auto wide = [&](Val v) { return spread(c, e.convert(v, f64), y, axis); };
  y = e.binary(BinaryKind::mul, e.binary(BinaryKind::mul, y, wide(factorA)),
               wide(factorB));
  y = e.binary(BinaryKind::div, y, wide(scale));
  c.out(saturated(e, y, e.reshape(zero, {}), zero.element()));
}

void qlinearMatmul(NodeContext &c) {
  Val a = c.in(0), b = c.in(3);
  if (!a || !b || a.rank() < 2 || b.rank() < 2) {
    c.fail("operands must be matrices");
    return;
  }
  Val y = stackedMatmul(c.emit, shifted(c, a, 2, a.rank() - 2),
                        shifted(c, b, 5, b.rank() - 1));
  if (y)
    requantize(c, y, c.in(1), c.in(4), y.rank() - 1);
}

void qlinearConv(NodeContext &c) {
  Emitter &e = c.emit;
  Val y = convolution(c, shifted(c, c.in(0), 2, 1), shifted(c, c.in(3), 5, 0));
  if (y && c.has(8)) {
    Shape shape(y.rank(), 1);
    shape[1] = y.dim(1);
    y = e.binary(BinaryKind::add, y,
                 e.reshape(e.convert(c.in(8), y.element()), shape));
  }
  if (y)
    requantize(c, y, c.in(1), c.in(4), 1);
}

} // namespace

void addQuantizedOps(OpTable &table) {
  table["QuantizeLinear"] = quantize;
  table["DequantizeLinear"] = dequantize;
  table["DynamicQuantizeLinear"] = dynamicQuantize;
  table["MatMulInteger"] = matmulInteger;
  table["ConvInteger"] = convInteger;
  table["QLinearMatMul"] = qlinearMatmul;
  table["QLinearConv"] = qlinearConv;
}

} // namespace dpc::frontend
