//===- Resample.h - Resampling of dimensions --------------------*- C++ -*-===//
//
// Resamples dimensions one after the other. Sizes and scales are known at
// import time, so each dimension is one matmul with a constant matrix [in,
// out], or a selection of positions in mode "nearest". Matmuls already have
// gradients, sharding rules and kernels.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/emit/Emitter.h"

namespace dpc::frontend {

struct ResampledAxis {
  int64_t dim;
  int64_t in, out;
  double scale;
  double begin = 0, end = 1; ///< region of tf_crop_and_resize
};

/// Attributes of ONNX's Resize.
struct ResampleMode {
  llvm::StringRef kind;        ///< nearest, linear, cubic
  llvm::StringRef coordinates; ///< coordinate_transformation_mode
  llvm::StringRef nearest;     ///< nearest_mode
  double cubicA;
  double outside;
  bool excludeOutside, antialias;
};

/// Replaces dimension `dim` by weighted sums of its positions: one list of
/// weights, one for each position, per position of the result.
Val mixed(Emitter &e, Val x, int64_t dim,
          const std::vector<std::vector<double>> &weights);

Val resampled(Emitter &e, Val x, llvm::ArrayRef<ResampledAxis> axes,
              const ResampleMode &mode);

} // namespace dpc::frontend
