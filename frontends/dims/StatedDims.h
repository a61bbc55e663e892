//===- StatedDims.h - Dims recorded in a model's metadata -------*- C++ -*-===//
//
// dpc-model records the dims of a model in its metadata, so that a reader can
// build the same model with different sizes.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_FRONTENDS_DIMS_STATEDDIMS_H
#define DPC_FRONTENDS_DIMS_STATEDDIMS_H

#include "frontends/dims/ModelDims.h"

namespace dpc::model {

/// The key of the metadata entry.
inline constexpr const char *kDimsKey = "dpc.model";

/// All sizes as text, for every family: "llama,layers=126,hidden=16384,...".
std::string stringifyDims(const ModelDims &dims);
/// Inverse of stringifyDims.
std::optional<ModelDims> parseDims(const std::string &text);

/// The dims that a model file records. Returns nullopt if the file cannot be
/// read, records no dims, or differs from what buildModel builds from them.
std::optional<ModelDims> dimsOfFile(const std::string &path);

/// Writes the model of completed, valid dims; returns whether it succeeded.
bool writeModelFile(const ModelDims &dims, const std::string &path);

} // namespace dpc::model

#endif // DPC_FRONTENDS_DIMS_STATEDDIMS_H
