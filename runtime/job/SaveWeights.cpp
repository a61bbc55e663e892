#include "runtime/job/SaveWeights.h"

#include "runtime/io/WeightFiles.h"
#include "runtime/job/RankZero.h"

namespace dpc {

using namespace rt;

namespace {

using Entry = SafetensorsWriter::Entry;

/// --save-params has tied weights under all their names, as PyTorch's
/// state_dict has. --export has them under the first name, as `transformers`
/// expects.
struct Sinks {
  std::optional<SafetensorsWriter> file;
  std::optional<WeightFolderWriter> folder;

  Status start(const RunOptions &options,
               const std::vector<const Tensor *> &tensors,
               const std::string &profile);
  Status append(const HostTensor &value, const Tensor &tensor);
  Status finish();
};

} // namespace

static DType savedType(const Tensor &tensor) {
  return isFloat(tensor.dtype) ? DType::F32 : tensor.dtype;
}

Status Sinks::start(const RunOptions &options,
                    const std::vector<const Tensor *> &tensors,
                    const std::string &profile) {
  std::map<std::string, std::string> metadata;
  if (!profile.empty())
    metadata[WeightFiles::kProfile] = profile;
  std::vector<Entry> once, all;
  for (const Tensor *tensor : tensors) {
    Entry entry{tensor->name, savedType(*tensor), tensor->globalShape};
    once.push_back(entry);
    all.push_back(entry);
    for (const std::string &alias : tensor->aliases)
      all.push_back({alias, entry.dtype, entry.shape});
  }
  if (!options.saveParams.empty())
    DPC_TRY(file.emplace().start(options.saveParams, all, metadata));
  if (!options.exportDir.empty())
    DPC_TRY(folder.emplace().start(options.exportDir, once,
                                   *parseSize(options.maxShardSize), profile));
  return Status::success();
}

Status Sinks::append(const HostTensor &value, const Tensor &tensor) {
  for (size_t i = 0; file && i <= tensor.aliases.size(); ++i)
    DPC_TRY(file->append(value));
  return folder ? folder->append(value) : Status::success();
}

Status Sinks::finish() {
  if (file)
    DPC_TRY(file->finish());
  return folder ? folder->finish() : Status::success();
}

Status saveWeights(const RunOptions &options, const Plan &plan,
                   Session &session, const std::string &profile) {
  if (options.saveParams.empty() && options.exportDir.empty())
    return Status::success();
  std::vector<const Tensor *> tensors;
  for (const Tensor &tensor : plan.tensors)
    if (tensor.isWeight())
      tensors.push_back(&tensor);
  Sinks sinks;
  // A file that cannot be written must not keep the other processes waiting, so
  // that rank 0 gathers all tensors even then.
  Status written;
  if (session.holdsRankZero())
    written = sinks.start(options, tensors, profile);
  for (const Tensor *tensor : tensors) {
    DPC_ASSIGN(HostTensor value, session.gather(*tensor));
    if (!session.holdsRankZero() || !written.ok())
      continue;
    HostTensor full =
        HostTensor::zeros(savedType(*tensor), tensor->globalShape);
    convertElements(value.data.data(), value.dtype, full.data.data(),
                    full.dtype, full.elements());
    written = sinks.append(full, *tensor);
  }
  return onRankZero(session,
                    [&] { return written.ok() ? sinks.finish() : written; });
}

} // namespace dpc
