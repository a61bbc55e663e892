//===- ModelBuilder.h - Models without weights, from their dims -*- C++ -*-===//
//
// Builds ONNX graphs of common model families, including the loss. Weights have
// no data. Layers consist of the same ops as in exported models (matmuls,
// masks, softmax), so that the passes recognize attention, norms, rotary
// embeddings and activations by pattern matching.
//
// The inputs and their shapes, without the leading symbolic dimension `batch`:
//
//   gpt, bloom, mpt, llama, moe   ids, labels [seq]
//   bert                          ids, types, labels [seq]; label -100: ignored
//   vit                           pixels [channels, image, image], label
//   dit                           latent, target (shape of pixels), time, class
//
// ALiBi adds slope x key position to the scores instead of slope x (key - query
// position). The softmax is the same, because slope x query position is
// constant along a row of scores.
//
// One-hot masks dispatch tokens to experts (GShard). Each expert has
// capacity x group x topk / experts slots per group of tokens. First choices
// get slots before second choices; a token that finds no free slot is dropped.
// With a capacity of 0 there are no slots: each choice of a token picks the
// matrices of its expert, which the importer recognizes (dpc.expert_matmul).
//
// Modules for multi-token prediction follow the layers (DeepSeek-V3, section
// 2.2). Their losses ignore the tokens after the end.
//
// The loss of dit is the mean squared error of the predicted noise. The model
// also predicts a variance, which the loss ignores.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/dims/ModelDims.h"

#include "onnx-ml.pb.h"

namespace dpc::model {

struct Model {
  ::onnx::ModelProto proto;
  double parameters = 0; ///< number of trained elements
};

/// Builds the model of `dims`, which must be completed and valid.
Model buildModel(const ModelDims &dims);

} // namespace dpc::model
