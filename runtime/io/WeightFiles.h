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
#pragma once

#include "runtime/io/Safetensors.h"

#include <optional>

namespace dpc::rt {

class WeightFiles {
public:
  struct Weight {
    MappedFile file;
    SafetensorsEntry entry;
    const char *data() const { return file.data() + entry.offset; }
  };

  /// Opens a .safetensors file, an .index.json, or a folder with one of them.
  /// A folder may have both if they give the same weights.
  /// The files are untrusted: an index may only name files in its folder.
  static Expected<WeightFiles> open(const std::string &path);

  const Weight *find(const std::string &name) const {
    auto it = weights.find(name);
    return it == weights.end() ? nullptr : &it->second;
  }
  const std::map<std::string, Weight> &all() const { return weights; }
  const std::string &path() const { return name; }
  /// Returns the profile of the data that trained the weights, which one of the
  /// files has in its metadata (DataProfile::text()), or "".
  const std::string &profile() const { return trained; }
  /// The key of the profile in the metadata of a .safetensors file.
  static constexpr const char *kProfile = "dpc.data";
  /// Returns the names of other weight files in the folder of open(), sorted.
  const std::vector<std::string> &unreadFiles() const { return unread; }
  /// Returns the files that hold the weights, by path.
  std::map<std::string, MappedFile> files() const;

private:
  static Status checkAgreement(const std::string &single,
                               const std::string &index);
  Status addFile(const std::string &path);
  Status addIndex(const std::string &path);

  void findUnread(const std::string &folder);

  std::string name;
  std::map<std::string, Weight> weights;
  std::string trained;             ///< see profile()
  std::vector<std::string> unread; ///< see unreadFiles()
};

/// Whether two weights have the same type, shape and bytes.
bool isEqual(const WeightFiles::Weight &a, const WeightFiles::Weight &b);

bool namesWeightFiles(const std::string &text);

/// Parses a size such as "5GB", "200MiB" or "1000" to bytes.
std::optional<int64_t> parseSize(const std::string &text);

/// Writes weights to a folder, one tensor after another.
class WeightFolderWriter {
public:
  /// Creates `dir`. A file has at most `fileBytes` bytes of data, or a single
  /// larger tensor. `profile` is that of WeightFiles.
  Status start(const std::string &dir,
               const std::vector<SafetensorsWriter::Entry> &entries,
               int64_t fileBytes, const std::string &profile = "");
  /// Appends the next tensor; start() sets the order.
  Status append(const HostTensor &tensor);
  /// Writes the index and removes an old model.safetensors, which readers would
  /// prefer to the index.
  Status finish();

private:
  Status startFile();
  std::string fileName(size_t file) const;

  std::string dir, profile;
  std::vector<std::vector<SafetensorsWriter::Entry>> files;
  size_t file = 0, done = 0; ///< the next tensor is files[file][done]
  std::optional<SafetensorsWriter> writer;
};

} // namespace dpc::rt
