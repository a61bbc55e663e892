//===- StridedView.h - Views into the buffers of other values ---*- C++ -*-===//
//
// Element (i0, .., in) of a view is element offset + sum(i_d * strides[d]) of
// the base buffer. Transposes, slices and broadcasts of a view are views. A
// reshape is a view if the elements along every new dimension are evenly
// spaced:
//
//   base [8, 192], slice [8, 64] at column 64   offset 64, strides (192, 1)
//   ... reshaped to [8, 4, 16]                  offset 64, strides (192, 16, 1)
//   ... reshaped to [512]                       none: rows are 192 apart
//
//===----------------------------------------------------------------------===//
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <optional>

namespace dpc {

struct StridedView {
  int64_t offset = 0;
  llvm::SmallVector<int64_t, 6> shape;
  llvm::SmallVector<int64_t, 6> strides;

  bool operator==(const StridedView &) const = default;

  static StridedView dense(llvm::ArrayRef<int64_t> shape) {
    StridedView view;
    view.shape.assign(shape.begin(), shape.end());
    view.strides.resize(shape.size());
    int64_t stride = 1;
    for (size_t d = shape.size(); d-- > 0; stride *= shape[d])
      view.strides[d] = stride;
    return view;
  }

  /// Returns true if the view covers a whole buffer in row-major order.
  bool isDense() const {
    int64_t stride = 1;
    for (size_t d = shape.size(); d-- > 0; stride *= shape[d])
      if (shape[d] != 1 && strides[d] != stride)
        return false;
    return offset == 0;
  }

  /// Dimension i of the result is dimension perm[i] of this view.
  StridedView transpose(llvm::ArrayRef<int64_t> perm) const {
    StridedView view;
    view.offset = offset;
    for (int64_t d : perm) {
      view.shape.push_back(shape[d]);
      view.strides.push_back(strides[d]);
    }
    return view;
  }

  /// Element i of the result along dimension d is element offsets[d] + i *
  /// steps[d] of this view.
  StridedView slice(llvm::ArrayRef<int64_t> offsets,
                    llvm::ArrayRef<int64_t> steps,
                    llvm::ArrayRef<int64_t> newShape) const {
    StridedView view = *this;
    for (size_t d = 0; d < shape.size(); ++d) {
      view.offset += offsets[d] * strides[d];
      view.strides[d] = strides[d] * steps[d];
      view.shape[d] = newShape[d];
    }
    return view;
  }

  /// Dimension i of this view becomes dimension dims[i] of the result; elements
  /// are repeated along all other dimensions.
  StridedView broadcast(llvm::ArrayRef<int64_t> dims,
                        llvm::ArrayRef<int64_t> newShape) const {
    StridedView view;
    view.offset = offset;
    view.shape.assign(newShape.begin(), newShape.end());
    view.strides.assign(newShape.size(), 0);
    for (size_t i = 0; i < dims.size(); ++i)
      if (shape[i] == newShape[dims[i]])
        view.strides[dims[i]] = strides[i];
    return view;
  }

  /// Returns the view in another shape with equally many elements, or nullopt
  /// if no strides describe the result.
  std::optional<StridedView> reshape(llvm::ArrayRef<int64_t> newShape) const;
};

inline std::optional<StridedView>
StridedView::reshape(llvm::ArrayRef<int64_t> newShape) const {
  // Maximal runs of adjacent dimensions whose elements are evenly spaced.
  struct Run {
    int64_t size, stride;
  };
  llvm::SmallVector<Run> runs;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1)
      continue;
    if (!runs.empty() && runs.back().stride == shape[d] * strides[d])
      runs.back() = {runs.back().size * shape[d], strides[d]};
    else
      runs.push_back({shape[d], strides[d]});
  }
  StridedView view;
  view.offset = offset;
  view.shape.assign(newShape.begin(), newShape.end());
  view.strides.assign(newShape.size(), 1);
  // Split the runs into the new dimensions, innermost first.
  for (size_t d = newShape.size(); d-- > 0;) {
    int64_t size = newShape[d];
    if (size == 1)
      continue;
    while (!runs.empty() && runs.back().size == 1)
      runs.pop_back();
    if (runs.empty() || runs.back().size % size != 0)
      return std::nullopt;
    view.strides[d] = runs.back().stride;
    runs.back() = {runs.back().size / size, runs.back().stride * size};
  }
  return view;
}

} // namespace dpc
