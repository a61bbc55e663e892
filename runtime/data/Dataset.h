//===- Dataset.h - samples in files -----------------------------*- C++ -*-===//
//
// A sample has one array for each input of a plan. Files may be untrusted:
// shapes and types are checked when a file is opened, and values when they are
// read.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_DATA_DATASET_H
#define DPC_RUNTIME_DATA_DATASET_H

#include "runtime/base/HostTensor.h"
#include "runtime/plan/Plan.h"

#include <memory>

namespace dpc::rt {

class Dataset {
public:
  virtual ~Dataset() = default;

  /// The number of samples, at least 1.
  virtual int64_t samples() const = 0;
  /// Copies sample `index` (from 0). to[i] receives the array of input i, with
  /// the input's type and its global shape without the first extent. Safe to
  /// call from several threads.
  virtual Status read(int64_t index,
                      const std::vector<std::byte *> &to) const = 0;
};

/// `path` is one of
///   a folder with one NAME.npy, or a .safetensors file with one NAME, for
///   every input, [samples, ...]; a "/" in a name is "_" in the file's;
///   any other file: token ids, raw uint16 (uint32 when the plan's vocabulary
///   needs it) or with the headers of llm.c. Sample i is the tokens from
///   i * length on, for a plan with one integer input [batch, length], or with
///   a second one, which gets them shifted by one (labels).
Expected<std::unique_ptr<Dataset>> openDataset(const Plan &plan,
                                               const std::string &path);

/// The number of samples in a step: the first extent of every input; 0 if these
/// extents differ.
int64_t samplesPerStep(const Plan &plan);

/// openDataset() calls the function for the kind of file at `path`.
Expected<std::unique_ptr<Dataset>> openNpyDataset(const Plan &plan,
                                                  const std::string &dir);
Expected<std::unique_ptr<Dataset>>
openSafetensorsDataset(const Plan &plan, const std::string &path);
Expected<std::unique_ptr<Dataset>> openTokenDataset(const Plan &plan,
                                                    const std::string &path);

/// The index of the first of `count` aligned elements of the input that is not
/// below its limit; -1 if there is none.
int64_t firstBeyond(const Port &port, const std::byte *data, int64_t count);

} // namespace dpc::rt

#endif // DPC_RUNTIME_DATA_DATASET_H
