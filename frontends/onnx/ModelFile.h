//===- ModelFile.h - An .onnx file and its weights --------------*- C++ -*-===//
#ifndef DPC_FRONTENDS_ONNX_MODELFILE_H
#define DPC_FRONTENDS_ONNX_MODELFILE_H

#include "frontends/emit/Forward.h"

#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"

#include "onnx-ml.pb.h"

#include <memory>
#include <optional>
#include <string>

namespace dpc::frontend {

/// The MLIR element type of an ONNX element type; null if it is unsupported.
mlir::Type elementTypeOf(int32_t onnxType, mlir::MLIRContext *context);
/// The schema's spelling of an element type ("FLOAT", "STRING", ...), for
/// messages.
std::string onnxTypeName(int32_t onnxType);
/// Fails when a dimension is negative or the size overflows.
llvm::Error checkDims(const ::onnx::TensorProto &tensor);

/// A parsed model. Weights stay in the files; only their locations are read.
class ModelFile {
public:
  /// Reads and parses `path`. Fails if the file is missing, damaged, not an
  /// ONNX model, or larger than a protobuf message can be (2 GiB).
  static llvm::Expected<std::unique_ptr<ModelFile>> open(llvm::StringRef path);
  /// Parses a file that is in memory. Messages call it `path`, and external
  /// data is looked up relative to it.
  static llvm::Expected<std::unique_ptr<ModelFile>>
  parse(std::unique_ptr<llvm::MemoryBuffer> buffer, llvm::StringRef path);

  const std::string &path() const { return file; }
  const ::onnx::ModelProto &model() const { return proto; }

  /// The location of the data of initializer `index` of the main graph. Returns
  /// nullopt if the initializer is abstract, that is, if its external file does
  /// not exist. Fails if the data exists but is unusable.
  llvm::Expected<std::optional<DataLocation>>
  locateInitializer(int index, mlir::Type element) const;

  /// Decodes a tensor stored in the model or in an existing external file.
  llvm::Expected<ConstTensor> decode(const ::onnx::TensorProto &tensor,
                                     mlir::MLIRContext *context) const;

private:
  ModelFile() = default;

  /// The byte range of an initializer's data field in the .onnx file.
  struct Span {
    int64_t offset = -1;
    int64_t bytes = 0;
    bool scattered = false; ///< several ranges, or varints
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

#endif // DPC_FRONTENDS_ONNX_MODELFILE_H
