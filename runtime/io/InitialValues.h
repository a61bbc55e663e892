//===- InitialValues.h - values of tensors before step 1 --------*- C++ -*-===//
#pragma once

#include "runtime/base/HostTensor.h"
#include "runtime/io/WeightFiles.h"
#include "runtime/plan/Plan.h"

#include <map>
#include <mutex>
#include <optional>

namespace dpc::rt {

/// Fills the tensors of a plan. Safe to use from several threads.
class ValueSource {
public:
  virtual ~ValueSource() = default;

  /// Checks, as far as possible, that fill() will succeed.
  virtual Status check(const Plan &plan) const = 0;
  /// Copies the shard of `rank` to `local`. Padding stays unchanged.
  virtual Status fill(const Tensor &tensor, const Mesh &mesh, int rank,
                      void *local) const = 0;
};

/// The value of --init. A file overrides the values of the model; `random` and
/// `zeros` only fill weights for which the model has no data.
struct InitChoice {
  enum class Kind { None, Random, Zeros, File };
  Kind kind = Kind::None;
  uint64_t seed = 0;               ///< for Random
  std::optional<WeightFiles> file; ///< for File
  bool isPartial = false;          ///< for File: see WeightMatch::check()

  /// Parses "random:SEED", "random", "zeros", or a path of weight files.
  static Expected<InitChoice> parse(const std::string &text);
};

class InitialValues : public ValueSource {
public:
  /// Relative paths of sources begin in `planDir`. `given` has priority.
  InitialValues(const Plan &plan, std::string planDir, InitChoice choice,
                std::map<std::string, HostTensor> given = {});

  /// Refuses an --init file that does not fit the plan (WeightMatch.h).
  Status check(const Plan &plan) const override;
  /// Uses the first value that exists: `given`, the --init file, the data of
  /// the model, --init=random or zeros, the `init` of the plan. Refuses data of
  /// a file that is not the one which the plan has recorded, and NaN and
  /// infinity in an --init file.
  Status fill(const Tensor &tensor, const Mesh &mesh, int rank,
              void *local) const override;

private:
  struct Source {
    MappedFile file;
    Status check; ///< the result of checkSourceFile()
  };
  Expected<Source> openSource(const std::string &file) const;
  Status fillFromFile(const WeightFiles::Weight &weight, const Tensor &tensor,
                      const Mesh &mesh, int rank, void *local) const;
  Status fillFromSource(const Tensor &tensor, const Mesh &mesh, int rank,
                        void *local) const;
  Status fillFromChoice(const Tensor &tensor, const Mesh &mesh, int rank,
                        void *local) const;

  std::string planDir;
  InitChoice choice;
  std::map<std::string, HostTensor> given;
  std::vector<SourceFile> recorded;
  mutable std::mutex mutex; ///< guards `sources`
  mutable std::map<std::string, Source> sources;
};

/// Returns "nan" or "inf" if an element of the shard has this value, otherwise
/// "". -inf is accepted, because a weight may be a mask. Padding is not read.
std::string faultIn(const Tensor &tensor, const Mesh &mesh, int rank,
                    const void *local);

} // namespace dpc::rt
