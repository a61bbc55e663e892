//===- Windows.h - Sliding windows over images ------------------*- C++ -*-===//
#pragma once

#include "frontends/emit/Emitter.h"

#include "ir/Window.h"

namespace dpc::frontend {

/// Whether a tensor of `shape` has at most 2^39 elements after padding by `low`
/// and `high` per dimension and by `interior` between adjacent elements. Notes
/// a failure otherwise.
bool paddingFits(Emitter &e, llvm::ArrayRef<int64_t> shape,
                 llvm::ArrayRef<int64_t> low, llvm::ArrayRef<int64_t> high,
                 llvm::ArrayRef<int64_t> interior = {});

/// The windows of a convolution or pooling, per spatial dimension.
struct Windows {
  llvm::SmallVector<Window, 3> dims;

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
  /// Returns {batch, channels, windows per spatial dimension..}.
  Shape resultShape(int64_t batch, int64_t channels) const {
    Shape shape = {batch, channels};
    shape.append(list(&Window::out));
    return shape;
  }
};

/// Rounds the number of windows up (ceil_mode): adds a window that exceeds the
/// input, unless the window begins in the trailing padding.
void roundUp(Window &window);

/// Emits dpc.conv; the shapes must fit.
Val makeConv(Emitter &e, Val x, Val w, const Windows &windows);

/// Emits dpc.max_pool of x [N, C, ..].
MaxPoolOp makeMaxPool(Emitter &e, Val x, const Windows &windows);

/// Emits the gradient [N, channels, in..] of a convolution's input. `dy` is the
/// gradient of the result, and `w` the filter.
Val makeConvGradInput(Emitter &e, Val dy, Val w, int64_t channels,
                      const Windows &windows);

/// Sums each window in every channel, by a convolution with ones.
Val windowSums(Emitter &e, Val x, const Windows &windows);

/// Returns 1 / n as [1, 1, out..], where n is the number of elements that a
/// window averages. It counts `before` and `behind` elements of padding per
/// dimension, but not positions that rounding up adds.
Val windowShares(Emitter &e, mlir::Type element, const Windows &windows,
                 llvm::ArrayRef<int64_t> before,
                 llvm::ArrayRef<int64_t> behind);

/// Reshapes numbers per channel to [1, C, 1..], in the type of `like`.
Val alongChannels(Emitter &e, Val channels, Val like);

} // namespace dpc::frontend
