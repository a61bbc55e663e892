//===- InitialValues.h - values of tensors before step 1 --------*- C++ -*-===//
#ifndef DPC_RUNTIME_IO_INITIALVALUES_H
#define DPC_RUNTIME_IO_INITIALVALUES_H

#include "runtime/base/HostTensor.h"
#include "runtime/io/WeightFiles.h"
#include "runtime/plan/Plan.h"

#include <map>
#include <mutex>
#include <optional>

namespace dpc::rt {

/// Provides values for the tensors of a plan. Safe to use from several threads.
class ValueSource {
public:
  virtual ~ValueSource() = default;

  /// Checks in advance, as far as possible, whether the plan's tensors can be
  /// filled.
  virtual Status check(const Plan &plan) const = 0;
  /// Copies the shard of `rank` to `local`. Padding stays unchanged.
  virtual Status fill(const Tensor &tensor, const Mesh &mesh, int rank,
                      void *local) const = 0;
};

/// The choice of --init. The values of a file override the values of the model;
/// `random` and `zeros` fill only weights for which the model has no data.
struct InitChoice {
  enum class Kind { None, Random, Zeros, File };
  Kind kind = Kind::None;
  uint64_t seed = 0;               ///< for Random
  std::optional<WeightFiles> file; ///< for File

  /// Parses "random:SEED", "random", "zeros", or a path for
  /// WeightFiles::open().
  static Expected<InitChoice> parse(const std::string &text);
};

/// Initial values from the model, --init and the plan.
class InitialValues : public ValueSource {
public:
  /// Relative paths of sources begin in `planDir`. The tensors in `given`
  /// override all other values.
  InitialValues(std::string planDir, InitChoice choice,
                std::map<std::string, HostTensor> given = {});

  /// Refuses an --init file that contains no tensor of the plan.
  Status check(const Plan &plan) const override;
  /// Uses the first of these that exists: the given values; a tensor of the
  /// --init file; the data of the model; --init=random or zeros; the `init` of
  /// the plan.
  Status fill(const Tensor &tensor, const Mesh &mesh, int rank,
              void *local) const override;

private:
  Expected<MappedFile> openSource(const std::string &file) const;
  Status fillFromSource(const Tensor &tensor, const Mesh &mesh, int rank,
                        void *local) const;
  Status fillFromChoice(const Tensor &tensor, const Mesh &mesh, int rank,
                        void *local) const;

  std::string planDir;
  InitChoice choice;
  std::map<std::string, HostTensor> given;
  mutable std::mutex mutex; ///< guards `files`
  mutable std::map<std::string, MappedFile> files;
};

} // namespace dpc::rt

#endif // DPC_RUNTIME_IO_INITIALVALUES_H
