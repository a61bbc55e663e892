#include "runtime/checkpoint/CheckpointReader.h"

#include "runtime/base/Reshard.h"
#include "runtime/checkpoint/CheckpointFolder.h"

#include <algorithm>
#include <cstring>
#include <set>

namespace dpc::rt {

/// A rank releases the pages of a file after it has read this many bytes.
static constexpr int64_t kWindow = int64_t(4) << 20;

CheckpointReader::CheckpointReader(std::string path, Manifest manifest)
    : path(std::move(path)), saved(std::move(manifest)) {
  for (const SavedTensor &tensor : saved.tensors)
    byName[tensor.name] = &tensor;
}

Expected<std::unique_ptr<CheckpointReader>>
CheckpointReader::open(const std::string &path) {
  DPC_ASSIGN(Manifest manifest, readManifest(path));
  return std::unique_ptr<CheckpointReader>(
      new CheckpointReader(path, std::move(manifest)));
}

const SavedTensor *CheckpointReader::find(const Tensor &tensor) const {
  auto it = byName.find(tensor.name);
  return it == byName.end() ? nullptr : it->second;
}

Status CheckpointReader::check(const Plan &plan) const {
  for (const Tensor &tensor : plan.tensors) {
    std::string name = concat(nameOf(tensor.role), " '", tensor.name, "'");
    const SavedTensor *from = find(tensor);
    auto isFrozen = [](TensorRole role) { return role == TensorRole::Buffer; };
    if (from && from->role != tensor.role && tensor.isWeight() &&
        from->role != TensorRole::State)
      return Status::invalid(path, ": '", tensor.name, "' was ",
                             isFrozen(from->role) ? "frozen" : "trained",
                             " there and is ",
                             isFrozen(tensor.role) ? "frozen" : "trained",
                             " here; a plan that trains the same weights "
                             "resumes");
    if (!from || from->role != tensor.role)
      return Status::notFound(path, ": has no ", name,
                              "; a checkpoint of the same model and optimizer "
                              "is accepted");
    for (const std::string &alias : tensor.aliases)
      if (byName.count(alias))
        return Status::invalid(path, ": has '", tensor.name, "' and '", alias,
                               "' separately, but the plan ties them");
    if (from->shape != tensor.globalShape || from->dtype != tensor.dtype)
      return Status::invalid(
          path, ": ", name, " is ", describe(from->dtype, from->shape),
          ", the plan has ", describe(tensor.dtype, tensor.globalShape));
  }
  return Status::success();
}

std::vector<std::string> CheckpointReader::unread(const Plan &plan,
                                                  bool weightsOnly) const {
  std::set<std::string> known;
  if (weightsOnly)
    known.insert(plan.unreadWeights.begin(), plan.unreadWeights.end());
  for (const Tensor &tensor : plan.tensors)
    known.insert(tensor.name);
  std::vector<std::string> names;
  for (const SavedTensor &tensor : saved.tensors)
    if (!known.count(tensor.name) &&
        (tensor.role != TensorRole::State || (plan.trains && !weightsOnly)))
      names.push_back(tensor.name);
  return names;
}

Status CheckpointReader::verify() const {
  for (const SavedTensor &tensor : saved.tensors) {
    int64_t bytes = numElements(localShape(tensor.layout, saved.mesh)) *
                    sizeOf(tensor.dtype);
    for (int64_t rank = 0; rank < saved.mesh.ranks(); ++rank) {
      if (!saved.owns(rank, tensor))
        continue;
      DPC_ASSIGN(std::shared_ptr<ShardFile> file, fileOf(rank));
      for (int64_t at = 0; at < bytes; at += kWindow) {
        int64_t count = std::min(kWindow, bytes - at);
        DPC_TRY(file->read(tensor.name, bytes, at, count).status());
        file->giveBack(tensor.name, at, count);
      }
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
  DPC_ASSIGN(file, ShardFile::open(path + "/" + shardFileName(rank),
                                   saved.files[rank]));
  return file;
}

Status CheckpointReader::take(const SavedTensor &from, int64_t owner,
                              const Tensor &tensor, const Mesh &mesh, int rank,
                              char *local) const {
  SharedElements shared({from.layout, saved.mesh, owner},
                        {tensor.layout, mesh, rank});
  if (shared.empty())
    return Status::success();
  DPC_ASSIGN(std::shared_ptr<ShardFile> file, fileOf(owner));
  int64_t size = sizeOf(tensor.dtype);
  int64_t bytes = numElements(localShape(from.layout, saved.mesh)) * size;
  Status status;
  // The first byte of the pages to release. These include the gaps between
  // copied runs, because checking the hash of a block reads the whole block.
  int64_t begin = -1;
  auto copy = [&](int64_t from, int64_t to, int64_t count) {
    Expected<const char *> data = file->read(tensor.name, bytes, from, count);
    if (!data) {
      status = data.status();
      return;
    }
    std::memcpy(local + to, *data, count);
    begin = begin < 0 ? from : std::min(begin, from);
    if (from + count - begin < kWindow)
      return;
    file->giveBack(tensor.name, begin, from + count - begin);
    begin = -1;
  };
  shared.forEachRun([&](int64_t source, int64_t target, int64_t count) {
    for (int64_t at = 0; at < count * size && status.ok(); at += kWindow)
      copy(source * size + at, target * size + at,
           std::min(kWindow, count * size - at));
  });
  file->giveBack(tensor.name, 0, bytes);
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
  std::string fault =
      refusesNan && tensor.isWeight() ? faultIn(tensor, mesh, rank, local) : "";
  if (!fault.empty())
    return Status::invalid(path, ": ", nameOf(tensor.role), " '", tensor.name,
                           "' holds ", fault, "; --on-nan=go-on accepts it");
  return Status::success();
}

} // namespace dpc::rt
