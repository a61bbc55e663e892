#include "runtime/job/RankAgreement.h"

#include "runtime/base/OneLine.h"
#include "runtime/io/SourceFiles.h"
#include "runtime/plan/PlanJson.h"

#include <algorithm>
#include <filesystem>

namespace dpc {

using namespace rt;

/// Returns the hash of a file, or of the .safetensors files in a folder, or
/// `path` itself if it is neither ("zeros").
static Expected<std::string> contentsOf(const std::string &path) {
  namespace fs = std::filesystem;
  std::error_code code;
  std::vector<fs::path> files;
  if (fs::is_regular_file(path, code))
    files.emplace_back(path);
  else if (fs::is_directory(path, code))
    for (const fs::directory_entry &entry : fs::directory_iterator(path, code))
      if (entry.path().extension() == ".safetensors")
        files.push_back(entry.path());
  if (files.empty())
    return path;
  std::sort(files.begin(), files.end(), [](const auto &a, const auto &b) {
    return a.filename() < b.filename();
  });
  std::string hashes;
  for (const fs::path &name : files) {
    DPC_ASSIGN(MappedFile file, MappedFile::open(name.string()));
    hashes += sampleHash(file.data(), file.size());
  }
  return hashText(hashes);
}

Expected<std::vector<Setting>> commonFacts(const RunOptions &options,
                                           const InputSource &inputs,
                                           const InputSource *evalInputs) {
  std::vector<Setting> facts;
  auto add = [&](const char *name, const std::string &value) {
    facts.push_back({name, value});
  };
  auto number = [&](const char *name, auto value) { add(name, concat(value)); };
  auto isGiven = [&](const char *name, bool is) {
    add(name, is ? "given" : "not given");
  };
  DPC_ASSIGN(std::string plan, hashFile(options.plan + "/plan.json"));
  add("the hash of plan.json", plan);
  std::string evalPlan;
  if (!options.evalPlan.empty()) {
    DPC_ASSIGN(evalPlan, hashFile(options.evalPlan + "/plan.json"));
  }
  add("the hash of the evaluation plan", evalPlan);
  DPC_ASSIGN(std::string init, contentsOf(options.init));
  add("--init (or the hash of its file)", init);
  add("the hash of the inputs", inputs.contentHash());
  add("the hash of --eval-data", evalInputs ? evalInputs->contentHash() : "");
  number("--steps", options.steps);
  number("--epochs", options.epochs);
  add("--shuffle", options.shuffle ? std::to_string(*options.shuffle) : "");
  add("--last-batch", options.lastBatch);
  add("--ignored-label", options.ignoredLabel);
  isGiven("--new-data", options.newData);
  number("--eval-every", options.evalEvery);
  isGiven("--save-params", !options.saveParams.empty());
  isGiven("--export", !options.exportDir.empty());
  isGiven("--trace or --profile", !options.trace.empty() || options.profile);
  isGiven("--checkpoint", !options.checkpoint.empty());
  number("--checkpoint-every", options.checkpointEvery);
  isGiven("--checkpoint-sync", options.checkpointSync);
  isGiven("--resume", options.resume.has_value());
  isGiven("--init-partial", options.initPartial);
  add("--on-nan", options.onNan);
  isGiven("--check-numbers", options.checkNumbers);
  number("--check-replicas", options.checkReplicas);
  number("--slow-rank", options.slowRank);
  add("--device", options.device);
  isGiven("--tf32", options.tf32);
  isGiven("--no-overlap", options.noOverlap);
  return facts;
}

Status compareWithRankZero(Communicator &comm,
                           const std::vector<Setting> &facts) {
  std::string own;
  for (const Setting &fact : facts)
    own += oneLine(fact.value) + '\n';
  int64_t bytes = static_cast<int64_t>(own.size());
  DPC_TRY(comm.broadcast(kWorldGroup, &bytes, sizeof bytes, 0));
  if (bytes == 0) // rank 0 has failed and reports why
    return Status::success();
  std::string first = own;
  first.resize(bytes);
  DPC_TRY(comm.broadcast(kWorldGroup, first.data(), bytes, 0));
  size_t begin = 0;
  for (const Setting &fact : facts) {
    size_t end = std::min(first.find('\n', begin), first.size());
    std::string other = first.substr(begin, end - begin);
    begin = std::min(end + 1, first.size());
    std::string value = oneLine(fact.value);
    if (value != other)
      return Status::invalid(
          fact.name, " is ", value.empty() ? "not given" : value,
          ", but on rank 0 it is ", other.empty() ? "not given" : other,
          "; all processes need the same plan, data and options");
  }
  return Status::success();
}

} // namespace dpc
