#include "runtime/job/Checkpoints.h"

#include "runtime/base/NameList.h"
#include "runtime/base/OneLine.h"
#include "runtime/checkpoint/CheckpointReader.h"
#include "runtime/job/StopSignal.h"
#include "runtime/plan/PlanJson.h"
#include "runtime/plan/RunSettings.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <unistd.h>

namespace dpc {

using namespace rt;

static std::string makeTag() {
  auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::to_string(now.count()) + "-" + std::to_string(getpid());
}

/// Refuses a folder with newer checkpoints of a different run: prune() would
/// keep them and remove the checkpoints of this run.
Status Checkpoints::checkNewest(const CheckpointFolder &folder) const {
  std::vector<int64_t> steps = folder.steps();
  if (steps.empty() || (options.resume && options.resume->empty()))
    return Status::success();
  int64_t begin = -1;
  if (options.resume) {
    Expected<Manifest> manifest = readManifest(*options.resume);
    if (!manifest)
      // begin() reports the error
      return Status::success();
    begin = manifest->step;
  }
  if (steps.back() <= begin)
    return Status::success();
  return Status::invalid(
      folder.checkpoint(steps.back()),
      " belongs to another run; resume from it with --resume, "
      "remove it, or choose another folder");
}

/// Says which folders are newer than the newest checkpoint of `folder`, but no
/// complete checkpoints, or returns "".
static std::string textOnSkipped(const CheckpointFolder &folder) {
  const std::vector<int64_t> steps = folder.steps();
  const std::vector<std::string> skipped =
      folder.skippedAfter(steps.empty() ? -1 : steps.back());
  return skipped.empty()
             ? ""
             : concat(listed(skipped), skipped.size() == 1 ? " is" : " are",
                      " no complete checkpoint");
}

/// Runs in the process of rank 0, before any writes. Returns the run's tag.
Expected<std::string> Checkpoints::prepare() {
  // After a restart, a rank of the previous start may still have the lock.
  constexpr double kPatience = 5;
  CheckpointFolder folder(options.checkpoint);
  Status status = folder.prepare();
  if (status.ok())
    status = lock.take(options.checkpoint, kPatience);
  if (status.ok() && options.resume && options.resume->empty())
    skipped = textOnSkipped(folder);
  if (status.ok())
    status = folder.removeUnfinished();
  if (status.ok())
    status = checkNewest(folder);
  if (!status.ok())
    return status.in("--checkpoint");
  return makeTag();
}

Expected<std::string> Checkpoints::chooseFolder() const {
  if (!options.resume)
    return std::string();
  if (!options.resume->empty())
    return *options.resume;
  CheckpointFolder folder(options.checkpoint);
  std::vector<int64_t> steps = folder.steps();
  return steps.empty() ? std::string() : folder.checkpoint(steps.back());
}

/// Returns the end of a message about a checkpoint that cannot be read, which
/// suggests another checkpoint if there is one.
std::string Checkpoints::otherChoice() const {
  namespace fs = std::filesystem;
  CheckpointFolder inside(path);
  if (std::vector<int64_t> steps = inside.steps(); !steps.empty())
    return "; --resume=" + inside.checkpoint(steps.back()) +
           " is the newest checkpoint in this folder";
  fs::path full = fs::path(path).lexically_normal();
  if (!full.has_filename()) // "ck/step-3/"
    full = full.parent_path();
  std::optional<int64_t> own = stepOf(full.filename().string());
  CheckpointFolder beside(full.has_parent_path() ? full.parent_path().string()
                                                 : ".");
  std::vector<int64_t> steps = beside.steps();
  while (own && !steps.empty() && steps.back() >= *own)
    steps.pop_back();
  if (own && steps.empty() && !beside.steps().empty() &&
      beside.steps().back() > *own)
    return "; --resume=" + beside.checkpoint(beside.steps().back()) +
           " resumes from a later one";
  if (!own || steps.empty())
    return "";
  std::string before = beside.checkpoint(steps.back());
  std::error_code code;
  // A run resumes only from the newest checkpoint of its folder.
  return !options.checkpoint.empty() &&
                 fs::equivalent(options.checkpoint, beside.path(), code)
             ? "; remove it to resume from " + before
             : "; --resume=" + before +
                   " resumes from the checkpoint before it";
}

/// Warns of tensors of a checkpoint that the plan does not have: the plan may
/// be of another model, for example one that ties two weights.
static void warnOfUnread(const std::vector<std::string> &names,
                         const std::string &path) {
  if (names.empty())
    return;
  std::fprintf(stderr,
               "dpc-run: warning: --resume: %s has %zu tensor%s that the plan "
               "does not read: %s\n",
               path.c_str(), names.size(), names.size() == 1 ? "" : "s",
               listed(quoted(names)).c_str());
}

/// Refuses weights that the plan does not have: it is probably of another
/// model.
static Status refuseUnreadWeights(const std::vector<std::string> &names,
                                  const std::string &path) {
  return names.empty()
             ? Status::success()
             : Status::invalid(
                   path, ": has ", names.size(), " weight",
                   names.size() == 1 ? "" : "s",
                   " that the plan does not read: ", listed(quoted(names)),
                   "; a plan of the same model is accepted, or "
                   "--init-partial");
}

Expected<int64_t> Checkpoints::begin() {
  if (!options.checkpoint.empty()) {
    DPC_ASSIGN(std::string tag,
               session.fromRankZero([&] { return prepare(); }));
    CheckpointOptions own;
    own.folder = CheckpointFolder(options.checkpoint);
    own.tag = tag;
    own.keep = options.checkpointKeep;
    own.isBackground = !options.checkpointSync;
    own.timeoutSeconds = options.timeoutSeconds;
    own.profile = profile;
    writer = std::make_unique<CheckpointWriter>(plan, session, own);
  }
  DPC_ASSIGN(path, session.fromRankZero([&] { return chooseFolder(); }));
  if (path.empty())
    return int64_t(-1);
  Expected<int64_t> done = read();
  // No process may start a step that a process with an error does not run.
  DPC_ASSIGN(bool hasFailed, session.anywhere(!done));
  return done && hasFailed ? Expected<int64_t>(Status::cancelled()) : done;
}

/// Opens the checkpoint `path` in every process. A folder of one name on
/// several machines may have other contents on each.
Expected<std::unique_ptr<CheckpointReader>> Checkpoints::open() {
  auto reader = CheckpointReader::open(path);
  std::string own = reader ? hashText(manifestText((*reader)->manifest())) : "";
  DPC_ASSIGN(std::string first,
             session.fromRankZero([&] { return Expected<std::string>(own); }));
  if (reader && !first.empty() && own != first)
    return Status::invalid(path, ": is not the checkpoint that rank 0 reads "
                                 "from the folder of this name; all machines "
                                 "must share the folder");
  return reader;
}

/// Reads the checkpoint `path`, and returns the number of completed steps.
Expected<int64_t> Checkpoints::read() {
  auto reader = open();
  if (reader && options.onNan == "stop")
    (*reader)->refuseNan();
  Status status = reader ? session.initialize(**reader) : reader.status();
  bool isDamaged = !status.ok() && status.code() != StatusCode::Cancelled &&
                   (!reader || (*reader)->check(plan).ok());
  if (isDamaged)
    status = Status(status.code(), status.message() + otherChoice());
  if (status.ok() && !options.initPartial)
    status = refuseUnreadWeights((*reader)->unread(plan, /*weightsOnly=*/true),
                                 path);
  if (status.ok() && session.holdsRankZero())
    warnOfUnread((*reader)->unread(plan), path);
  if (status.ok())
    trained = (*reader)->manifest().profile;
  if (status.ok() && !plan.trains) // inference needs only the tensors
    return int64_t(0);
  if (status.ok())
    status = resumeData((*reader)->manifest());
  if (!status.ok())
    return status.in("--resume");
  if (session.holdsRankZero())
    warnOfChanges((*reader)->manifest());
  return (*reader)->manifest().step;
}

void Checkpoints::warnOfChanges(const Manifest &manifest) const {
  int64_t batch = globalBatchOf(plan), before = manifest.globalBatch;
  std::string changes =
      differencesFrom(manifest.settings, plan.settings, batch == before);
  if (batch != before)
    changes += concat(changes.empty() ? "" : ", ", "global_batch ", batch,
                      " instead of ", before);
  if (!changes.empty())
    std::fprintf(stderr,
                 "dpc-run: warning: --resume: the plan differs from the one "
                 "that wrote %s: %s\n",
                 path.c_str(), changes.c_str());
  std::string last = inputs.positionAfter(manifest.step).lastBatch;
  const std::string &lastBefore = manifest.data.lastBatch;
  if (!last.empty() && !lastBefore.empty() && last != lastBefore)
    std::fprintf(stderr,
                 "dpc-run: warning: --resume: --last-batch=%s instead of %s\n",
                 last.c_str(), lastBefore.c_str());
}

Status Checkpoints::restore() {
  auto reader = CheckpointReader::open(path);
  Status status = reader ? session.initialize(**reader) : reader.status();
  return status.ok() ? status : status.in("--resume");
}

/// Moves the data to the position of the checkpoint. Data that consists of
/// samples continues with the next sample. Data that consists of steps
/// continues with the next step, and a step must have the same number of
/// samples as before.
Status Checkpoints::resumeData(const Manifest &manifest) {
  int64_t batch = globalBatchOf(plan), before = manifest.globalBatch;
  bool hasSamples = inputs.positionAfter(0).samples > 0;
  if (!hasSamples && batch != before)
    return Status::invalid("the plan of the checkpoint has ", before,
                           " samples a step, but this plan has ", batch,
                           "; plan with --global-batch=", before,
                           ", or give the data as "
                           "samples (--data)");
  const DataPosition &data = manifest.data;
  if (options.newData)
    return inputs.resumeAt(manifest.step + 1, DataPosition());
  if (!hasSamples && data.samples > 0)
    return Status::invalid("the run of the checkpoint read its data from ",
                           data.samples,
                           " samples (--data); give --data again to continue "
                           "with the next sample, or --new-data "
                           "to start with the first sample");
  bool hadSteps = data.samples == 0 && !data.hash.empty();
  if (hadSteps && hasSamples)
    return Status::invalid("the run of the checkpoint read its data from steps "
                           "(--batches); give --batches again to continue with "
                           "the next step, or --new-data to start with the "
                           "first sample");
  std::string hash = hadSteps ? inputs.contentHash() : "";
  if (!hash.empty() && hash != data.hash)
    return Status::invalid("the run of the checkpoint read other --batches; "
                           "--new-data continues with these");
  return inputs.resumeAt(manifest.step + 1, data);
}

Status Checkpoints::afterStep(int64_t step, bool isLast) {
  if (!writer)
    return Status::success();
  int64_t every = options.checkpointEvery;
  if (isLast || (every > 0 && step % every == 0))
    DPC_TRY(writer->save(step, inputs.positionAfter(step)));
  return isLast ? writer->finish() : Status::success();
}

Status Checkpoints::finish() {
  return writer ? writer->finish() : Status::success();
}

Expected<int> Checkpoints::stoppedBy(bool canGoOn) {
  int own = stopSignal();
  bool hasFailed = writer && writer->hasFailed();
  Expected<bool> any = session.anywhere(own != 0 || hasFailed || !canGoOn);
  if (!any || !*any)
    return any ? Expected<int>(0) : any.status();
  if (writer)
    DPC_TRY(writer->agree());
  DPC_ASSIGN(bool mustEnd, session.anywhere(!canGoOn));
  if (mustEnd)
    return kCannotGoOn;
  Expected<bool> came = session.anywhere(own != 0);
  if (!came || !*came)
    return came ? Expected<int>(0) : came.status();
  for (int signal : {SIGTERM, SIGINT}) {
    Expected<bool> came = session.anywhere(own == signal);
    if (!came || *came)
      return came ? Expected<int>(signal) : came.status();
  }
  return SIGUSR1;
}

} // namespace dpc
