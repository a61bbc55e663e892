#include "runtime/checkpoint/CheckpointWriter.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>

namespace dpc::rt {

CheckpointWriter::CheckpointWriter(const Plan &plan, Session &session,
                                   CheckpointOptions options)
    : plan(plan), session(session), options(std::move(options)) {}

CheckpointWriter::~CheckpointWriter() {
  stopping = true;
  if (thread.joinable())
    thread.join();
}

/// The tensors of a rank, in the order of the plan. Copies stay where they were
/// put for the last checkpoint: fresh memory costs more than the copy.
Status CheckpointWriter::collectRank(Executor &executor,
                                     RankShards &out) const {
  out.rank = executor.rank();
  out.shards.clear();
  std::vector<const Tensor *> owned;
  size_t bytes = 0;
  for (const Tensor &tensor : plan.tensors)
    if (ownsShard(tensor.layout, plan.mesh, executor.rank(), 0,
                  plan.buffers[tensor.buffer].stage)) {
      owned.push_back(&tensor);
      bytes += plan.buffers[tensor.buffer].bytes;
    }
  size_t at = 0;
  std::vector<char> scratch;
  for (const Tensor *tensor : owned) {
    const Buffer &buffer = plan.buffers[tensor->buffer];
    Expected<const char *> data = executor.readBuffer(buffer.id, scratch);
    if (!data)
      return data.status();
    const char *from = *data;
    // What is in `scratch` makes room for the next one.
    if (options.isBackground || from == scratch.data()) {
      out.copy.resize(std::max(out.copy.size(), bytes));
      std::memcpy(out.copy.data() + at, from, buffer.bytes);
      from = out.copy.data() + at;
      at += buffer.bytes;
    }
    out.shards.push_back({tensor->name, tensor->dtype, buffer.shape, from});
  }
  return Status::success();
}

Status CheckpointWriter::collect() {
  const auto &executors = session.ranksHere();
  ranks.resize(executors.size());
  return session.onAllRanks(
      [&](size_t i) { return collectRank(*executors[i], ranks[i]); });
}

Status CheckpointWriter::save(int64_t step, const DataPosition &position) {
  DPC_TRY(finish());
  data = position;
  DPC_TRY(collect());
  if (!options.isBackground) {
    DPC_TRY(write(step));
    saved = step;
    return Status::success();
  }
  isDone = false;
  thread = std::thread([this, step] {
    result = write(step);
    if (result.ok())
      saved = step;
    isDone = true;
  });
  return Status::success();
}

Status CheckpointWriter::finish() {
  if (thread.joinable())
    thread.join();
  return result;
}

Status CheckpointWriter::check() { return isDone ? finish() : Status(); }

/// What cannot be completed takes no room on a disk that may be full. Other
/// processes whose own write failed remove their files, and who is last the
/// folder; what the rest wrote goes when a run starts in this folder again.
void CheckpointWriter::removeWritten(int64_t step) const {
  std::filesystem::path folder = options.folder.unfinished(step, options.tag);
  std::error_code code;
  for (const RankShards &rank : ranks)
    std::filesystem::remove(folder / shardFileName(rank.rank), code);
  if (session.holdsRankZero())
    std::filesystem::remove(folder / kManifestFile, code);
  std::filesystem::remove(folder, code);
}

Status CheckpointWriter::write(int64_t step) {
  Status status = writeFiles(step);
  if (status.ok() && session.holdsRankZero())
    status = publish(step);
  if (!status.ok())
    removeWritten(step);
  return status;
}

Status CheckpointWriter::writeFiles(int64_t step) {
  std::string folder = options.folder.unfinished(step, options.tag);
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  if (code)
    return Status::io(folder + ": cannot be made: " + code.message());
  for (const RankShards &rank : ranks)
    if (!rank.shards.empty() && !stopping)
      DPC_TRY(
          writeShardFile(folder + "/" + shardFileName(rank.rank), rank.shards));
  return Status::success();
}

/// A file has its name when all of it is on the disk.
Expected<SavedFile> CheckpointWriter::awaitFile(const std::string &path) {
  auto limit = std::chrono::steady_clock::now() +
               std::chrono::duration<double>(options.timeoutSeconds);
  std::error_code code;
  while (!std::filesystem::exists(path, code)) {
    if (stopping)
      return Status(Code::Cancelled, "the run ends");
    if (std::chrono::steady_clock::now() > limit)
      return Status(
          Code::Timeout,
          path + ": was not written within " +
              std::to_string(static_cast<int64_t>(options.timeoutSeconds)) +
              " s; is the folder shared by all machines?");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return describeShardFile(path);
}

Status CheckpointWriter::publish(int64_t step) {
  Manifest manifest = manifestOf(plan);
  manifest.step = step;
  manifest.data = data;
  std::string folder = options.folder.unfinished(step, options.tag);
  for (int64_t rank = 0; rank < plan.ranks(); ++rank) {
    bool owns = false;
    for (const SavedTensor &tensor : manifest.tensors)
      owns |= manifest.owns(rank, tensor);
    if (!owns)
      continue;
    Expected<SavedFile> file = awaitFile(folder + "/" + shardFileName(rank));
    if (!file)
      return file.status();
    manifest.files[rank] = *file;
  }
  DPC_TRY(options.folder.publish(manifest, options.tag));
  return options.folder.prune(options.keep);
}

} // namespace dpc::rt
