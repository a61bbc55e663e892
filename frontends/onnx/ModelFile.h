//===- ModelFile.h - An .onnx file and its weights -------------*- C++ -*-===//
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

/// The MLIR element type of an ONNX element type, or null when unsupported.
mlir::Type elementTypeOf(int32_t onnxType, mlir::MLIRContext *context);
/// "FLOAT", "STRING", ...: the schema's spelling, for messages.
std::string onnxTypeName(int32_t onnxType);
/// Fails when a dimension is negative or the size overflows.
llvm::Error checkDims(const ::onnx::TensorProto &tensor);

/// A parsed model. Weights stay in the files; only their places are known.
class ModelFile {
public:
  /// Reads and parses `path`. Fails on files that are missing, damaged, no
  /// ONNX models or larger than a protobuf message may be (2 GiB).
  static llvm::Expected<std::unique_ptr<ModelFile>> open(llvm::StringRef path);
  /// The same for a file that is in memory; `path` is what messages call it,
  /// and where external data is looked for.
  static llvm::Expected<std::unique_ptr<ModelFile>>
  parse(std::unique_ptr<llvm::MemoryBuffer> buffer, llvm::StringRef path);

  const std::string &path() const { return file; }
  const ::onnx::ModelProto &model() const { return proto; }

  /// Where initializer `index` of the main graph has its data; nullopt when it
  /// is abstract, that is, stored in an external file that does not exist.
  /// Fails when the data is there but unusable.
  llvm::Expected<std::optional<DataLocation>>
  locateInitializer(int index, mlir::Type element) const;

  /// Decodes a tensor held in the model or in an existing external file.
  llvm::Expected<ConstTensor> decode(const ::onnx::TensorProto &tensor,
                                     mlir::MLIRContext *context) const;

private:
  ModelFile() = default;

  /// The byte range of an initializer's data field inside the .onnx file.
  struct Span {
    int64_t offset = -1;
    int64_t bytes = 0;
    bool scattered = false; ///< several pieces, or varints
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
