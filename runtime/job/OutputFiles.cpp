#include "runtime/job/OutputFiles.h"

#include "runtime/base/NameList.h"
#include "runtime/base/WriteFile.h"
#include "runtime/checkpoint/CheckpointFolder.h"
#include "runtime/io/Npy.h"
#include "runtime/io/SourceFiles.h"
#include "runtime/observe/Metrics.h"
#include "runtime/plan/PlanCommand.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

namespace dpc {

using namespace rt;

namespace fs = std::filesystem;

namespace {

/// A file that the run reads, and what it is: "the data of --data".
struct ReadFile {
  std::string path, what;
  /// An array in a folder of data that no input of the plan names.
  bool isOther = false;
};

class ReadFiles {
public:
  explicit ReadFiles(const RunInputs &run);

  /// Refuses an option that would write `path`, or its temporary file, over
  /// one of the files. With `acceptsOther`, arrays may be replaced that no
  /// input names: they may be results of an earlier run.
  Status check(const std::string &option, const std::string &path,
               bool acceptsOther = false) const;
  /// Refuses --export=`folder` if the weights of the run are there.
  Status checkExport(const std::string &folder) const;
  /// Refuses --checkpoint=`folder` if it would remove one of the files.
  Status checkCheckpoints(const std::string &folder) const;

private:
  void add(const std::string &path, const std::string &what,
           bool isOther = false) {
    files.push_back({path, what, isOther});
  }
  void addPlan(const Plan &plan, const std::string &dir,
               const std::string &what);
  void addData(const Plan &plan, const std::string &path,
               const std::string &option);
  void addInit(const RunInputs &run);
  static Status refuse(const std::string &option, const std::string &path,
                       const ReadFile &read);

  std::vector<ReadFile> files;
};

} // namespace

/// Returns whether both paths lead to the same existing file, also by links.
static bool isSame(const std::string &one, const std::string &other) {
  std::error_code code;
  return fs::equivalent(one, other, code) && !code;
}

static std::vector<std::string> filesIn(const std::string &folder) {
  std::vector<std::string> found;
  std::error_code code;
  for (fs::directory_iterator it(folder, code), end; !code && it != end;
       it.increment(code))
    if (std::error_code ignored; it->is_regular_file(ignored))
      found.push_back(it->path().string());
  std::sort(found.begin(), found.end());
  return found;
}

void ReadFiles::addPlan(const Plan &plan, const std::string &dir,
                        const std::string &what) {
  add(dir + "/plan.json", what);
  add(dir + "/command.json", what);
  for (const std::string &path : filesIn(dir + "/kernels"))
    add(path, what);
  for (const SourceFile &source : plan.sourceFiles)
    add(sourcePath(dir, source.file), "the model file of " + what);
  if (Expected<PlanCommand> command = readPlanCommand(dir))
    add(command->model, "the model file of " + what);
}

void ReadFiles::addData(const Plan &plan, const std::string &path,
                        const std::string &option) {
  std::error_code code;
  if (path.empty())
    return;
  std::string what = "the data of " + option;
  if (!fs::is_directory(path, code))
    return add(path, what);
  for (const Port &input : plan.inputs)
    add(npyFile(path, input), what);
  for (const std::string &file : filesIn(path))
    if (fs::path(file).extension() == ".npy")
      add(file, what, /*isOther=*/true);
}

void ReadFiles::addInit(const RunInputs &run) {
  if (!run.init.file)
    return;
  for (const auto &[path, file] : run.init.file->files())
    add(path, "a file of --init");
  for (const char *index : {"", "/model.safetensors.index.json"})
    add(run.options.init + index, "a file of --init");
}

ReadFiles::ReadFiles(const RunInputs &run) {
  const RunOptions &options = run.options;
  addPlan(run.plan, options.plan, "the plan");
  if (run.evalPlan)
    addPlan(*run.evalPlan, options.evalPlan, "the plan of --eval-plan");
  for (const auto &[option, path] : {std::pair("--data", options.data),
                                     {"--batches", options.batches},
                                     {"--inputs", options.inputs}})
    addData(run.plan, path, option);
  if (run.evalPlan)
    addData(*run.evalPlan, options.evalData, "--eval-data");
  addInit(run);
  if (options.resume && !options.resume->empty())
    for (const std::string &path : filesIn(*options.resume))
      add(path, "the checkpoint of --resume");
  if (!options.ranksFile.empty())
    add(options.ranksFile, "the file of --ranks-file");
}

Status ReadFiles::refuse(const std::string &option, const std::string &path,
                         const ReadFile &read) {
  return Status::invalid(option, ": ", oneLine(path), " is ", read.what,
                         ", which the run must not overwrite; choose another "
                         "path");
}

Status ReadFiles::check(const std::string &option, const std::string &path,
                        bool acceptsOther) const {
  if (path.empty())
    return Status::success();
  for (const ReadFile &read : files)
    for (const std::string &written : {path, path + ".new"})
      if (!(acceptsOther && read.isOther) && isSame(written, read.path))
        return refuse(option, written, read);
  return Status::success();
}

/// Returns whether --export may write or remove a file of this name.
static bool isExported(const fs::path &name) {
  return name.string().starts_with("model") &&
         (name.extension() == ".safetensors" ||
          name.string().ends_with(".safetensors.index.json"));
}

Status ReadFiles::checkExport(const std::string &folder) const {
  for (const ReadFile &read : files)
    if (isExported(fs::path(read.path).filename()))
      DPC_TRY(check("--export",
                    folder + "/" + fs::path(read.path).filename().string()));
  return Status::success();
}

Status ReadFiles::checkCheckpoints(const std::string &folder) const {
  for (const ReadFile &read : files) {
    fs::path parent = fs::absolute(read.path).lexically_normal().parent_path();
    if (stepOf(parent.filename().string()) &&
        read.what != "the checkpoint of --resume" &&
        isSame(parent.parent_path().string(), folder))
      return refuse("--checkpoint", parent.string(), read);
  }
  return Status::success();
}

namespace {

struct WrittenFile {
  std::string option, path;
  std::string begin; ///< of every file of this kind, after `skipped` bytes
  size_t skipped = 0;
};

} // namespace

/// Returns the files that options name.
static std::vector<WrittenFile> writtenFiles(const RunOptions &options) {
  std::vector<WrittenFile> written;
  for (const std::string &word : options.metrics)
    if (MetricsPlace place(word); !place.isFolder)
      written.push_back(
          {"--metrics", place.path,
           place.kind == "prometheus" ? "# HELP dpc_" : "{\"step\":"});
  if (!options.saveParams.empty())
    written.push_back({"--save-params", options.saveParams, "{",
                       /*skipped=*/sizeof(uint64_t)});
  if (!options.trace.empty())
    written.push_back({"--trace", options.trace, "{"});
  return written;
}

/// Refuses to replace a file that is no result of an earlier run.
static Status checkReplaced(const WrittenFile &written) {
  std::error_code code;
  if (!fs::is_regular_file(written.path, code) ||
      fs::file_size(written.path, code) == 0)
    return Status::success();
  std::ifstream file(written.path, std::ios::binary);
  std::string begin(written.skipped + written.begin.size(), '\0');
  file.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  return begin.substr(written.skipped) == written.begin
             ? Status::success()
             : Status::invalid(written.option, ": ", oneLine(written.path),
                               " is no file of an earlier ", written.option,
                               ", and the run would replace it; choose another "
                               "path, or remove the file");
}

/// Refuses two options that would write one file.
static Status checkDifferent(const RunOptions &options) {
  std::map<std::string, std::string> optionOf;
  for (const auto &[option, path, begin, skipped] : writtenFiles(options)) {
    std::error_code code;
    if (fs::exists(path, code) && !fs::is_regular_file(path, code))
      continue; // "/dev/null"
    fs::path full = fs::weakly_canonical(path, code);
    auto [entry, isNew] = optionOf.emplace(code ? path : full.string(), option);
    if (!isNew)
      return Status::invalid(option, ": ", oneLine(path),
                             " is also the file "
                             "of ",
                             entry->second, "; choose another path");
  }
  return Status::success();
}

static Status checkOverwrites(const RunInputs &run) {
  const RunOptions &options = run.options;
  ReadFiles files(run);
  for (const WrittenFile &written : writtenFiles(options)) {
    DPC_TRY(files.check(written.option, written.path));
    DPC_TRY(checkReplaced(written));
  }
  if (!options.outputs.empty())
    for (const Port &output : run.plan.outputs)
      DPC_TRY(files.check("--outputs", npyFile(options.outputs, output),
                          /*acceptsOther=*/true));
  if (!options.exportDir.empty())
    DPC_TRY(files.checkExport(options.exportDir));
  return options.checkpoint.empty()
             ? Status::success()
             : files.checkCheckpoints(options.checkpoint);
}

/// Creates `folder` and checks that the file `name` can be written there.
static Status checkFolder(const std::string &folder, const char *name) {
  if (folder.empty())
    return Status::success();
  DPC_TRY(makeFolder(folder));
  return checkWritable(folder + "/" + name);
}

/// Refuses files that are written as PATH.new and renamed over devices, pipes
/// and the like.
static Status checkRegular(const std::string &option, const std::string &path) {
  std::error_code code;
  fs::file_status status = fs::status(path, code);
  if (path.empty() || !fs::exists(status) || fs::is_regular_file(status) ||
      fs::is_directory(status)) // checkWritable() names it
    return Status::success();
  return Status::invalid(option, ": ", oneLine(path),
                         " is not a regular file, which the run would "
                         "replace; name a file");
}

/// Refuses a name that other programs would read as another format.
static Status checkWeightsName(const std::string &path) {
  const std::string extension = fs::path(path).extension().string();
  for (const char *other : {".pt", ".pth", ".bin", ".npz", ".npy", ".onnx"})
    if (extension == other)
      return Status::invalid("--save-params: ", oneLine(path), ": '", extension,
                             "' is another format; expected a name that ends "
                             "with .safetensors");
  return Status::success();
}

Status checkOutputs(const RunInputs &run) {
  const RunOptions &options = run.options;
  DPC_TRY(checkDifferent(options));
  DPC_TRY(checkOverwrites(run));
  DPC_TRY(checkWeightsName(options.saveParams));
  for (const std::string &word : options.metrics) {
    MetricsPlace place(word);
    if (place.kind == "prometheus")
      DPC_TRY(checkRegular("--metrics", place.path));
    DPC_TRY((place.isFolder ? checkFolder(place.path, "events")
                            : checkWritable(place.path))
                .in("--metrics"));
  }
  // These files are first written as PATH.new.
  std::string profile = options.profile ? options.plan + "/profile.json" : "";
  for (const auto &[option, path] :
       {std::pair("--save-params", options.saveParams),
        {"--trace", options.trace},
        {"--profile", profile}}) {
    DPC_TRY(checkRegular(option, path));
    DPC_TRY(checkWritable(path).in(option));
    if (!path.empty())
      DPC_TRY(checkWritable(path + ".new").in(option));
  }
  DPC_TRY(checkFolder(options.outputs, "loss.npy.new").in("--outputs"));
  return checkFolder(options.exportDir, "model.safetensors.new").in("--export");
}

std::string otherArrays(const RunOptions &options, const Plan &plan) {
  if (options.outputs.empty())
    return "";
  std::set<std::string> own;
  for (const std::vector<Port> &ports : {plan.inputs, plan.outputs})
    for (const Port &port : ports)
      own.insert(fs::path(npyFile(options.outputs, port)).filename().string());
  std::vector<std::string> names;
  for (const std::string &path : filesIn(options.outputs)) {
    fs::path name = fs::path(path).filename();
    if (name.extension() != ".npy" || own.count(name.string()))
      continue;
    names.push_back(name.string());
  }
  size_t count = names.size();
  return count == 0 ? ""
                    : concat("--outputs: ", oneLine(options.outputs), " has ",
                             count, count == 1 ? " array" : " arrays",
                             " that this run does not write: ", listed(names));
}

} // namespace dpc
