//===- Windows.h - Windows that slide over images --------------*- C++ -*-===//
#ifndef DPC_FRONTENDS_EMIT_WINDOWS_H
#define DPC_FRONTENDS_EMIT_WINDOWS_H

#include "frontends/emit/Emitter.h"

#include "ir/Window.h"

namespace dpc::frontend {

/// Whether a tensor of `shape` with so much in front of and behind each
/// dimension, and between its elements, has a size that can be counted and
/// something left; notes a failure otherwise.
bool paddingFits(Emitter &e, llvm::ArrayRef<int64_t> shape,
                 llvm::ArrayRef<int64_t> low, llvm::ArrayRef<int64_t> high,
                 llvm::ArrayRef<int64_t> interior = {});

/// The windows of a node over the spatial dimensions of an input.
struct Windows {
  llvm::SmallVector<Window, 3> dims;

  /// One attribute of the dpc ops; pads are first those in front.
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
  /// `shape`'s first two dimensions and then the windows.
  Shape resultShape(int64_t batch, int64_t channels) const {
    Shape shape = {batch, channels};
    shape.append(list(&Window::out));
    return shape;
  }
};

/// One more window where the last one would be cut off, unless it begins in
/// the padding behind.
void roundUp(Window &window);

/// dpc.conv; the operands fit.
Val makeConv(Emitter &e, Val x, Val w, const Windows &windows);

/// Sums over the windows of every channel: a convolution with ones.
Val windowSums(Emitter &e, Val x, const Windows &windows);

/// 1 / number of elements that every window averages, [1, 1, out..]. Of the
/// padding in front and behind, so much counts in each dimension; none is what
/// rounding up added.
Val windowShares(Emitter &e, mlir::Type element, const Windows &windows,
                 llvm::ArrayRef<int64_t> before,
                 llvm::ArrayRef<int64_t> behind);

/// `channels` as [1, C, 1..] of the rank of `like`.
Val alongChannels(Emitter &e, Val channels, Val like);

} // namespace dpc::frontend

#endif // DPC_FRONTENDS_EMIT_WINDOWS_H
