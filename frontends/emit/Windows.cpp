//===- Windows.cpp - Windows that slide over images -----------------------===//
#include "frontends/emit/Windows.h"

using namespace mlir;

namespace dpc::frontend {

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
  return Val(ConvOp::create(e.builder, e.loc, type, e.materialize(x),
                            e.materialize(w), windows.list(&Window::stride),
                            windows.pads(), windows.list(&Window::dilation))
                 .getResult());
}

Val alongChannels(Emitter &e, Val channels, Val like) {
  Shape shape(like.rank(), 1);
  shape[1] = like.dim(1);
  return e.reshape(channels, shape);
}

} // namespace dpc::frontend
