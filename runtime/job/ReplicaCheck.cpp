#include "runtime/job/ReplicaCheck.h"

#include "runtime/plan/PlanJson.h"

#include <algorithm>
#include <map>
#include <sstream>

namespace dpc::rt {

int64_t firstHolder(const Layout &layout, const Mesh &mesh, int64_t rank,
                    bool inStages) {
  int64_t first = 0;
  for (const MeshAxis &axis : mesh.axes) {
    bool counts =
        axis.name == kPipelineAxis ? !inStages : layout.mentions(axis.name);
    first =
        first * axis.size + (counts ? mesh.coordinate(axis.name, rank, 0) : 0);
  }
  return first;
}

/// Returns the hash of the shard in `buffer`, without padding.
static Expected<std::string> hashOf(const Plan &plan, Executor &executor,
                                    const Tensor &tensor, int buffer) {
  std::vector<char> scratch, shard;
  DPC_ASSIGN(const char *data, executor.readBuffer(buffer, scratch));
  int64_t size = sizeOf(tensor.dtype);
  forEachRun(tensor.layout, plan.mesh, executor.rank(), 0,
             [&](int64_t /*global*/, int64_t local, int64_t count) {
               const char *begin = data + local * size;
               shard.insert(shard.end(), begin, begin + count * size);
             });
  return hashText({shard.data(), shard.size()});
}

/// Returns a line "TENSOR FIRST RANK HASH" for each tensor of a rank, where
/// FIRST is firstHolder(). If a tensor cannot be read, returns "! REASON"
/// instead of failing, because rank 0 waits for the lines of all ranks.
static std::string hashesOf(const Plan &plan, Executor &executor) {
  std::string lines, rank = std::to_string(executor.rank());
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    const Tensor &tensor = plan.tensors[i];
    std::string first =
        std::to_string(firstHolder(tensor.layout, plan.mesh, executor.rank(),
                                   /*inStages=*/!tensor.copies.empty()));
    for (int id : tensor.allBuffers()) {
      if (!executor.holds(id))
        continue;
      Expected<std::string> hash = hashOf(plan, executor, tensor, id);
      if (!hash)
        return "! rank " + rank + ": " + hash.status().message() + "\n";
      lines += concat(i, " ", first, " ", rank, " ", *hash, "\n");
    }
  }
  return lines;
}

using Copies = std::map<std::string, std::vector<int64_t>>; ///< ranks by hash

/// "rank 3", "ranks 1, 3"
static std::string ranksText(const std::vector<int64_t> &ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i)
    text += (i > 0 ? ", " : "") + std::to_string(ranks[i]);
  return text;
}

static Status compare(const std::string &name, const Copies &copies) {
  if (copies.size() <= 1)
    return Status::success();
  size_t all = 0, most = 0;
  const std::string *common = nullptr;
  for (const auto &[hash, ranks] : copies) {
    all += ranks.size();
    if (ranks.size() > most) {
      most = ranks.size();
      common = &hash;
    }
  }
  std::vector<int64_t> drifted;
  for (const auto &[hash, ranks] : copies)
    if (2 * most <= all || hash != *common) // no majority: list all ranks
      drifted.insert(drifted.end(), ranks.begin(), ranks.end());
  std::sort(drifted.begin(), drifted.end());
  std::string text = "'" + name + "' differs on " + ranksText(drifted);
  if (2 * most > all)
    text += " from the " + std::to_string(most) + " other copies";
  return Status::io(text);
}

Status checkReplicas(const Plan &plan, Session &session) {
  const auto &executors = session.ranksHere();
  std::vector<std::string> lines(executors.size());
  DPC_TRY(session.onAllRanks([&](size_t i) -> Status {
    lines[i] = hashesOf(plan, *executors[i]);
    return Status::success();
  }));
  std::string mine;
  for (const std::string &line : lines)
    mine += line;
  DPC_ASSIGN(std::vector<std::string> texts, session.collectTexts(mine));
  std::map<std::pair<int64_t, int64_t>, Copies> shards; // by TENSOR and FIRST
  for (const std::string &text : texts) {
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) {
      if (line.front() == '!')
        return Status::io(line.substr(2));
      std::istringstream words(line);
      int64_t tensor = 0, first = 0, rank = 0;
      std::string hash;
      words >> tensor >> first >> rank >> hash;
      shards[{tensor, first}][hash].push_back(rank);
    }
  }
  for (const auto &[key, copies] : shards)
    DPC_TRY(compare(plan.tensors[key.first].name, copies));
  return Status::success();
}

} // namespace dpc::rt
