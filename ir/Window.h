//===- Window.h - Windows that slide over images ----------------*- C++ -*-===//
#ifndef DPC_IR_WINDOW_H
#define DPC_IR_WINDOW_H

#include "llvm/ADT/ArrayRef.h"

namespace dpc {

/// The window of a conv or pool along one spatial dimension; see
/// DpcSpatialOps.td.
struct Window {
  int64_t in;     ///< positions of the image
  int64_t out;    ///< positions of the window
  int64_t taps;   ///< elements that it reads, padding included
  int64_t stride; ///< positions from one window to the next
  int64_t before; ///< padding in front
  int64_t behind; ///< padding at the end
  int64_t dilation;

  /// Windows that fit; `out` of a valid one. Not positive when none does.
  int64_t fitting() const {
    int64_t room = in + before + behind - dilation * (taps - 1) - 1;
    return room < 0 ? 0 : room / stride + 1;
  }
  /// Reads every position once, on its own: no window at all.
  bool isPointwise() const {
    return taps == 1 && stride == 1 && before == 0 && behind == 0;
  }
};

/// The windows of an op with these attributes, by spatial dimension; the shapes
/// are [N, C, spatial..].
llvm::SmallVector<Window, 3>
windowsOf(llvm::ArrayRef<int64_t> in, llvm::ArrayRef<int64_t> out,
          llvm::ArrayRef<int64_t> taps, llvm::ArrayRef<int64_t> strides,
          llvm::ArrayRef<int64_t> pads, llvm::ArrayRef<int64_t> dilations);

} // namespace dpc

#endif // DPC_IR_WINDOW_H
