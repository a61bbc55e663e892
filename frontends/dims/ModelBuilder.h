//===- ModelBuilder.h - Models without weights, from their dims -*- C++ -*-===//
//
// Builds ONNX graphs of common model families. They include the loss, and they
// describe every weight without its data. Layers are written as exporters write
// them (matmuls, masks, softmax), so that the passes find attention, norms,
// rotary embeddings and activations by pattern matching.
//
// The inputs, without their first dimension, the symbolic dimension `batch`:
//
//   gpt, bloom, mpt, llama, moe   ids, labels [seq]
//   bert                          ids, types, labels [seq]; label -100 = none
//   vit                           pixels [channels, image, image], label
//   dit                           latent, target (as pixels), time, class
//
// ALiBi adds slope x key position to the scores, one row for all queries. This
// equals slope x (key - query), because a term that is constant along a row of
// scores does not change its softmax.
//
// Tokens are dispatched to experts by one-hot masks (GShard). The tokens of a
// group choose their experts in order, first choices first. Each expert has
// capacity x group x topk / experts slots per group, and drops tokens that find
// no free slot.
//
// The loss of dit is the mean square of predicted - target noise. The outputs
// include the learned variance of the paper, but the loss ignores it.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_FRONTENDS_DIMS_MODELBUILDER_H
#define DPC_FRONTENDS_DIMS_MODELBUILDER_H

#include "frontends/dims/ModelDims.h"

#include "onnx-ml.pb.h"

namespace dpc::model {

struct Model {
  ::onnx::ModelProto proto;
  double parameters = 0; ///< Number of trained elements.
};

/// Builds the model for completed dims that `ModelDims::refusal` accepts.
Model buildModel(const ModelDims &dims);

} // namespace dpc::model

#endif // DPC_FRONTENDS_DIMS_MODELBUILDER_H
