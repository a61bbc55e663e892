//===- FakeGraph.cpp - events, capture and graphs of the fake runtime -----===//
//
// A capture records the work of each stream as a lane, and the waits between
// lanes. A graph runs each lane on a separate thread, so that it has the
// concurrency of the captured streams.
//
//===----------------------------------------------------------------------===//
#include "test/unit/cuda/FakeCuda.h"

namespace dpc::rt::test {

std::mutex &captureMutex() {
  static std::mutex mutex;
  return mutex;
}

namespace {

void cover(std::map<size_t, size_t> &all,
           const std::map<size_t, size_t> &more) {
  for (auto [lane, steps] : more)
    all[lane] = std::max(all[lane], steps);
}

void pushWait(FakeStream &stream, const std::shared_ptr<FakeEvent> &event,
              uint64_t record) {
  stream.push([&stream, event, record] {
    stream.clock = std::max(stream.clock, event->wait(record));
  });
}

void addStep(FakeStream &stream, FakeCapture::Step step) {
  FakeCapture::Lane &lane = stream.capture->lanes[stream.lane];
  lane.steps.push_back(std::move(step));
  lane.covers[stream.lane] = lane.steps.size();
}

struct Graph {
  std::shared_ptr<FakeCapture> capture;
};

struct GraphExec {
  std::shared_ptr<FakeCapture> capture;
  std::vector<std::unique_ptr<FakeStream>> lanes;
};

} // namespace

void enqueueOn(cudaStream_t handle, std::function<void()> work,
               double microseconds) {
  FakeStream &stream = streamOf(handle);
  {
    std::lock_guard lock(captureMutex());
    if (stream.capture)
      return addStep(stream, {FakeCapture::Step::Kind::Work, std::move(work), 0,
                              microseconds});
  }
  stream.push(std::move(work), microseconds);
}

} // namespace dpc::rt::test

using namespace dpc::rt::test;
using Step = FakeCapture::Step;

// NOLINTBEGIN(readability-identifier-naming): CUDA's names
extern "C" {

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  std::shared_ptr<FakeEvent> e = eventOf(event);
  FakeStream &stream = streamOf(handle);
  if (e->device != stream.device || stream.device != currentFakeDevice())
    return cudaErrorInvalidResourceHandle;
  {
    std::lock_guard lock(captureMutex());
    if (stream.capture) {
      size_t record = stream.capture->records++;
      addStep(stream, {Step::Kind::Record, nullptr, record});
      e->capture = stream.capture;
      e->capturedRecord = record;
      e->covers = stream.capture->lanes[stream.lane].covers;
      return cudaSuccess;
    }
    e->capture.reset();
  }
  uint64_t record = e->issue();
  stream.push([e, record, &stream] { e->reach(record, stream.clock); });
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event,
                                unsigned) {
  std::shared_ptr<FakeEvent> e = eventOf(event);
  FakeStream &stream = streamOf(handle);
  {
    std::lock_guard lock(captureMutex());
    std::shared_ptr<FakeCapture> capture = e->capture.lock();
    if (!capture && stream.capture)
      return cudaErrorStreamCaptureIsolation;
    if (capture) {
      if (stream.capture && stream.capture != capture)
        return cudaErrorStreamCaptureIsolation;
      if (!stream.capture) { // the event adds this stream to the capture
        stream.capture = capture;
        stream.lane = capture->lanes.size();
        capture->lanes.push_back({&stream, {}, {}});
      }
      addStep(stream, {Step::Kind::Wait, nullptr, e->capturedRecord});
      cover(capture->lanes[stream.lane].covers, e->covers);
      return cudaSuccess;
    }
  }
  uint64_t record = e->issued();
  if (record > 0)
    pushWait(stream, e, record);
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream,
                                  cudaStreamCaptureStatus *status) {
  std::lock_guard lock(captureMutex());
  *status = streamOf(stream).capture ? cudaStreamCaptureStatusActive
                                     : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode) {
  FakeStream &stream = streamOf(handle);
  std::lock_guard lock(captureMutex());
  if (stream.capture)
    return cudaErrorIllegalState;
  stream.capture = std::make_shared<FakeCapture>();
  stream.capture->lanes.push_back({&stream, {}, {}});
  stream.lane = 0;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t *graph) {
  std::lock_guard lock(captureMutex());
  std::shared_ptr<FakeCapture> capture = streamOf(handle).capture;
  if (!capture || capture->lanes[0].stream != &streamOf(handle))
    return cudaErrorStreamCaptureUnmatched;
  bool isJoined = true;
  for (size_t lane = 0; lane < capture->lanes.size(); ++lane) {
    capture->lanes[lane].stream->capture = nullptr;
    isJoined &=
        capture->lanes[0].covers[lane] == capture->lanes[lane].steps.size();
  }
  *graph = nullptr;
  if (!isJoined)
    return cudaErrorStreamCaptureUnjoined;
  make<Graph>(graph, std::move(capture));
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  destroy<Graph>(graph);
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                 unsigned long long) {
  make<GraphExec>(exec, as<Graph>(graph).capture);
  auto &made = as<GraphExec>(*exec);
  for (size_t i = 0; i < made.capture->lanes.size(); ++i)
    made.lanes.push_back(std::make_unique<FakeStream>());
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  destroy<GraphExec>(exec);
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t handle, cudaStream_t stream) {
  auto &exec = as<GraphExec>(handle);
  auto begin = std::make_shared<FakeEvent>();
  FakeStream &origin = streamOf(stream);
  origin.push([begin, &origin] { begin->reach(1, origin.clock); });
  std::vector<std::shared_ptr<FakeEvent>> records;
  records.reserve(exec.capture->records);
  for (size_t i = 0; i < exec.capture->records; ++i)
    records.push_back(std::make_shared<FakeEvent>());
  for (size_t i = 0; i < exec.lanes.size(); ++i) {
    FakeStream &lane = *exec.lanes[i];
    pushWait(lane, begin, 1);
    for (const Step &step : exec.capture->lanes[i].steps)
      if (step.kind == Step::Kind::Work)
        lane.push(step.work, step.microseconds);
      else if (step.kind == Step::Kind::Record)
        lane.push(
            [e = records[step.record], &lane] { e->reach(1, lane.clock); });
      else
        pushWait(lane, records[step.record], 1);
    auto end = std::make_shared<FakeEvent>();
    lane.push([end, &lane] { end->reach(1, lane.clock); });
    pushWait(origin, end, 1);
  }
  return cudaSuccess;
}
}
// NOLINTEND(readability-identifier-naming)
