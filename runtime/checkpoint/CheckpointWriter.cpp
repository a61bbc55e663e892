#include "runtime/checkpoint/CheckpointWriter.h"

#include "runtime/base/WriteFile.h"

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

/// Copied shards reuse the memory of the previous checkpoint, because page
/// faults in new memory would take longer than copying.
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
    DPC_ASSIGN(const char *data, executor.readBuffer(buffer.id, scratch));
    const char *from = data;
    // The next tensor overwrites `scratch`.
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

/// Rank 0 creates the folder before any process writes. A process that later
/// finds no folder knows that another process has failed.
Status CheckpointWriter::makeFolder(int64_t step) {
  return session
      .fromRankZero([&]() -> Expected<std::string> {
        std::string folder = options.folder.unfinished(step, options.tag);
        DPC_TRY(rt::makeFolder(folder));
        return folder;
      })
      .status();
}

Status CheckpointWriter::save(int64_t step, const DataPosition &position) {
  DPC_TRY(finish());
  data = position;
  DPC_TRY(collect());
  DPC_TRY(makeFolder(step));
  isDone = false;
  auto run = [this, step] {
    result = write(step);
    isDone = true;
  };
  if (options.isBackground) {
    thread = std::thread(run);
    return Status::success();
  }
  run();
  return agree();
}

Status CheckpointWriter::finish() {
  if (thread.joinable())
    thread.join();
  return agree();
}

bool CheckpointWriter::hasFailed() const { return isDone && !result.ok(); }

Status CheckpointWriter::agree() {
  DPC_ASSIGN(bool failed, session.anywhere(hasFailed()));
  if (!failed)
    return Status::success();
  hasAgreed = true;
  return hasFailed() ? result : elsewhere();
}

Status CheckpointWriter::elsewhere() {
  return Status::cancelled(
      "another process could not write its part of a checkpoint");
}

/// Removes the unfinished checkpoint to free the disk, which may be full.
/// Renames the folder first, so that other processes stop writing to it.
void CheckpointWriter::removeWritten(int64_t step) const {
  namespace fs = std::filesystem;
  std::string tag = options.tag + "-gone-" + std::to_string(ranks.front().rank);
  fs::path folder = options.folder.unfinished(step, options.tag);
  fs::path gone = options.folder.unfinished(step, tag);
  std::error_code code;
  fs::rename(folder, gone, code);
  if (!code)
    fs::remove_all(gone, code);
}

Status CheckpointWriter::write(int64_t step) {
  Status status = writeFiles(step);
  if (status.ok() && session.holdsRankZero())
    status = publish(step);
  if (status.ok())
    return status;
  bool wasGone = isGone(step);
  removeWritten(step);
  return wasGone && status.code() != StatusCode::Timeout ? elsewhere() : status;
}

bool CheckpointWriter::isGone(int64_t step) const {
  std::error_code code;
  return !std::filesystem::exists(options.folder.unfinished(step, options.tag),
                                  code) &&
         !std::filesystem::exists(options.folder.checkpoint(step), code);
}

Status CheckpointWriter::writeFiles(int64_t step) {
  std::string folder = options.folder.unfinished(step, options.tag);
  for (const RankShards &rank : ranks) {
    if (stopping)
      return Status::cancelled("the run ends");
    if (!rank.shards.empty())
      DPC_TRY(
          writeShardFile(folder + "/" + shardFileName(rank.rank), rank.shards));
  }
  return Status::success();
}

/// A shard file is complete when it appears.
Expected<SavedFile> CheckpointWriter::awaitFile(const std::string &path) {
  auto limit = std::chrono::steady_clock::now() +
               std::chrono::duration<double>(options.timeoutSeconds);
  std::error_code code;
  while (!std::filesystem::exists(path, code)) {
    if (stopping)
      return Status::cancelled("the run ends");
    if (!std::filesystem::exists(std::filesystem::path(path).parent_path(),
                                 code))
      return elsewhere();
    if (std::chrono::steady_clock::now() > limit)
      return Status::timeout(path, ": was not written within ",
                             static_cast<int64_t>(options.timeoutSeconds),
                             " s; all machines must share the folder");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return describeShardFile(path);
}

Status CheckpointWriter::publish(int64_t step) {
  Manifest manifest = manifestOf(plan);
  manifest.step = step;
  manifest.data = data;
  manifest.profile = options.profile;
  std::string folder = options.folder.unfinished(step, options.tag);
  for (int64_t rank = 0; rank < plan.ranks(); ++rank) {
    bool owns = false;
    for (const SavedTensor &tensor : manifest.tensors)
      owns |= manifest.owns(rank, tensor);
    if (!owns)
      continue;
    DPC_ASSIGN(manifest.files[rank],
               awaitFile(folder + "/" + shardFileName(rank)));
  }
  DPC_TRY(options.folder.publish(manifest, options.tag));
  return options.folder.prune(options.keep);
}

} // namespace dpc::rt
