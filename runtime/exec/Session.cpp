#include "runtime/exec/Session.h"

#include "runtime/base/OneLine.h"
#include "runtime/exec/RankExecutor.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <sstream>
#include <thread>

namespace dpc::rt {

class Session::Worker {
public:
  Worker() : thread([this] { loop(); }) {}
  ~Worker() {
    {
      std::lock_guard lock(mutex);
      stopping = true;
    }
    changed.notify_all();
    thread.join();
  }

  void start(std::function<Status()> work) {
    {
      std::lock_guard lock(mutex);
      job = std::move(work);
    }
    changed.notify_all();
  }
  Status wait() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return !job; });
    return result;
  }

private:
  void loop() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return stopping || job; });
      if (stopping)
        return;
      std::function<Status()> work = job;
      lock.unlock();
      Status status = work();
      lock.lock();
      result = std::move(status);
      job = nullptr;
      changed.notify_all();
    }
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::function<Status()> job;
  Status result;
  bool stopping = false;
  std::thread thread; ///< last: the thread uses the other members
};

Session::Session(const Plan &plan, const SessionOptions &options)
    : plan(plan), options(options), origin(nowSeconds()) {}

Session::~Session() = default;

Expected<std::unique_ptr<Session>>
Session::create(const Plan &plan, const KernelLibrary &kernels,
                std::vector<std::unique_ptr<Communicator>> comms,
                const SessionOptions &options) {
  auto onCpu =
      [&](Communicator &comm,
          const ExecutorOptions &own) -> Expected<std::unique_ptr<Executor>> {
    DPC_ASSIGN(auto made,
               RankExecutor::create(plan, comm.rank(), kernels, comm, own));
    return std::unique_ptr<Executor>(std::move(made));
  };
  return create(plan, ExecutorFactory(onCpu), std::move(comms), options);
}

void Session::openRecords() {
  if (options.flightRecord.empty())
    return;
  for (const auto &comm : comms) {
    auto record = FlightRecord::open(options.flightRecord, plan, comm->rank());
    if (!record) {
      recordFailure = record.status();
      records.clear();
      return;
    }
    records.push_back(std::move(*record));
  }
}

Expected<std::unique_ptr<Session>>
Session::create(const Plan &plan, const ExecutorFactory &makeExecutor,
                std::vector<std::unique_ptr<Communicator>> comms,
                const SessionOptions &options) {
  assert(!comms.empty() && "a session needs a rank");
  if (comms.front()->size() != plan.ranks())
    return Status::invalid(
        "the plan is for ", plan.ranks(), " ranks, ", comms.front()->size(),
        (comms.front()->size() == 1 ? " was started" : " were started"));
  std::unique_ptr<Session> self(new Session(plan, options));
  self->comms = std::move(comms);
  size_t local = self->comms.size();
  self->executors.resize(local);
  self->openRecords();
  for (size_t i = 0; i < local; ++i)
    self->workers.push_back(std::make_unique<Worker>());
  for (const Port &port : plan.outputs) {
    self->outputValues.push_back(
        HostTensor::zeros(port.dtype, port.globalShape));
    self->outputShards.push_back(
        self->travelling(port.layout, self->stageOf(port.buffer)));
  }
  ExecutorOptions each{options};
  int cores = static_cast<int>(std::thread::hardware_concurrency());
  each.threads = options.threadsPerRank > 0
                     ? options.threadsPerRank
                     : std::max(1, cores / static_cast<int>(local));
  Session *session = self.get();
  DPC_TRY(self->onAllRanks([&](size_t i) -> Status {
    Communicator &comm = *session->comms[i];
    ExecutorOptions own = each;
    if (!session->records.empty())
      own.flightRecord = session->records[i].get();
    own.onFailure = [session, &comm, i](const Status &status) {
      if (!session->records.empty())
        session->records[i]->fail();
      if (status.code() == StatusCode::Cancelled)
        return;
      if (session->options.onFailure)
        session->options.onFailure(status);
      comm.abort();
    };
    DPC_TRY(comm.makeGroups(plan.groups));
    DPC_ASSIGN(session->executors[i], makeExecutor(comm, own));
    return Status::success();
  }));
  return self;
}

Status Session::onAllRanks(const std::function<Status(size_t)> &job) {
  for (size_t i = 0; i < workers.size(); ++i)
    workers[i]->start([&job, i] { return job(i); });
  Status first;
  for (auto &worker : workers) {
    Status status = worker->wait();
    if (!status.ok() && (first.ok() || first.code() == StatusCode::Cancelled))
      first = status;
  }
  return first;
}

Status Session::initialize(const ValueSource &values) {
  DPC_TRY(values.check(plan));
  return onAllRanks([&](size_t i) -> Status {
    Executor &executor = *executors[i];
    for (const Tensor &tensor : plan.tensors) {
      for (int id : tensor.allBuffers())
        if (executor.holds(id))
          DPC_TRY(executor.fillBuffer(id, [&](char *local) {
            return values.fill(tensor, plan.mesh, executor.rank(), local);
          }));
    }
    return Status::success();
  });
}

Status Session::step(int64_t number, const std::vector<const void *> &inputs) {
  StepData data{number, inputs, &outputValues};
  for (auto &record : records)
    record->beginStep(number);
  DPC_TRY(onAllRanks([&](size_t i) { return executors[i]->runStep(data); }));
  for (size_t i = 0; i < outputValues.size(); ++i)
    DPC_TRY(collect(outputValues[i], plan.outputs[i].layout, outputShards[i]));
  return options.refusesFaults ? refuseFaults(number) : Status::success();
}

Status Session::refuseFaults(int64_t step) {
  if (std::all_of(plan.outputs.begin(), plan.outputs.end(),
                  [](const Port &port) { return port.faults.empty(); }))
    return Status::success();
  return fromRankZero([&]() -> Expected<std::string> {
           for (size_t i = 0; i < plan.outputs.size(); ++i) {
             if (plan.outputs[i].faults.empty())
               continue;
             auto count = static_cast<int64_t>(outputValues[i].at(0));
             if (count != 0)
               return Status::invalid("step ", step, ": ", count, " of the ",
                                      oneLine(plan.outputs[i].faults),
                                      " are out of range");
           }
           return std::string();
         })
      .status();
}

const HostTensor *Session::output(const std::string &name) const {
  for (size_t i = 0; i < plan.outputs.size(); ++i)
    if (plan.outputs[i].name == name)
      return &outputValues[i];
  return nullptr;
}

std::vector<Session::Shard> Session::travelling(const Layout &layout,
                                                int64_t stage) const {
  std::vector<Shard> shards;
  if (comms.size() == static_cast<size_t>(plan.ranks()))
    return shards; // nothing to send
  assert(comms.size() == 1 && "a process holds one rank or all");
  int here = comms.front()->rank();
  for (int rank = 1; rank < plan.ranks(); ++rank)
    for (int64_t mb = 0; mb < plan.mesh.microBatchesOf(rank); ++mb)
      if ((here == 0 || here == rank) &&
          ownsShard(layout, plan.mesh, rank, mb, stage))
        shards.push_back({rank, mb});
  return shards;
}

Status Session::collect(HostTensor &global, const Layout &layout,
                        const std::vector<Shard> &shards) {
  if (shards.empty())
    return Status::success();
  Communicator &comm = *comms.front();
  int64_t bytes =
      numElements(localShape(layout, plan.mesh)) * sizeOf(global.dtype);
  std::vector<std::byte> buffer(bytes);
  for (auto [rank, mb] : shards) {
    if (comm.rank() == 0) {
      DPC_TRY(comm.recv(kWorldGroup, buffer.data(), bytes, rank, 0));
      unpackShard(buffer.data(), global.data.data(), sizeOf(global.dtype),
                  layout, plan.mesh, rank, mb);
    } else {
      packShard(global.data.data(), buffer.data(), sizeOf(global.dtype), layout,
                plan.mesh, rank, mb);
      DPC_TRY(comm.send(kWorldGroup, buffer.data(), bytes, 0, 0));
    }
  }
  return Status::success();
}

Expected<HostTensor> Session::gather(const Tensor &tensor) {
  HostTensor global = HostTensor::zeros(tensor.dtype, tensor.globalShape);
  int64_t stage = stageOf(tensor.buffer);
  std::vector<char> scratch;
  for (auto &executor : executors) {
    if (!ownsShard(tensor.layout, plan.mesh, executor->rank(), 0, stage))
      continue;
    DPC_ASSIGN(const char *shard, executor->readBuffer(tensor.buffer, scratch));
    unpackShard(shard, global.data.data(), sizeOf(tensor.dtype), tensor.layout,
                plan.mesh, executor->rank(), 0);
  }
  DPC_TRY(collect(global, tensor.layout, travelling(tensor.layout, stage)));
  return global;
}

std::string Session::traceEvents() const {
  std::vector<TraceLane> lanes;
  for (const auto &executor : executors)
    for (const TraceLane &lane : executor->traceLanes())
      lanes.push_back(lane);
  return traceEventsJson(lanes, origin);
}

void Session::forgetTrace() {
  for (const auto &executor : executors)
    executor->forgetTrace();
}

Expected<std::vector<std::string>>
Session::collectTexts(const std::string &text) {
  std::vector<std::string> texts;
  if (comms.size() == static_cast<size_t>(plan.ranks())) {
    texts.push_back(text);
    return texts;
  }
  Communicator &comm = *comms.front();
  int64_t length = static_cast<int64_t>(text.size());
  if (comm.rank() != 0) {
    DPC_TRY(comm.send(kWorldGroup, &length, sizeof length, 0, 0));
    DPC_TRY(comm.send(kWorldGroup, text.data(), length, 0, 0));
    // The sends are complete after the barrier, because rank 0 receives first.
    DPC_TRY(comm.barrier(kWorldGroup));
    return texts;
  }
  texts.push_back(text);
  for (int rank = 1; rank < comm.size(); ++rank) {
    DPC_TRY(comm.recv(kWorldGroup, &length, sizeof length, rank, 0));
    std::string &received = texts.emplace_back(length, '\0');
    DPC_TRY(comm.recv(kWorldGroup, received.data(), length, rank, 0));
  }
  DPC_TRY(comm.barrier(kWorldGroup));
  return texts;
}

Expected<std::string> Session::numberFault() {
  // The clocks of machines differ, so it is a guess which machine was first.
  std::string mine;
  for (const auto &executor : executors)
    if (std::optional<NumberFault> fault = executor->numberFault())
      mine += concat(fault->seconds, " rank ", executor->rank(), ": ",
                     fault->place, "\n");
  DPC_ASSIGN(std::vector<std::string> texts, collectTexts(mine));
  std::pair<double, std::string> first;
  for (const std::string &text : texts) {
    std::istringstream lines(text);
    double seconds = 0;
    for (std::string line; lines >> seconds && std::getline(lines, line);)
      if (first.second.empty() || seconds < first.first)
        first = {seconds, line.substr(1)};
  }
  return first.second;
}

Expected<std::string>
Session::fromRankZero(const std::function<Expected<std::string>()> &make) {
  if (comms.size() == static_cast<size_t>(plan.ranks()))
    return make();
  Communicator &comm = *comms.front();
  // The status code, then the text of the result or the error.
  std::string text;
  if (comm.rank() == 0) {
    Expected<std::string> made = make();
    Status status = made.status();
    text = char('0' + static_cast<int>(status.code())) +
           (made ? *made : status.message());
  }
  int64_t length = static_cast<int64_t>(text.size());
  DPC_TRY(comm.broadcast(kWorldGroup, &length, sizeof length, 0));
  text.resize(length);
  DPC_TRY(comm.broadcast(kWorldGroup, text.data(), length, 0));
  auto code = static_cast<StatusCode>(text.front() - '0');
  text.erase(0, 1);
  if (code != StatusCode::Ok)
    return Status(code, text);
  return text;
}

Expected<bool> Session::anywhere(bool mine) {
  if (comms.size() == static_cast<size_t>(plan.ranks()))
    return mine;
  int32_t any = mine ? 1 : 0;
  DPC_TRY(comms.front()->allReduce(kWorldGroup, &any, 1, DType::I32,
                                   ReduceKind::Max));
  return any != 0;
}

} // namespace dpc::rt
