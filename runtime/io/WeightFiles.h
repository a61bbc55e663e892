//===- WeightFiles.h - a model's weights in several files -------*- C++ -*-===//
//
// As Hugging Face lays them out:
//
//   DIR/model.safetensors                  all, where one file may hold them
//   DIR/model-00001-of-00003.safetensors   else, and
//   DIR/model.safetensors.index.json       {"metadata": {"total_size": BYTES},
//                                           "weight_map": {NAME: FILE}}
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_IO_WEIGHTFILES_H
#define DPC_RUNTIME_IO_WEIGHTFILES_H

#include "runtime/io/Safetensors.h"

#include <optional>

namespace dpc::rt {

/// Tensors by name, wherever they lie.
class WeightFiles {
public:
  struct Weight {
    MappedFile file;
    SafetensorsEntry entry;
    const char *data() const { return file.data() + entry.offset; }
  };

  /// Opens a .safetensors file, an .index.json, or a folder with either. The
  /// files may come from anywhere: an index names files beside it only.
  static Expected<WeightFiles> open(const std::string &path);

  /// Null: there is none of this name.
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

/// Whether --init=`text` names what WeightFiles::open() takes.
bool namesWeightFiles(const std::string &text);

/// "5GB", "200MiB", "1000" in bytes; nullopt: it is no size.
std::optional<int64_t> parseSize(const std::string &text);

/// Writes the layout of the header, tensor by tensor.
class WeightFolderWriter {
public:
  /// Makes `dir`. Files hold up to `fileBytes` of data, and at least a tensor.
  Status start(const std::string &dir,
               const std::vector<SafetensorsWriter::Entry> &entries,
               int64_t fileBytes);
  /// The next tensor's elements, in the order of start().
  Status append(const HostTensor &tensor);
  /// Writes the index, and removes what an earlier model left under other names
  /// that readers would take first.
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
