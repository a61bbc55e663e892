//===- Windows.h - Sliding windows over images ------------------*- C++ -*-===//
#ifndef DPC_FRONTENDS_EMIT_WINDOWS_H
#define DPC_FRONTENDS_EMIT_WINDOWS_H

#include "frontends/emit/Emitter.h"

#include "ir/Window.h"

namespace dpc::frontend {

/// Whether a tensor of `shape` is not empty and has a size that fits an int64_t
/// after padding by `low` and `high` per dimension and by `interior` between
/// its elements. Notes a failure otherwise.
bool paddingFits(Emitter &e, llvm::ArrayRef<int64_t> shape,
                 llvm::ArrayRef<int64_t> low, llvm::ArrayRef<int64_t> high,
                 llvm::ArrayRef<int64_t> interior = {});

/// The windows of a node over the spatial dimensions of its input.
struct Windows {
  llvm::SmallVector<Window, 3> dims;

  /// One field of every window, as the dpc ops take it. In pads, the leading
  /// pads come first.
  Shape list(int64_t Window::*field) const {
    Shape values;
    for (const Window &window : dims)
      values.push_back(window.*field);
    return values;
  }
  Shape pads() const {
    Shape values = list(&Window::before);
    values.append(list(&Window::behind));
    return values;
  }
  /// The batch, the channels and then the number of windows per dimension.
  Shape resultShape(int64_t batch, int64_t channels) const {
    Shape shape = {batch, channels};
    shape.append(list(&Window::out));
    return shape;
  }
};

/// Rounds the number of windows up: adds a window that exceeds the input,
/// unless this window begins in the trailing padding.
void roundUp(Window &window);

/// Emits dpc.conv; the operands must fit.
Val makeConv(Emitter &e, Val x, Val w, const Windows &windows);

/// Emits dpc.max_pool of x [N, C, ..].
MaxPoolOp makeMaxPool(Emitter &e, Val x, const Windows &windows);

/// The gradient [N, channels, in..] of a convolution with the filter `w` with
/// respect to its input; `dy` is the gradient of its result.
Val makeConvGradInput(Emitter &e, Val dy, Val w, int64_t channels,
                      const Windows &windows);

/// The sum of each window in every channel, computed as a convolution with
/// ones.
Val windowSums(Emitter &e, Val x, const Windows &windows);

/// For each window, 1 / the number of elements that its average counts, as [1,
/// 1, out..]. The number includes `before` and `behind` elements of the padding
/// in each dimension, but no positions that rounding up adds.
Val windowShares(Emitter &e, mlir::Type element, const Windows &windows,
                 llvm::ArrayRef<int64_t> before,
                 llvm::ArrayRef<int64_t> behind);

/// One number per channel as [1, C, 1..], with the rank and elements of `like`.
Val alongChannels(Emitter &e, Val channels, Val like);

} // namespace dpc::frontend

#endif // DPC_FRONTENDS_EMIT_WINDOWS_H
