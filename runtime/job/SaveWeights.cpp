#include "runtime/job/SaveWeights.h"

#include "runtime/io/WeightFiles.h"

namespace dpc {

using namespace rt;

namespace {

struct Sinks {
  std::optional<SafetensorsWriter> file;
  std::optional<WeightFolderWriter> folder;

  Status start(const RunOptions &options,
               const std::vector<SafetensorsWriter::Entry> &entries);
  Status append(const HostTensor &tensor);
  Status finish();
};

} // namespace

Status Sinks::start(const RunOptions &options,
                    const std::vector<SafetensorsWriter::Entry> &entries) {
  if (!options.saveParams.empty())
    DPC_TRY(file.emplace().start(options.saveParams, entries));
  if (!options.exportDir.empty())
    DPC_TRY(folder.emplace().start(options.exportDir, entries,
                                   *parseSize(options.maxShardSize)));
  return Status::success();
}

Status Sinks::append(const HostTensor &tensor) {
  if (file)
    DPC_TRY(file->append(tensor));
  return folder ? folder->append(tensor) : Status::success();
}

Status Sinks::finish() {
  if (file)
    DPC_TRY(file->finish());
  return folder ? folder->finish() : Status::success();
}

Status saveWeights(const RunOptions &options, const Plan &plan,
                   Session &session) {
  if (options.saveParams.empty() && options.exportDir.empty())
    return Status::success();
  std::vector<const Tensor *> tensors;
  std::vector<SafetensorsWriter::Entry> entries;
  for (const Tensor &tensor : plan.tensors)
    if (tensor.isWeight()) {
      tensors.push_back(&tensor);
      entries.push_back({tensor.name,
                         isFloat(tensor.dtype) ? DType::F32 : tensor.dtype,
                         tensor.globalShape});
    }
  Sinks sinks;
  bool writes = session.holdsRankZero();
  if (writes)
    DPC_TRY(sinks.start(options, entries));
  for (size_t i = 0; i < tensors.size(); ++i) {
    DPC_ASSIGN(HostTensor value, session.gather(*tensors[i]));
    if (!writes)
      continue;
    HostTensor full =
        HostTensor::zeros(entries[i].dtype, tensors[i]->globalShape);
    convertElements(value.data.data(), value.dtype, full.data.data(),
                    full.dtype, full.elements());
    DPC_TRY(sinks.append(full));
  }
  return sinks.finish();
}

} // namespace dpc
