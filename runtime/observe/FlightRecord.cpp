#include "runtime/observe/FlightRecord.h"

#include "runtime/base/OneLine.h"
#include "runtime/plan/Ledger.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace dpc::rt {

/// A line has kLine bytes, including the line end. It has a kind at 0, a time
/// at kTimeAt, and a text at kTextAt.
static constexpr int kLine = 256, kTimeAt = 6, kTextAt = 24;
static constexpr int kLines = 1 + kNumQueues;

static constexpr std::chrono::milliseconds kPulse(50);
/// If the last pulses of two ranks are further apart, the ranks did not end
/// together. (If one rank dies, mpirun ends the other ranks after one second.)
static constexpr int64_t kApart = 500'000; // microseconds
/// The supervisor of a hanging job wakes stopped ranks before it ends them. A
/// rank that was stopped for kStopped microseconds therefore waits kHeld
/// microseconds before it resumes its pulse, so that it is still reported as
/// lost. A rank that only waited for a processor resumes its pulse at once.
static constexpr int64_t kStopped = 1'000'000, kHeld = 10'000'000;

static std::atomic<unsigned> timesContinued{0};
static_assert(std::atomic<unsigned>::is_always_lock_free);

/// Starts to count SIGCONT, unless the program has its own handler.
static void countContinues() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction before = {}, own = {};
    own.sa_handler = [](int) { ++timesContinued; };
    own.sa_flags = SA_RESTART;
    if (sigaction(SIGCONT, nullptr, &before) == 0 &&
        before.sa_handler == SIG_DFL)
      sigaction(SIGCONT, &own, nullptr);
  });
}

static void maskContinues(int how) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCONT);
  pthread_sigmask(how, &set, nullptr);
}

static int64_t microseconds() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

static void writeTime(char *line) {
  std::to_chars(line + kTimeAt, line + kTextAt - 1, microseconds());
}

static std::string_view kindOf(const char *line) {
  return std::string_view(line, kTimeAt - 1);
}

static void setKind(char *line, const char (&kind)[kTimeAt]) {
  std::memcpy(line, kind, kTimeAt - 1);
}

Expected<std::unique_ptr<FlightRecord>>
FlightRecord::open(const std::string &folder, const Plan &plan, int rank) {
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  std::unique_ptr<FlightRecord> self(
      new FlightRecord(folder + "/rank-" + std::to_string(rank)));
  // A rank of the previous start may still write to the old file.
  unlink(self->path.c_str());
  int file =
      ::open(self->path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0)
    return Status::io("--flight-record: ", self->path, ": ",
                      std::strerror(errno));
  // Allocates now: on a full disk, writing to the mapping would end the rank.
  int error = posix_fallocate(file, 0, kLines * kLine);
  void *mapped = error ? MAP_FAILED
                       : mmap(nullptr, kLines * kLine, PROT_READ | PROT_WRITE,
                              MAP_SHARED, file, 0);
  if (!error && mapped == MAP_FAILED)
    error = errno;
  struct stat made = {};
  fstat(file, &made);
  self->inode = made.st_ino;
  close(file);
  if (error) {
    unlink(self->path.c_str());
    return Status::io("--flight-record: ", self->path, ": ",
                      std::strerror(error));
  }
  self->bytes = static_cast<char *>(mapped);
  std::memset(self->bytes, ' ', kLines * kLine);
  for (int i = 0; i < kLines; ++i) {
    self->line(i)[kLine - 1] = '\n';
    setKind(self->line(i), i == 0 ? "pulse" : "fresh");
    writeTime(self->line(i));
  }
  self->describe(plan, rank);
  countContinues();
  // Only the pulse thread handles SIGCONT. This thread and those that it starts
  // later block the signal: a kernel of a library may use the stack pointer as
  // a general register, and the frame of a signal handler would overwrite data.
  maskContinues(SIG_UNBLOCK);
  self->pulses = std::thread([raw = self.get()] { raw->pulse(); });
  maskContinues(SIG_BLOCK);
  return self;
}

FlightRecord::~FlightRecord() {
  if (!bytes)
    return;
  {
    std::lock_guard lock(mutex);
    stopping = true;
  }
  stops.notify_all();
  if (pulses.joinable())
    pulses.join();
  munmap(bytes, kLines * kLine);
  struct stat there = {};
  if (lstat(path.c_str(), &there) == 0 && there.st_ino == inode)
    unlink(path.c_str());
}

char *FlightRecord::line(int index) const { return bytes + index * kLine; }

void FlightRecord::pulse() {
  std::unique_lock lock(mutex);
  int64_t last = microseconds(), heldUntil = 0;
  unsigned seen = timesContinued;
  bool wasLate = false;
  while (!stops.wait_for(lock, kPulse, [&] { return stopping; })) {
    int64_t now = microseconds();
    bool isLate = now - last > kStopped;
    // SIGCONT may arrive after this check, so the next pulse checks again.
    if ((isLate || wasLate) && timesContinued != seen)
      heldUntil = now + kHeld;
    if (!isLate)
      seen = timesContinued;
    wasLate = isLate;
    last = now;
    if (now >= heldUntil && !isLate)
      writeTime(line(0));
  }
}

/// A rank that was stopped fails with a timeout when it is woken. Other ranks
/// waited for it, so it must still count as lost.
void FlightRecord::fail() {
  int64_t last = 0;
  std::from_chars(line(0) + kTimeAt, line(0) + kTextAt, last);
  if (microseconds() - last < kStopped)
    setKind(line(0), "error");
}

/// Composes all texts in advance, because composing a text is slow.
void FlightRecord::describe(const Plan &plan, int rank) {
  for (const Instruction *instruction : instructionsOf(plan)) {
    std::string meets = meetingText(plan, instruction->op, rank);
    Text &text = texts[instruction];
    text.waits = !meets.empty();
    text.text = instruction->name.empty() ? std::string(opName(instruction->op))
                                          : oneLine(instruction->name);
    // A long name must leave room for `meets`.
    text.text.resize(std::min<size_t>(text.text.size(), kLine / 2));
    if (text.waits)
      text.text += " (" + meets + ")";
  }
}

/// Writes "step N" and as much of `rest` as fits.
static void writeText(char *line, int64_t step,
                      std::initializer_list<std::string_view> rest) {
  char *end = line + kLine - 1;
  char *next = line + kTextAt;
  auto add = [&](std::string_view text) {
    size_t size = std::min<size_t>(text.size(), end - next);
    std::memcpy(next, text.data(), size);
    next += size;
  };
  add("step ");
  next = std::to_chars(next, end, step).ptr;
  for (std::string_view text : rest)
    add(text);
  std::memset(next, ' ', end - next);
}

void FlightRecord::beginStep(int64_t step) { writeText(line(0), step, {}); }

void FlightRecord::begin(const Instruction &instruction, int64_t step,
                         std::string_view place) {
  const Text &text = texts.at(&instruction);
  char *own = line(1 + static_cast<int>(instruction.queue));
  writeText(own, step, {", ", place, text.text});
  writeTime(own);
  if (text.waits)
    setKind(own, "waits");
  else
    setKind(own, "runs ");
}

void FlightRecord::end(const Instruction &instruction) {
  char *own = line(1 + static_cast<int>(instruction.queue));
  writeTime(own);
  setKind(own, "ended");
}

namespace {

struct Line {
  std::string kind, text;
  int64_t time = 0;
};

struct Record {
  int rank = 0;
  Line pulse;
  std::vector<Line> queues;

  bool has(const char *kind) const {
    return std::any_of(queues.begin(), queues.end(),
                       [&](const Line &line) { return line.kind == kind; });
  }
};

} // namespace

static Line readLine(const char *bytes) {
  Line line;
  line.kind = kindOf(bytes);
  std::from_chars(bytes + kTimeAt, bytes + kTextAt, line.time);
  std::string text(bytes + kTextAt, kLine - 1 - kTextAt);
  line.text = oneLine(text.substr(0, text.find_last_not_of(' ') + 1));
  return line;
}

template <typename Visit>
static void eachRecord(const std::string &folder, Visit &&visit) {
  constexpr std::string_view kStem = "rank-";
  std::error_code code;
  std::vector<std::filesystem::path> paths;
  for (std::filesystem::directory_iterator it(folder, code), end;
       !code && it != end; it.increment(code))
    paths.push_back(it->path());
  for (const std::filesystem::path &path : paths) {
    std::string name = path.filename();
    int rank = 0;
    if (name.rfind(kStem, 0) != 0)
      continue;
    const char *last = name.data() + name.size();
    auto [end, error] = std::from_chars(name.data() + kStem.size(), last, rank);
    if (error == std::errc() && end == last)
      visit(rank, path);
  }
}

static std::optional<Record> readRecord(int rank,
                                        const std::filesystem::path &path) {
  Record record;
  record.rank = rank;
  char bytes[kLines * kLine];
  std::ifstream file(path, std::ios::binary);
  if (!file.read(bytes, sizeof bytes))
    return std::nullopt;
  record.pulse = readLine(bytes);
  for (int i = 1; i < kLines; ++i)
    record.queues.push_back(readLine(bytes + i * kLine));
  return record;
}

/// Lists the instructions of all queues, or the last one if all are idle.
static std::string textOf(const Record &record) {
  std::string text;
  const Line *last = nullptr;
  for (const Line &line : record.queues) {
    if (line.kind == "runs " || line.kind == "waits")
      text += (text.empty() ? " was last in " : ", and in ") + line.text;
    else if (line.kind == "ended" && (!last || line.time > last->time))
      last = &line;
  }
  if (text.empty() && last)
    text = " last finished " + last->text;
  if (text.empty())
    text = record.pulse.text.empty() ? " had not begun a step"
                                     : " was last in " + record.pulse.text;
  return "rank " + std::to_string(record.rank) + text;
}

std::vector<std::string> lastInstructions(const std::string &folder) {
  std::vector<Record> records;
  int64_t newest = 0;
  eachRecord(folder, [&](int rank, const std::filesystem::path &path) {
    if (std::optional<Record> record = readRecord(rank, path)) {
      newest = std::max(newest, record->pulse.time);
      records.push_back(std::move(*record));
    }
  });
  std::sort(records.begin(), records.end(),
            [](const Record &a, const Record &b) { return a.rank < b.rank; });
  std::erase_if(records, [](const Record &record) {
    return record.pulse.kind == "error";
  });
  auto tell = [&](auto &&isLast) {
    std::vector<std::string> lines;
    for (const Record &record : records)
      if (lines.size() < kMostRanks && isLast(record))
        lines.push_back(textOf(record));
    return lines;
  };
  std::vector<std::string> lines = tell([&](const Record &record) {
    return newest - record.pulse.time > kApart;
  });
  if (lines.empty())
    lines = tell([](const Record &record) { return record.has("runs "); });
  // Reports every rank if all were in communication or records are missing.
  return !lines.empty() ? lines : tell([](const Record &) { return true; });
}

void removeRecords(const std::string &folder) {
  eachRecord(folder, [](int, const std::filesystem::path &path) {
    std::error_code code;
    std::filesystem::remove(path, code);
  });
}

} // namespace dpc::rt
