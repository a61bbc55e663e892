//===- Dataset.h - samples in files -----------------------------*- C++ -*-===//
//
// A sample has one array for each input of a plan. Files may be untrusted:
// opening a file checks shapes and types, and read() checks values.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/base/HostTensor.h"
#include "runtime/plan/Plan.h"

#include <memory>

namespace dpc::rt {

class Dataset {
public:
  virtual ~Dataset() = default;

  /// At least 1.
  virtual int64_t samples() const = 0;
  /// Copies `count` samples from `first` (0-based) on. The array of input i
  /// goes to to[i], with the type of the input and for each sample its global
  /// shape without the first extent. Safe to call from several threads.
  virtual Status read(int64_t first, int64_t count,
                      const std::vector<std::byte *> &to) const = 0;
  Status read(int64_t index, const std::vector<std::byte *> &to) const {
    return read(index, 1, to);
  }

  /// Says which input gets which data, in one line, or "" if names say it.
  virtual std::string mapping() const { return ""; }
  /// Names the arrays in the files that no input reads.
  virtual std::vector<std::string> unread() const { return {}; }
  /// Returns the types of the arrays in the files, by input, or nothing.
  virtual std::vector<DType> storedTypes() const { return {}; }
};

/// Opens the samples at `path`, which is one of
///
///    folder             NAME.npy for each input; "_" replaces "/" in names
///    .safetensors file  a tensor NAME for each input
///    any other file     token ids: uint16, or uint32 if the vocabulary needs
///    it,
///                       or with a header of llm.c
///
/// Arrays have the shape [samples, ...]. For token ids, the plan has an integer
/// input [batch, length]; sample i begins at token i * length. A second input
/// of the same shape, the labels (InputUse), gets the next token of each, or
/// the same tokens if the loss itself shifts them.
Expected<std::unique_ptr<Dataset>> openDataset(const Plan &plan,
                                               const std::string &path);

/// Returns the first extent of every input; 0 if these extents differ.
int64_t samplesPerStep(const Plan &plan);

/// Each function opens one kind of file for openDataset().
Expected<std::unique_ptr<Dataset>> openNpyDataset(const Plan &plan,
                                                  const std::string &dir);
Expected<std::unique_ptr<Dataset>>
openSafetensorsDataset(const Plan &plan, const std::string &path);
Expected<std::unique_ptr<Dataset>> openTokenDataset(const Plan &plan,
                                                    const std::string &path);

} // namespace dpc::rt
