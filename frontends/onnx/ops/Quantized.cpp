//===- Quantized.cpp - Quantized integers ---------------------------------===//
//
// An integer q represents (q - zero point) * scale. The GEMM library computes
// integer matmuls in f64, which is exact.
//
//===----------------------------------------------------------------------===//
#include "frontends/emit/Contraction.h"
#include "frontends/onnx/NodeContext.h"

#include <cmath>

using namespace mlir;

namespace dpc::frontend {

namespace {

/// `v` has one element, one per position along `axis`, or one per block.
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
    return c.fail("a scale or zero point {0} does not fit {1}", v, x);
  Shape wide(v.shape()), dims, flat(v.shape());
  wide.insert(wide.begin() + axis + 1, block);
  for (int64_t d = 0; d < v.rank(); ++d)
    dims.push_back(d <= axis ? d : d + 1);
  flat[axis] *= block;
  return e.sliceDim(e.reshape(e.broadcast(v, wide, dims), flat), axis, 0,
                    x.dim(axis));
}

/// Returns the attribute `axis`, which is 1 by default, or 0 for vectors.
int64_t axisOf(NodeContext &c, Val x) {
  int64_t axis = c.intAttr("axis", 1);
  return x.rank() <= 1 ? 0 : c.axis(axis, x.rank());
}

/// Rounds y, adds the zero point `zero` if it is not null, and saturates to the
/// range of `element`.
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
    y = e.add(y, e.convert(zero, y.element()));
  y = e.minimum(e.maximum(y, low), high);
  return e.convert(y, element);
}

Val quantize(NodeContext &c) {
  Emitter &e = c.emit;
  Val x = c.in(0), scale = c.in(1), zero = c.has(2) ? c.in(2) : Val();
  if (!x || !scale)
    return {};
  Type element = IntegerType::get(c.context(), 8, IntegerType::Unsigned);
  if (zero)
    element = zero.element();
  else if (int64_t to = c.intAttr("output_dtype", 0))
    element = elementTypeOf(static_cast<int32_t>(to), c.context());
  int64_t axis = axisOf(c, x);
  if (!element)
    c.fail("output_dtype is not supported");
  if (e.failed())
    return {};
  Type f32 = e.f32();
  Val y = e.div(e.convert(x, f32), spread(c, e.convert(scale, f32), x, axis));
  return saturated(e, y, zero ? spread(c, zero, x, axis) : Val(), element);
}

/// (x - zero) * scale in f32.
Val dequantized(NodeContext &c, Val x, Val scale, Val zero, int64_t axis) {
  Emitter &e = c.emit;
  Type f32 = e.f32();
  Val y = e.convert(x, f32);
  if (zero)
    y = e.sub(y, spread(c, e.convert(zero, f32), x, axis));
  return e.mul(y, spread(c, e.convert(scale, f32), x, axis));
}

Val dequantize(NodeContext &c, Val x, Val scale) {
  Type element = scale.element();
  if (int64_t to = c.intAttr("output_dtype", 0))
    element = elementTypeOf(static_cast<int32_t>(to), c.context());
  int64_t axis = axisOf(c, x);
  if (!element)
    c.fail("output_dtype is not supported");
  return c.emit.failed()
             ? Val()
             : c.emit.convert(
                   dequantized(c, x, scale, c.has(2) ? c.in(2) : Val(), axis),
                   element);
}

/// Quantizes floats to bytes, with a scale that covers their range.
Val dynamicQuantize(NodeContext &c, Val x) {
  Emitter &e = c.emit;
  Shape all = iotaDims(x.rank());
  Type byte = IntegerType::get(c.context(), 8, IntegerType::Unsigned);
  Val least = e.minimum(e.reduce(ReduceKind::min, x, all), 0.0);
  Val most = e.maximum(e.reduce(ReduceKind::max, x, all), 0.0);
  Val scale = e.div(e.sub(most, least), x ? e.scalar(255, x.element()) : Val());
  Val zero = saturated(e, e.neg(e.div(least, scale)), Val(), byte);
  c.out(0, saturated(e, e.div(x, scale), zero, byte));
  c.out(1, scale);
  c.out(2, zero);
  return {};
}

/// Subtracts the zero point (input `zeroAt`) from integers, in f64. A vector of
/// zero points applies along `axis`.
Val shifted(NodeContext &c, Val x, int64_t zeroAt, int64_t axis) {
  Emitter &e = c.emit;
  Type f64 = e.f64();
  if (!x || !c.has(zeroAt))
    return e.convert(x, f64);
  Val zero = e.convert(c.in(zeroAt), f64);
  if (zero && zero.rank() == x.rank())
    return e.sub(e.convert(x, f64), zero);
  return e.sub(e.convert(x, f64), spread(c, zero, x, axis));
}

Val matmulInteger(NodeContext &c, Val a, Val b) {
  Emitter &e = c.emit;
  if (!a || !b || a.rank() < 2 || b.rank() < 2)
    return c.fail("operands must be matrices");
  Val y = stackedMatmul(e, shifted(c, a, 2, a.rank() - 2),
                        shifted(c, b, 3, b.rank() - 1));
  return e.convert(y, e.builder.getI32Type());
}

Val convInteger(NodeContext &c) {
  Emitter &e = c.emit;
  Val y = convolution(c, shifted(c, c.in(0), 2, 1), shifted(c, c.in(1), 3, 0));
  return e.convert(y, e.builder.getI32Type());
}

/// Multiplies y by the scales of both operands and quantizes it by inputs 6
/// (scale) and 7 (zero point). The second scale can have one number per
/// position along `axis`.
Val requantize(NodeContext &c, Val y, Val factorA, Val factorB, int64_t axis) {
  Emitter &e = c.emit;
  Type f64 = e.f64();
  Val scale = c.in(6), zero = c.in(7);
  if (!y || !factorA || !factorB || !scale || !zero)
    return {};
  auto wide = [&](Val v) { return spread(c, e.convert(v, f64), y, axis); };
  y = e.mul(e.mul(y, wide(factorA)), wide(factorB));
  y = e.div(y, wide(scale));
  return saturated(e, y, e.reshape(zero, {}), zero.element());
}

Val qlinearMatmul(NodeContext &c, Val a) {
  Val b = c.in(3);
  if (!a || !b || a.rank() < 2 || b.rank() < 2)
    return c.fail("operands must be matrices");
  Val y = stackedMatmul(c.emit, shifted(c, a, 2, a.rank() - 2),
                        shifted(c, b, 5, b.rank() - 1));
  if (y)
    return requantize(c, y, c.in(1), c.in(4), y.rank() - 1);
  return {};
}

Val qlinearConv(NodeContext &c) {
  Emitter &e = c.emit;
  Val y = convolution(c, shifted(c, c.in(0), 2, 1), shifted(c, c.in(3), 5, 0));
  if (y && c.has(8)) {
    Shape shape(y.rank(), 1);
    shape[1] = y.dim(1);
    y = e.add(y, e.reshape(e.convert(c.in(8), y.element()), shape));
  }
  if (y)
    return requantize(c, y, c.in(1), c.in(4), 1);
  return {};
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
