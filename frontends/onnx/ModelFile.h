//===- ModelFile.h - An .onnx file and its weights --------------*- C++ -*-===//
#pragma once

#include "frontends/emit/Forward.h"

#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"

#include "onnx-ml.pb.h"

#include <memory>
#include <optional>
#include <string>

namespace dpc::frontend {

/// Returns the MLIR type of an ONNX element type, or null if it is unsupported.
mlir::Type elementTypeOf(int32_t onnxType, mlir::MLIRContext *context);
/// Returns the schema's name of an element type, such as "FLOAT".
std::string onnxTypeName(int32_t onnxType);
/// Fails if a dimension is negative or the byte size overflows.
llvm::Error checkDims(const ::onnx::TensorProto &tensor);

/// A parsed model. Weights with external data stay in their files.
class ModelFile {
public:
  /// Reads and parses `path`. Fails if the file is missing, damaged, not an
  /// ONNX model, or larger than 2 GiB (protobuf's limit).
  static llvm::Expected<std::unique_ptr<ModelFile>> open(llvm::StringRef path);
  /// Parses a model in memory. Messages call it `path`; paths of external data
  /// are relative to the folder of `path`.
  static llvm::Expected<std::unique_ptr<ModelFile>>
  parse(std::unique_ptr<llvm::MemoryBuffer> buffer, llvm::StringRef path);

  const std::string &path() const { return file; }
  const ::onnx::ModelProto &model() const { return proto; }

  /// Returns where the data of initializer `index` of the main graph is, or
  /// nullopt if its external file does not exist (the weight is abstract).
  /// Fails if the data exists but is unusable.
  llvm::Expected<std::optional<DataLocation>>
  locateInitializer(int index, mlir::Type element) const;

  /// Decodes a tensor of the model, whose data can be in an external file.
  llvm::Expected<ConstTensor> decode(const ::onnx::TensorProto &tensor,
                                     mlir::MLIRContext *context) const;

private:
  ModelFile() = default;

  /// The bytes of an initializer's data field in the .onnx file.
  struct Span {
    int64_t offset = -1;
    int64_t bytes = 0;
    bool scattered = false; ///< true: not one range of raw data
  };

  llvm::Error scanInitializers();
  llvm::Expected<std::optional<DataLocation>>
  locateExternal(const ::onnx::TensorProto &tensor, int64_t bytes) const;

  std::string file;
  std::unique_ptr<llvm::MemoryBuffer> buffer;
  ::onnx::ModelProto proto;
  std::vector<Span> spans;
};

} // namespace dpc::frontend
