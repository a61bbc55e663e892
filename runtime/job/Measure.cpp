//===- Measure.cpp - --measure-links and --measure-device -----------------===//
#include "runtime/job/Measure.h"

#include "runtime/base/WriteFile.h"
#include "runtime/comm/MeasureCollectives.h"
#include "runtime/exec/Device.h"
#include "runtime/exec/Launch.h"
#include "runtime/exec/MeasureDevice.h"

#include <climits>
#include <cstdio>
#include <thread>
#include <unistd.h>

namespace dpc {

using namespace rt;

static std::string hostName() {
  char name[HOST_NAME_MAX + 1] = "";
  return gethostname(name, sizeof name - 1) == 0 && *name ? name : "unknown";
}

static Expected<std::vector<std::string>> hostsOf(Communicator &comm) {
  constexpr size_t length = HOST_NAME_MAX + 1;
  std::string own = hostName();
  own.resize(length, '\0');
  std::vector<char> all(length * comm.size());
  DPC_TRY(comm.allGather(kWorldGroup, own.data(), all.data(), length));
  std::vector<std::string> hosts;
  hosts.reserve(comm.size());
  for (int rank = 0; rank < comm.size(); ++rank)
    hosts.push_back(all.data() + rank * length);
  return hosts;
}

static Status measureRank(const RunOptions &options, Communicator &comm) {
  constexpr int64_t leastBytes = 4096, mostBytes = 64 << 20;
  DPC_ASSIGN(std::vector<std::string> hosts, hostsOf(comm));
  // Empty on one host; then the all_reduce is over the world.
  std::vector<std::vector<int>> groups = peersAcrossHosts(hosts);
  if (!groups.empty())
    DPC_TRY(comm.makeGroups({{0, {}, groups}}));
  std::vector<CollectiveSample> samples;
  for (int64_t bytes = leastBytes; bytes <= mostBytes; bytes *= 4) {
    DPC_ASSIGN(CollectiveSample sample,
               measureAllReduce(comm, bytes, groups.empty() ? kWorldGroup : 0));
    samples.push_back(sample);
  }
  if (comm.rank() != 0)
    return Status::success();
  return writeFile(options.measureLinks,
                   formatAllReduce(samples, hosts, groups))
      .in("--measure-links");
}

static Expected<std::vector<std::unique_ptr<Communicator>>>
makeComms(const RunOptions &options) {
  CommOptions settings{options.timeoutSeconds};
  if (options.comm != "mpi")
    return makeLocalComms(options.ranks ? options.ranks : 2, settings);
  DPC_ASSIGN(std::unique_ptr<Communicator> own, makeMpiComm(settings));
  std::vector<std::unique_ptr<Communicator>> comms;
  comms.push_back(std::move(own));
  return comms;
}

Status measureLinks(const RunOptions &options) {
  if (options.comm == "mpi" && options.ranks)
    return Status::invalid("--ranks=", options.ranks,
                           " is for --comm=local; mpirun -np says how many");
  DPC_ASSIGN(auto comms, makeComms(options));
  if (comms.front()->size() < 2)
    return Status::invalid(
        "--measure-links: one rank has no other rank to communicate with; "
        "start at least 2");
  std::vector<Status> done(comms.size());
  auto measure = [&](size_t i) {
    done[i] = measureRank(options, *comms[i]);
    if (!done[i].ok())
      comms[i]->abort();
  };
  std::vector<std::thread> threads;
  for (size_t i = 1; i < comms.size(); ++i)
    threads.emplace_back(measure, i);
  measure(0);
  for (std::thread &thread : threads)
    thread.join();
  for (const Status &status : done)
    DPC_TRY(status);
  if (comms.front()->rank() == 0)
    std::printf("wrote %s\n", options.measureLinks.c_str());
  return Status::success();
}

Status measureDevice(const RunOptions &options) {
  if (options.device != "cuda")
    return Status::invalid("--measure-device measures a GPU: give "
                           "--device=cuda; dpc-opt --calibrate measures this "
                           "machine's CPUs");
  DPC_TRY(checkWritable(options.measureDevice).in("--measure-device"));
  DPC_ASSIGN(std::unique_ptr<Device> device,
             openCudaDevice().in("--device=cuda"));
  Launch launch = detectLaunch();
  DPC_ASSIGN(auto probe, device->probe(launch.size > 1 ? launch.localRank : 0));
  std::printf("measuring %s\n", probe->facts().name.c_str());
  DPC_ASSIGN(auto text, rt::measureDevice(*probe, usualSchedule(),
                                          [](const std::string &pass) {
                                            std::printf("  %s\n", pass.c_str());
                                            std::fflush(stdout);
                                          }));
  DPC_TRY(writeFile(options.measureDevice, text).in("--measure-device"));
  std::printf("wrote %s\n", options.measureDevice.c_str());
  return Status::success();
}

} // namespace dpc
