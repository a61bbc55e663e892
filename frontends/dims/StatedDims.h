//===- StatedDims.h - Dims that a model's file states -----------*- C++ -*-===//
//
// dpc-model writes into a model's metadata what it was made of, so that a
// reader can make the same model of another size.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_FRONTENDS_DIMS_STATEDDIMS_H
#define DPC_FRONTENDS_DIMS_STATEDDIMS_H

#include "frontends/dims/ModelDims.h"

namespace dpc::model {

/// The metadata's key.
inline constexpr const char *kDimsKey = "dpc.model";

/// "llama,layers=126,hidden=16384,...": all sizes, whatever the family.
std::string stringifyDims(const ModelDims &dims);
/// Inverse of stringifyDims.
std::optional<ModelDims> parseDims(const std::string &text);

/// What the file of a model states, where it is what buildModel makes of these
/// dims; none where it was changed since, is another's, or cannot be read.
std::optional<ModelDims> dimsOfFile(const std::string &path);

/// Writes the model of completed dims that are not refused; whether it could.
bool writeModelFile(const ModelDims &dims, const std::string &path);

} // namespace dpc::model

#endif // DPC_FRONTENDS_DIMS_STATEDDIMS_H
