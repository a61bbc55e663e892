//===- StatedDims.h - Dims recorded in a model's metadata -------*- C++ -*-===//
//
// dpc-model records the dims of a model in its metadata, so that a reader can
// build the same model with different sizes.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/dims/ModelDims.h"

namespace dpc::model {

/// The key of the metadata entry that holds the dims.
inline constexpr const char *kDimsKey = "dpc.model";

/// Formats all dims of any family: "llama,layers=126,hidden=16384,...".
std::string stringifyDims(const ModelDims &dims);
/// Inverse of stringifyDims.
std::optional<ModelDims> parseDims(const std::string &text);

/// Returns the dims recorded in a model file, or nullopt if the file cannot be
/// read, records no dims, or differs from what buildModel builds from them.
std::optional<ModelDims> dimsOfFile(const std::string &path);

/// Writes the model of completed, valid dims. Returns whether that succeeded.
bool writeModelFile(const ModelDims &dims, const std::string &path);

} // namespace dpc::model
