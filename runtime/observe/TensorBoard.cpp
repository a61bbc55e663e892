//===- TensorBoard.cpp - TensorBoard's event files ------------------------===//
//
// A file is a sequence of records, in little-endian order:
//
//    the length of the data in 8 bytes, and its checksum
//    the data, which is an Event (Events.proto), and its checksum
//
// A checksum is a masked CRC-32C.
//
//===----------------------------------------------------------------------===//
#include "runtime/base/WriteFile.h"
#include "runtime/observe/Events.pb.h"
#include "runtime/observe/Metrics.h"

#include <isa-l/crc.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <unistd.h>

namespace dpc {

static double wallSeconds() {
  auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

/// Returns the checksum of TFRecord files. The mask keeps it effective for data
/// that contains checksums.
static uint32_t maskedChecksum(std::string data) {
  uint32_t crc = ~crc32_iscsi(reinterpret_cast<unsigned char *>(data.data()),
                              static_cast<int>(data.size()), ~0U);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

template <typename T> static std::string bytesOf(T value) {
  std::string bytes;
  for (size_t i = 0; i < sizeof(T); ++i)
    bytes += static_cast<char>(value >> (8 * i) & 0xff);
  return bytes;
}

static std::string recordOf(const std::string &data) {
  std::string length = bytesOf(static_cast<uint64_t>(data.size()));
  return length + bytesOf(maskedChecksum(length)) + data +
         bytesOf(maskedChecksum(data));
}

namespace {

class EventFile : public Metrics {
public:
  explicit EventFile(const std::string &path)
      : path(path), file(path, std::ios::binary) {}
  Status add(tensorboard::Event event);
  Status write(const StepReport &step) override;
  Status write(const EvalReport &evaluation) override;

private:
  std::string path;
  std::ofstream file;
};

} // namespace

Status EventFile::add(tensorboard::Event event) {
  event.set_wall_time(wallSeconds());
  errno = 0;
  file << recordOf(event.SerializeAsString()) << std::flush;
  if (file)
    return Status::success();
  std::string why = errno ? std::string(": ") + std::strerror(errno) : "";
  return Status::io("--metrics: ", path, " cannot be written", why);
}

static void addScalar(tensorboard::Event &event, const std::string &name,
                      double number) {
  tensorboard::Summary::Value *value = event.mutable_summary()->add_value();
  value->set_tag(name);
  value->set_simple_value(static_cast<float>(number));
}

Status EventFile::write(const StepReport &step) {
  tensorboard::Event event;
  event.set_step(step.step);
  for (const auto &[name, number] : step.numbers())
    addScalar(event, name, number);
  return add(event);
}

Status EventFile::write(const EvalReport &evaluation) {
  tensorboard::Event event;
  event.set_step(evaluation.step);
  for (const auto &[name, number] : evaluation.numbers())
    addScalar(event, name, number);
  return add(event);
}

Expected<std::unique_ptr<Metrics>> openTensorBoard(const std::string &folder,
                                                   int64_t done) {
  DPC_TRY(rt::makeFolder(folder).in("--metrics"));
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  // TensorBoard reads files in the order of names, so the time comes first.
  char name[400];
  std::snprintf(name, sizeof name, "events.out.tfevents.%017.6f.%s.%d",
                wallSeconds(), host, static_cast<int>(getpid()));
  auto events = std::make_unique<EventFile>(folder + "/" + name);
  tensorboard::Event version;
  version.set_file_version("brain.Event:2");
  DPC_TRY(events->add(version));
  if (done > 0) {
    // Makes TensorBoard ignore events of an earlier run from this step on.
    tensorboard::Event start;
    start.set_step(done + 1);
    start.mutable_session_log()->set_status(tensorboard::SessionLog::START);
    DPC_TRY(events->add(start));
  }
  return std::unique_ptr<Metrics>(std::move(events));
}

} // namespace dpc
