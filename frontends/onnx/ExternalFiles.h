//===- ExternalFiles.h - Files with the weights of a model ------*- C++ -*-===//
#pragma once

#include "onnx-ml.pb.h"

#include <string>
#include <vector>

namespace dpc::frontend {

/// Returns the locations of the external data of initializers, each once.
std::vector<std::string> externalFiles(const ::onnx::GraphProto &graph);

/// Returns one line for each external file that another model has probably
/// overwritten: the file is newer than the model at `path`, and another model
/// of the folder, which is also newer, has its weights in the same file.
std::vector<std::string> overwrittenFiles(const ::onnx::GraphProto &graph,
                                          const std::string &path);

} // namespace dpc::frontend
