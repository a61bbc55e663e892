//===- OutputFolder.cpp - A folder that appears when complete -------------===//
#include "tools/driver/OutputFolder.h"

#include "runtime/plan/PlanJson.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <map>
#include <unistd.h>

namespace fs = std::filesystem;

namespace dpc {

/// Files that dpc writes into a plan folder. A folder comes after its files.
static constexpr const char *kWritten[] = {
    "plan.json", rt::kPreviousPlan, "command.json", "report.json",
    "report.html", "program.mlir", "trace.json", "annotated.onnx",
    "constants.bin", "kernels/kernels.so",
    // profile.json is from dpc-run --profile
    "profile.json", "kernels/kernels.ptx", "kernels",
    // Exports.
    "accelerate.yaml", "calculon-application.json", "calculon-execution.json",
    "colossalai.json", "ds_config.json", "galvatron.json", "megatron.sh",
    "maxtext.yml", "opensora.py", "torchtitan.py", "torchtitan.toml"};

/// Returns the files that exports/index.json lists, then the index and its
/// folder. Returns nothing without an index from dpc-opt.
static std::vector<fs::path> exportsIn(const fs::path &folder) {
  std::ifstream in(folder / kExportIndex);
  auto json = nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || json.value("generator", "") != "dpc-opt" ||
      !json.contains("files") || !json["files"].is_array())
    return {};
  std::vector<fs::path> paths;
  for (const nlohmann::json &name : json["files"])
    if (name.is_string())
      paths.push_back(fs::path(kExports) / name.get<std::string>());
  paths.emplace_back(kExportIndex);
  paths.emplace_back(kExports);
  return paths;
}

/// Lists all files that dpc may have written, each folder after its files.
static std::vector<fs::path> writtenIn(const fs::path &folder) {
  std::vector<fs::path> paths = exportsIn(folder);
  paths.insert(paths.end(), std::begin(kWritten), std::end(kWritten));
  return paths;
}

static fs::path besides(const fs::path &target, const char *what) {
  std::error_code ignored;
  for (int attempt = 0;; ++attempt) {
    fs::path result = target;
    result += std::string(".") + what + "." + std::to_string(getpid());
    if (attempt > 0)
      result += "." + std::to_string(attempt);
    if (!fs::exists(fs::symlink_status(result, ignored)))
      return result;
  }
}

static fs::path placeOf(fs::path target) {
  if (!target.has_filename())
    target = target.parent_path();
  std::error_code code;
  if (fs::is_symlink(target, code))
    if (fs::path real = fs::canonical(target, code); !code)
      return real;
  return target;
}

static bool isReportPage(const fs::path &file) {
  std::ifstream in(file);
  std::string head(200, ' ');
  in.read(head.data(), static_cast<std::streamsize>(head.size()));
  return head.find("name=\"generator\" content=\"dpc-opt\"") !=
         std::string::npos;
}

/// Checks fields, because other programs may use the same file name.
static bool hasFields(const fs::path &file,
                      const std::vector<const char *> &fields) {
  std::ifstream in(file);
  auto json = nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false);
  return json.is_object() &&
         std::ranges::all_of(
             fields, [&](const char *field) { return json.contains(field); });
}

static const std::map<std::string, std::vector<const char *>> kFields = {
    {"plan.json", {"version", "checksum"}},
    {rt::kPreviousPlan, {"version", "checksum"}},
    {"command.json", {"version", "model", "words"}},
    {"report.json", {"candidates", "baselines"}},
    {"trace.json", {"traceEvents"}},
    {"profile.json", {"steps", "queues", "rows"}}};

static std::string foreignEntry(const fs::path &folder, std::error_code &code) {
  const std::vector<fs::path> written = writtenIn(folder);
  fs::recursive_directory_iterator entries(folder, code), end;
  while (!code && entries != end) {
    fs::path name = entries->path().lexically_relative(folder);
    std::error_code ignored;
    bool isFolder = fs::is_directory(entries->symlink_status(ignored));
    bool isOurs = std::ranges::find(written, name) != written.end() &&
                  isFolder == (name == "kernels" || name == kExports);
    for (const auto &[file, fields] : kFields)
      if (name == file)
        isOurs &= hasFields(entries->path(), fields);
    if (name == "report.html")
      isOurs &= isReportPage(entries->path());
    if (!isOurs)
      return name.string();
    entries.increment(code);
  }
  return "";
}

std::string OutputFolder::refusal(const fs::path &wanted, bool writesPlan) {
  fs::path target = placeOf(wanted);
  std::string shown = target.string();
  std::error_code code;
  fs::file_status status = fs::status(target, code);
  if (status.type() == fs::file_type::not_found)
    return "";
  if (status.type() == fs::file_type::none)
    return shown + ": cannot be read: " + code.message();
  const char *hint = "; name another folder with -o";
  if (!fs::is_directory(status))
    return shown + ": exists and is not a plan folder" + hint;
  std::error_code listing;
  std::string foreign = foreignEntry(target, listing);
  if (listing)
    return shown + ": cannot be read: " + listing.message();
  if (!foreign.empty())
    return shown + ": is not a plan folder: dpc-opt did not write '" + foreign +
           "' in it" + hint;
  for (const char *name : {"plan.json", rt::kPreviousPlan})
    if (!writesPlan && fs::exists(target / name, code))
      return shown + ": holds a plan, which a report does not replace" + hint;
  return "";
}

std::string OutputFolder::setPlanAside(const fs::path &wanted,
                                       std::string &error) {
  fs::path target = placeOf(wanted), plan = target / "plan.json";
  if (!hasFields(plan, kFields.at("plan.json")))
    return "";
  fs::path previous = target / rt::kPreviousPlan;
  std::error_code code;
  if (fs::exists(fs::symlink_status(previous, code)) &&
      !hasFields(previous, kFields.at(rt::kPreviousPlan))) {
    error = previous.string() +
            ": is no plan of dpc-opt, and would be replaced; rename it";
    return "";
  }
  fs::rename(plan, previous, code);
  if (code)
    error = plan.string() + ": cannot be renamed: " + code.message();
  return code ? "" : previous.string();
}

std::string OutputFolder::noteOf(const std::string &previous) {
  return previous.empty() ? ""
                          : "the plan of an earlier compile is now " + previous;
}

OutputFolder::OutputFolder(const fs::path &wanted, bool writesPlan,
                           std::string &error)
    : target(placeOf(wanted)), writesPlan(writesPlan) {
  error = refusal(wanted, writesPlan);
  if (!error.empty())
    return;
  std::error_code code;
  fs::create_directories(target.has_parent_path() ? target.parent_path() : ".",
                         code);
  temporary = besides(target, "writing");
  fs::create_directory(temporary, code);
  if (code) {
    error = temporary.string() + ": cannot be written: " + code.message();
    temporary.clear();
  }
}

OutputFolder::~OutputFolder() {
  std::error_code code;
  if (!temporary.empty())
    fs::remove_all(temporary, code);
}

std::string OutputFolder::commit() {
  // Checked again, because the folder may have changed.
  if (std::string why = refusal(target, writesPlan); !why.empty())
    return why;
  std::error_code code;
  fs::path old = besides(target, "old");
  bool replaces = fs::exists(target, code);
  if (replaces)
    fs::rename(target, old, code);
  if (!code)
    fs::rename(temporary, target, code);
  if (code) {
    std::error_code ignored;
    if (replaces && !fs::exists(target, ignored))
      fs::rename(old, target, ignored);
    return target.string() + ": cannot be put in place: " + code.message();
  }
  temporary.clear();
  if (!replaces)
    return "";
  for (const fs::path &name : writtenIn(old))
    fs::remove(old / name, code);
  fs::remove(old, code);
  return "";
}

std::string writeText(const fs::path &path, const std::string &text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  return file ? "" : path.string() + ": cannot be written";
}

} // namespace dpc
