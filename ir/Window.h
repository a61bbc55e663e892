//===- Window.h - The windows of convolutions and pools ---------*- C++ -*-===//
#pragma once

#include "llvm/ADT/ArrayRef.h"

namespace dpc {

/// The window of a conv or pool along one spatial dimension (DpcSpatialOps.td).
struct Window {
  int64_t in;
  int64_t out;    ///< number of windows
  int64_t taps;   ///< elements per window, including padding
  int64_t stride; ///< distance between adjacent windows
  int64_t before;
  int64_t behind;
  int64_t dilation;

  /// Returns how many windows fit into the padded image; 0 or less if none
  /// fits. In a valid op, this number is `out`.
  int64_t fitting() const {
    int64_t room = in + before + behind - dilation * (taps - 1) - 1;
    return room < 0 ? 0 : room / stride + 1;
  }
  /// Returns true if the windows are exactly the single elements of the image.
  bool isPointwise() const {
    return taps == 1 && stride == 1 && before == 0 && behind == 0;
  }
};

/// Returns one window per spatial dimension. `in` and `out` are shapes [N, C,
/// spatial..].
llvm::SmallVector<Window, 3>
windowsOf(llvm::ArrayRef<int64_t> in, llvm::ArrayRef<int64_t> out,
          llvm::ArrayRef<int64_t> taps, llvm::ArrayRef<int64_t> strides,
          llvm::ArrayRef<int64_t> pads, llvm::ArrayRef<int64_t> dilations);

} // namespace dpc
