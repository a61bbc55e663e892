//===- Resample.h - Resampling of dimensions --------------------*- C++ -*-===//
//
// Sizes and scales are known at import time. Dimensions are resampled one after
// the other, each by a matmul with a constant matrix [in, out]; nearest mode
// selects positions instead. Matmuls already have gradients, sharding rules and
// kernels.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_FRONTENDS_EMIT_RESAMPLE_H
#define DPC_FRONTENDS_EMIT_RESAMPLE_H

#include "frontends/emit/Emitter.h"

namespace dpc::frontend {

/// The resampling of one dimension.
struct ResampledAxis {
  int64_t dim;
  int64_t in, out;
  double scale;
  double begin = 0, end = 1; ///< the region (tf_crop_and_resize)
};

/// The attributes of ONNX's Resize.
struct ResampleMode {
  llvm::StringRef kind;        ///< nearest, linear, cubic
  llvm::StringRef coordinates; ///< coordinate_transformation_mode of ONNX
  llvm::StringRef nearest;     ///< nearest_mode of ONNX
  double cubicA;
  double outside;
  bool excludeOutside, antialias;
};

/// Resamples `x` along each of `axes`.
Val resampled(Emitter &e, Val x, llvm::ArrayRef<ResampledAxis> axes,
              const ResampleMode &mode);

} // namespace dpc::frontend

#endif // DPC_FRONTENDS_EMIT_RESAMPLE_H
