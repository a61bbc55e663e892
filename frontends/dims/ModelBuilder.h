//===- ModelBuilder.h - Weightless models from their dims -------*- C++ -*-===//
//
// ONNX graphs of the common families, loss inside, every weight described and
// absent. What a layer is made of is written as exporters write it (products,
// masks, softmax), so that the passes of the ordinary path find attention,
// norms, rotary embeddings and activations in it.
//
// Inputs, each with the symbolic dimension `batch` first:
//
//   gpt, bloom, mpt, llama, moe   ids, labels [seq]
//   bert                          ids, types, labels [seq]; label -100 = none
//   vit                           pixels [channels, image, image], label
//   dit                           latent, target (as pixels), time, class
//
// ALiBi adds slope x key position to the scores, one row for all queries: what
// a row of scores has in common does not change its softmax, so this equals
// slope x (key - query).
//
// Experts take tokens by one-hot masks (GShard): the tokens of a group choose
// their experts in order, first choices first, each expert has capacity x
// group x topk / experts slots in the group, and who comes late is left out.
//
// The loss of dit is the mean square of predicted - target noise; a learned
// variance is not modelled, though its outputs are there as in the paper.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_FRONTENDS_DIMS_MODELBUILDER_H
#define DPC_FRONTENDS_DIMS_MODELBUILDER_H

#include "frontends/dims/ModelDims.h"

#include "onnx-ml.pb.h"

namespace dpc::model {

struct Model {
  ::onnx::ModelProto proto;
  double parameters = 0; ///< Trained elements.
};

/// The model of completed dims that are not refused (`ModelDims::refusal`).
Model buildModel(const ModelDims &dims);

} // namespace dpc::model

#endif // DPC_FRONTENDS_DIMS_MODELBUILDER_H
