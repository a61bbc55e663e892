#define XXH_INLINE_ALL
#include "runtime/io/SourceFiles.h"

#include "runtime/facts/DataFacts.h"
#include "runtime/plan/PlanJson.h"

#include <algorithm>
#include <map>
#include <xxhash.h>

namespace dpc::rt {

static constexpr int64_t kWholeBytes = int64_t(64) << 20;
static constexpr int64_t kBlocks = 1024;
static constexpr int64_t kBlockBytes = kWholeBytes / kBlocks;

std::string sourcePath(const std::string &planDir, const std::string &file) {
  return file.starts_with('/') ? file : planDir + "/" + file;
}

std::string sampleHash(const char *data, int64_t bytes) {
  if (bytes <= kWholeBytes)
    return hashText({data, static_cast<size_t>(bytes)});
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  unsigned char size[8];
  for (int i = 0; i < 8; ++i)
    size[i] = static_cast<unsigned char>(bytes >> (8 * i));
  XXH3_64bits_update(&state, size, sizeof size);
  const int64_t places = bytes - kBlockBytes + 1;
  for (int64_t i = 0; i < kBlocks; ++i)
    XXH3_64bits_update(&state, data + evenRow(i, kBlocks, places), kBlockBytes);
  return hashDigits(XXH3_64bits_digest(&state));
}

SourceFile describeSourceFile(const std::string &name, const MappedFile &file) {
  return {name, file.size(), sampleHash(file.data(), file.size())};
}

Expected<std::vector<SourceFile>>
findSourceFiles(const Plan &plan, const std::string &planDir,
                const std::vector<SourceFile> &known) {
  std::map<std::string, SourceFile> found;
  for (const Tensor &tensor : plan.tensors) {
    if (!tensor.source || found.count(tensor.source->file))
      continue;
    const std::string &name = tensor.source->file;
    auto entry =
        std::find_if(known.begin(), known.end(), [&](const SourceFile &other) {
          return other.file == name;
        });
    if (entry != known.end()) {
      found[name] = *entry;
      continue;
    }
    DPC_ASSIGN(MappedFile file, MappedFile::open(sourcePath(planDir, name)));
    found[name] = describeSourceFile(name, file);
  }
  std::vector<SourceFile> files;
  files.reserve(found.size());
  for (auto &[name, entry] : found)
    files.push_back(std::move(entry));
  return files;
}

/// Says how `file` differs from the one that a plan has recorded, or "".
static std::string changeOf(const SourceFile &recorded, const MappedFile &file,
                            const std::string &planDir) {
  auto differs = [&](const std::string &before, const std::string &now) {
    return concat(file.path(), ": changed since the plan '", planDir,
                  "' was compiled (", recorded.bytes, " bytes", before,
                  "; now ", file.size(), " bytes", now, ")");
  };
  if (file.size() != recorded.bytes)
    return differs("", "");
  std::string hash = sampleHash(file.data(), file.size());
  return hash == recorded.hash
             ? ""
             : differs(", hash " + recorded.hash, ", hash " + hash);
}

Status checkSourceFile(const SourceFile &recorded, const MappedFile &file,
                       const std::string &planDir) {
  std::string change = changeOf(recorded, file, planDir);
  return change.empty()
             ? Status::success()
             : Status::invalid(change, "; compile again with "
                                       "dpc-opt or restore the file");
}

std::vector<std::string> changedSources(const Plan &plan,
                                        const std::string &planDir) {
  std::vector<std::string> changes;
  for (const SourceFile &recorded : plan.sourceFiles) {
    std::string path = sourcePath(planDir, recorded.file);
    if (path.ends_with(".safetensors"))
      continue;
    Expected<MappedFile> file = MappedFile::open(path);
    if (std::string change = file ? changeOf(recorded, *file, planDir) : "";
        !change.empty())
      changes.push_back(change);
  }
  return changes;
}

} // namespace dpc::rt
