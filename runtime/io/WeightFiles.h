//===- WeightFiles.h - a model's weights in several files -------*- C++ -*-===//
//
// Files are named as in Hugging Face models:
//
//   DIR/model.safetensors                  all tensors, if one file holds them
//   DIR/model-00001-of-00003.safetensors   otherwise, with
//   DIR/model.safetensors.index.json       {"metadata": {"total_size": BYTES},
//                                           "weight_map": {NAME: FILE}}
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_IO_WEIGHTFILES_H
#define DPC_RUNTIME_IO_WEIGHTFILES_H

#include "runtime/io/Safetensors.h"

#include <optional>

namespace dpc::rt {

/// Tensors by name, in any number of files.
class WeightFiles {
public:
  struct Weight {
    MappedFile file;
    SafetensorsEntry entry;
    const char *data() const { return file.data() + entry.offset; }
  };

  /// Opens a .safetensors file, an .index.json, or a folder with one of them.
  /// The files may be untrusted: an index may only name files in the folder of
  /// the index.
  static Expected<WeightFiles> open(const std::string &path);

  /// Null if there is no tensor of this name.
  const Weight *find(const std::string &name) const {
    auto it = weights.find(name);
    return it == weights.end() ? nullptr : &it->second;
  }
  const std::string &path() const { return name; }

private:
  Status addFile(const std::string &path);
  Status addIndex(const std::string &path);

  std::string name;
  std::map<std::string, Weight> weights;
};

/// Whether WeightFiles::open() accepts the path `text`.
bool namesWeightFiles(const std::string &text);

/// The bytes of "5GB", "200MiB" or "1000"; nullopt if `text` is not a size.
std::optional<int64_t> parseSize(const std::string &text);

/// Writes the files named at the top of this file, tensor by tensor.
class WeightFolderWriter {
public:
  /// Creates `dir`. Each file holds up to `fileBytes` of data, but at least one
  /// tensor.
  Status start(const std::string &dir,
               const std::vector<SafetensorsWriter::Entry> &entries,
               int64_t fileBytes);
  /// Appends the elements of the next tensor, in the order of start().
  Status append(const HostTensor &tensor);
  /// Writes the index. Removes a file of an earlier model if readers would
  /// prefer it to the new files.
  Status finish();

private:
  Status startFile();
  std::string fileName(size_t file) const;

  std::string dir;
  std::vector<std::vector<SafetensorsWriter::Entry>> files;
  size_t file = 0, done = 0; ///< the next tensor is files[file][done]
  std::optional<SafetensorsWriter> writer;
};

} // namespace dpc::rt

#endif // DPC_RUNTIME_IO_WEIGHTFILES_H
