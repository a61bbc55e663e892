#include "runtime/checkpoint/CheckpointReader.h"

#include "runtime/base/Reshard.h"
#include "runtime/checkpoint/CheckpointFolder.h"

#include <cstring>

namespace dpc::rt {

CheckpointReader::CheckpointReader(std::string path, Manifest manifest)
    : path(std::move(path)), saved(std::move(manifest)) {
  for (const SavedTensor &tensor : saved.tensors)
    byName[tensor.name] = &tensor;
}

Expected<std::unique_ptr<CheckpointReader>>
CheckpointReader::open(const std::string &path) {
  Expected<Manifest> manifest = readManifest(path);
  if (!manifest)
    return manifest.status();
  return std::unique_ptr<CheckpointReader>(
      new CheckpointReader(path, std::move(*manifest)));
}

const SavedTensor *CheckpointReader::find(const Tensor &tensor) const {
  auto it = byName.find(tensor.name);
  return it == byName.end() ? nullptr : it->second;
}

Status CheckpointReader::check(const Plan &plan) const {
  for (const Tensor &tensor : plan.tensors) {
    std::string name =
        std::string(nameOf(tensor.role)) + " '" + tensor.name + "'";
    const SavedTensor *from = find(tensor);
    if (!from || from->role != tensor.role)
      return Status::notFound(path + ": has no " + name +
                              "; a checkpoint of the same model and optimizer "
                              "is accepted");
    if (from->shape != tensor.globalShape || from->dtype != tensor.dtype)
      return Status::invalid(
          path + ": " + name + " is " + describe(from->dtype, from->shape) +
          ", the plan has " + describe(tensor.dtype, tensor.globalShape));
  }
  return Status::success();
}

Status CheckpointReader::verify() const {
  for (const SavedTensor &tensor : saved.tensors) {
    int64_t bytes = numElements(localShape(tensor.layout, saved.mesh)) *
                    sizeOf(tensor.dtype);
    for (int64_t rank = 0; rank < saved.mesh.ranks(); ++rank) {
      if (!saved.owns(rank, tensor))
        continue;
      Expected<std::shared_ptr<ShardFile>> file = fileOf(rank);
      if (!file)
        return file.status();
      DPC_TRY((*file)->read(tensor.name, bytes, 0, bytes).status());
    }
  }
  return Status::success();
}

Expected<std::shared_ptr<ShardFile>>
CheckpointReader::fileOf(int64_t rank) const {
  std::lock_guard lock(mutex);
  std::shared_ptr<ShardFile> &file = files[rank];
  if (file)
    return file;
  auto opened =
      ShardFile::open(path + "/" + shardFileName(rank), saved.files[rank]);
  if (!opened)
    return opened.status();
  file = *opened;
  return file;
}

Status CheckpointReader::take(const SavedTensor &from, int64_t owner,
                              const Tensor &tensor, const Mesh &mesh, int rank,
                              char *local) const {
  SharedElements shared({from.layout, saved.mesh, owner},
                        {tensor.layout, mesh, rank});
  if (shared.empty())
    return Status::success();
  Expected<std::shared_ptr<ShardFile>> file = fileOf(owner);
  if (!file)
    return file.status();
  int64_t size = sizeOf(tensor.dtype);
  int64_t bytes = numElements(localShape(from.layout, saved.mesh)) * size;
  Status status;
  shared.forEachRun([&](int64_t source, int64_t target, int64_t count) {
    if (!status.ok())
      return;
    Expected<const char *> data =
        (*file)->read(tensor.name, bytes, source * size, count * size);
    if (data)
      std::memcpy(local + target * size, *data, count * size);
    else
      status = data.status();
  });
  return status;
}

Status CheckpointReader::fill(const Tensor &tensor, const Mesh &mesh, int rank,
                              void *local) const {
  const SavedTensor *from = find(tensor);
  assert(from && "check() passed");
  for (int64_t owner = 0; owner < saved.mesh.ranks(); ++owner)
    if (saved.owns(owner, *from))
      DPC_TRY(
          take(*from, owner, tensor, mesh, rank, static_cast<char *>(local)));
  return Status::success();
}

} // namespace dpc::rt
