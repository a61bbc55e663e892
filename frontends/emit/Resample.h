//===- Resample.h - Resampling along dimensions ----------------*- C++ -*-===//
//
// Sizes and scales are known while importing, so that resampling a dimension is
// a product with a constant matrix [in, out] (nearest: a choice of positions),
// one dimension after the other. Matmuls have gradients, sharding rules and
// kernels already.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_FRONTENDS_EMIT_RESAMPLE_H
#define DPC_FRONTENDS_EMIT_RESAMPLE_H

#include "frontends/emit/Emitter.h"

namespace dpc::frontend {

/// How one dimension is resampled.
struct ResampledAxis {
  int64_t dim;
  int64_t in, out;
  double scale;
  double begin = 0, end = 1; ///< of the region (tf_crop_and_resize)
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

/// `x` resampled along each of `axes`.
Val resampled(Emitter &e, Val x, llvm::ArrayRef<ResampledAxis> axes,
              const ResampleMode &mode);

} // namespace dpc::frontend

#endif // DPC_FRONTENDS_EMIT_RESAMPLE_H
