#include "runtime/checkpoint/CheckpointFolder.h"

#include "runtime/base/WriteFile.h"
#include "runtime/io/MappedFile.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

namespace dpc::rt {

namespace fs = std::filesystem;

static constexpr const char *kPrefix = "step-";
static constexpr const char *kUnfinished = ".tmp-";
static constexpr const char *kDamaged = ".damaged";
static constexpr const char *kProbe = ".probe-"; ///< a process id follows
/// A larger file is not a manifest.
static constexpr int64_t kMaxManifestBytes = int64_t(1) << 30;

static Status cannot(const std::string &path, const char *what,
                     const std::string &why) {
  return Status::io(path, ": cannot be ", what, ": ", why);
}

std::optional<int64_t> stepOf(const std::string &name) {
  std::string_view digits(name);
  if (digits.rfind(kPrefix, 0) != 0)
    return std::nullopt;
  digits.remove_prefix(std::strlen(kPrefix));
  int64_t step = 0;
  auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), step);
  bool isAll = error == std::errc() && end == digits.data() + digits.size();
  if (!isAll || step < 0 || std::to_string(step) != digits)
    return std::nullopt;
  return step;
}

std::string CheckpointFolder::checkpoint(int64_t step) const {
  return dir + "/" + kPrefix + std::to_string(step);
}

std::string CheckpointFolder::unfinished(int64_t step,
                                         const std::string &tag) const {
  return checkpoint(step) + kUnfinished + tag;
}

Status syncFolder(const std::string &path) {
  int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    return cannot(path, "opened", std::strerror(errno));
  bool isSafe = fsync(fd) == 0;
  int error = errno;
  close(fd);
  return isSafe ? Status::success()
                : cannot(path, "synced", std::strerror(error));
}

Status CheckpointFolder::prepare() const {
  DPC_TRY(makeFolder(dir));
  std::string probe = dir + "/" + kProbe + std::to_string(getpid());
  int fd = open(probe.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0)
    return cannot(dir, "written", std::strerror(errno));
  close(fd);
  unlink(probe.c_str());
  return Status::success();
}

/// Returns an empty list if `dir` does not exist.
static std::vector<std::string> namesIn(const std::string &dir) {
  std::vector<std::string> names;
  std::error_code code;
  for (fs::directory_iterator it(dir, code), end; !code && it != end;
       it.increment(code))
    names.push_back(it->path().filename().string());
  return names;
}

static Status removeAll(const std::string &path) {
  std::error_code code;
  fs::remove_all(path, code);
  return code ? cannot(path, "removed", code.message()) : Status::success();
}

Status CheckpointFolder::removeUnfinished() const {
  for (const std::string &name : namesIn(dir)) {
    size_t at = name.find(kUnfinished);
    bool isUnfinished =
        at != std::string::npos && stepOf(name.substr(0, at)).has_value();
    if (!isUnfinished && name.rfind(kProbe, 0) != 0)
      continue;
    DPC_TRY(removeAll(dir + "/" + name));
  }
  return Status::success();
}

std::vector<int64_t> CheckpointFolder::steps() const {
  std::vector<int64_t> found;
  for (const std::string &name : namesIn(dir))
    if (std::optional<int64_t> step = stepOf(name)) {
      std::error_code code;
      if (fs::is_regular_file(checkpoint(*step) + "/" + kManifestFile, code))
        found.push_back(*step);
    }
  std::sort(found.begin(), found.end());
  return found;
}

/// Says why readers ignore the folder `name`.
static std::string whyIgnored(const std::string &name) {
  if (name.find(kUnfinished) != std::string::npos)
    return "its run ended while it was written";
  return name.find(kDamaged) != std::string::npos
             ? "it could not be read"
             : concat("it has no ", kManifestFile);
}

std::vector<std::string> CheckpointFolder::skippedAfter(int64_t step) const {
  const std::vector<int64_t> complete = steps();
  std::vector<std::string> texts;
  for (const std::string &name : namesIn(dir)) {
    std::optional<int64_t> own = stepOf(name.substr(0, name.find('.')));
    const bool isComplete =
        own && stepOf(name) &&
        std::binary_search(complete.begin(), complete.end(), *own);
    if (own && *own > step && !isComplete)
      texts.push_back(dir + "/" + name + " (" + whyIgnored(name) + ")");
  }
  std::sort(texts.begin(), texts.end());
  return texts;
}

/// Renames the folder before it removes the files, so that readers never see an
/// incomplete checkpoint. removeUnfinished() completes an interrupted removal.
Status CheckpointFolder::remove(int64_t step) const {
  std::string from = checkpoint(step), to = unfinished(step, "old");
  DPC_TRY(removeAll(to));
  if (std::rename(from.c_str(), to.c_str()) != 0)
    return cannot(from, "renamed", std::strerror(errno));
  DPC_TRY(syncFolder(dir));
  return removeAll(to);
}

Status CheckpointFolder::publish(const Manifest &manifest,
                                 const std::string &tag) const {
  std::string from = unfinished(manifest.step, tag);
  std::string to = checkpoint(manifest.step);
  DPC_TRY(writeDurably(from + "/" + kManifestFile, manifestText(manifest)));
  DPC_TRY(syncFolder(from));
  // An atomic exchange leaves no moment without a complete checkpoint.
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(),
                RENAME_EXCHANGE) == 0) {
    DPC_TRY(syncFolder(dir));
    return removeAll(from);
  }
  std::error_code code;
  if (fs::exists(to, code)) // the file system cannot exchange names
    DPC_TRY(remove(manifest.step));
  if (std::rename(from.c_str(), to.c_str()) != 0)
    return cannot(to, "created", std::strerror(errno));
  return syncFolder(dir);
}

Status CheckpointFolder::setAside(int64_t step) const {
  std::string from = checkpoint(step), to = from + kDamaged;
  std::error_code code;
  for (int64_t i = 2; fs::exists(to, code); ++i)
    to = from + kDamaged + "-" + std::to_string(i);
  if (std::rename(from.c_str(), to.c_str()) != 0)
    return cannot(from, "renamed", std::strerror(errno));
  return syncFolder(dir);
}

Status CheckpointFolder::prune(int64_t keep) const {
  std::vector<int64_t> found = steps();
  for (size_t i = 0; i + keep < found.size(); ++i)
    DPC_TRY(remove(found[i]));
  return Status::success();
}

Expected<Manifest> readManifest(const std::string &path) {
  std::string file = path + "/" + kManifestFile;
  Expected<MappedFile> mapped = MappedFile::open(file);
  if (std::error_code code; !mapped && !std::filesystem::exists(path, code))
    return Status::notFound(path, ": there is no such checkpoint");
  if (!mapped)
    return Status(mapped.status().code(), mapped.status().message() + "; " +
                                              path +
                                              " is not a complete checkpoint");
  if (mapped->size() > kMaxManifestBytes)
    return Status::invalid(file, ": is not a manifest of a checkpoint");
  return parseManifest(
      std::string(mapped->data(), static_cast<size_t>(mapped->size())), file);
}

Status FolderLock::take(const std::string &dir, double seconds) {
  return lock.take(dir + "/.lock", seconds)
             ? Status::success()
             : Status::invalid(dir, ": another run writes its checkpoints "
                                    "there; choose another folder");
}

} // namespace dpc::rt
