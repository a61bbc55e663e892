//===- Windows.cpp - Sliding windows over images --------------------------===//
#include "frontends/emit/Windows.h"

using namespace mlir;

namespace dpc::frontend {

bool paddingFits(Emitter &e, llvm::ArrayRef<int64_t> shape,
                 llvm::ArrayRef<int64_t> low, llvm::ArrayRef<int64_t> high,
                 llvm::ArrayRef<int64_t> interior) {
  // The product of two numbers up to kMax does not overflow.
  constexpr int64_t kMax = int64_t(1) << 31;
  int64_t elements = 1;
  for (size_t d = 0; d < shape.size(); ++d) {
    int64_t between = interior.empty() ? 0 : interior[d];
    for (int64_t pad : {low[d], high[d], between})
      if (pad > kMax || pad < -kMax) {
        e.fail("pads dimension {0} by {1}; accepted: up to {2}", d, pad, kMax);
        return false;
      }
    int64_t size = std::min(shape[d], kMax);
    size = low[d] + high[d] + size + std::max<int64_t>(size - 1, 0) * between;
    elements = std::min(elements, kMax * kMax / std::max<int64_t>(size, 1));
    elements *= std::max<int64_t>(size, 1);
  }
  if (elements > kMax * 256)
    e.fail("pads {0} to more than {1} elements", shape, kMax * 256);
  return !e.failed();
}

void roundUp(Window &window) {
  int64_t extent = window.dilation * (window.taps - 1) + 1;
  int64_t room = window.in + window.before + window.behind - extent;
  if (room < 0)
    return;
  int64_t out = llvm::divideCeil(room, window.stride) + 1;
  if ((out - 1) * window.stride >= window.in + window.before)
    --out;
  window.behind = std::max<int64_t>(
      (out - 1) * window.stride + extent - window.in - window.before, 0);
}

Val makeConv(Emitter &e, Val x, Val w, const Windows &windows) {
  auto type = RankedTensorType::get(windows.resultShape(x.dim(0), w.dim(0)),
                                    x.element());
  return e.make<ConvOp>(type, e.materialize(x), e.materialize(w),
                        windows.list(&Window::stride), windows.pads(),
                        windows.list(&Window::dilation));
}

Val windowSums(Emitter &e, Val x, const Windows &windows) {
  Shape filter = {x.dim(1), 1};
  filter.append(windows.list(&Window::taps));
  return makeConv(e, x, e.splat(1, x.element(), filter), windows);
}

static Val sharesAlong(Type element, const Window &window, int64_t before,
                       int64_t behind, Shape shape, size_t dim) {
  std::vector<Scalar> values;
  for (int64_t o = 0; o < window.out; ++o) {
    int64_t taps = 0;
    for (int64_t j = 0; j < window.taps; ++j) {
      int64_t at = o * window.stride - window.before + j * window.dilation;
      taps += at >= -before && at < window.in + behind;
    }
    values.push_back(makeScalar(
        1.0 / static_cast<double>(std::max<int64_t>(taps, 1)), element));
  }
  shape[dim] = window.out;
  return Val(ConstTensor::dense(element, shape, values).compacted());
}

Val windowShares(Emitter &e, Type element, const Windows &windows,
                 ArrayRef<int64_t> before, ArrayRef<int64_t> behind) {
  Shape unit(windows.dims.size() + 2, 1);
  Val product = e.splat(1, element, unit);
  for (auto [d, window] : llvm::enumerate(windows.dims))
    product = e.mul(product, sharesAlong(element, window, before[d], behind[d],
                                         unit, d + 2));
  return product;
}

MaxPoolOp makeMaxPool(Emitter &e, Val x, const Windows &windows) {
  Shape shape = windows.resultShape(x.dim(0), x.dim(1));
  return MaxPoolOp::create(
      e.builder, e.loc, RankedTensorType::get(shape, x.element()),
      RankedTensorType::get(shape, e.builder.getI32Type()), e.materialize(x),
      windows.list(&Window::taps), windows.list(&Window::stride),
      windows.pads(), windows.list(&Window::dilation));
}

Val makeConvGradInput(Emitter &e, Val dy, Val w, int64_t channels,
                      const Windows &windows) {
  Shape shape = joinShapes({{dy.dim(0), channels}, windows.list(&Window::in)});
  auto type = RankedTensorType::get(shape, dy.element());
  return e.make<ConvGradInputOp>(type, e.materialize(dy), e.materialize(w),
                                 windows.list(&Window::stride), windows.pads(),
                                 windows.list(&Window::dilation));
}

Val alongChannels(Emitter &e, Val channels, Val like) {
  return e.reshape(e.convert(channels, like.element()),
                   unitShape(like.rank(), 1, like.dim(1)));
}

} // namespace dpc::frontend
