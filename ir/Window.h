//===- Window.h - The windows of convolutions and pools ---------*- C++ -*-===//
#ifndef DPC_IR_WINDOW_H
#define DPC_IR_WINDOW_H

#include "llvm/ADT/ArrayRef.h"

namespace dpc {

/// The window of a conv or pool along one spatial dimension (DpcSpatialOps.td).
struct Window {
  int64_t in;     ///< elements of the image
  int64_t out;    ///< number of windows
  int64_t taps;   ///< elements that a window reads, with padding
  int64_t stride; ///< distance between adjacent windows
  int64_t before; ///< padding before the image
  int64_t behind; ///< padding after the image
  int64_t dilation;

  /// The number of windows that fit into the padded image; at most 0 if none
  /// fits. A valid op has `out` windows.
  int64_t fitting() const {
    int64_t room = in + before + behind - dilation * (taps - 1) - 1;
    return room < 0 ? 0 : room / stride + 1;
  }
  /// True if every window is one element and every element is a window.
  bool isPointwise() const {
    return taps == 1 && stride == 1 && before == 0 && behind == 0;
  }
};

/// The window along each spatial dimension of an op with these attributes. The
/// shapes `in` and `out` are [N, C, spatial..].
llvm::SmallVector<Window, 3>
windowsOf(llvm::ArrayRef<int64_t> in, llvm::ArrayRef<int64_t> out,
          llvm::ArrayRef<int64_t> taps, llvm::ArrayRef<int64_t> strides,
          llvm::ArrayRef<int64_t> pads, llvm::ArrayRef<int64_t> dilations);

} // namespace dpc

#endif // DPC_IR_WINDOW_H
