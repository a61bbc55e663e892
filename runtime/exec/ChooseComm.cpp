#include "runtime/exec/ChooseComm.h"

namespace dpc::rt {

constexpr const char *kNoMpi =
    "this build has no MPI (install libopenmpi-dev and configure again)";

std::string startWords(const Launch &launch, int ranks) {
  std::string count = std::to_string(ranks);
  bool hasNodes = launch.nodes > 1;
  std::string nodes = std::to_string(launch.nodes);
  if (launch.launcher == "srun")
    return "srun " + (hasNodes ? "-N " + nodes + " " : "") + "-n " + count;
  if (launch.launcher != "torchrun")
    return "mpirun -np " + count;
  std::string words = "torchrun --no-python ", each = "--nproc-per-node=";
  if (launch.nodes == 1)
    return words + each + count;
  if (launch.nodes == 0 || ranks % launch.nodes != 0)
    return words + "with " + count + " processes in total (the sum of " + each +
           "N over the nodes)";
  return words + "--nnodes=" + nodes + " " + each +
         std::to_string(ranks / launch.nodes);
}

std::string speedOf(const std::string &comm, bool hasMpi, int ranks) {
  if (comm != "tcp")
    return "";
  std::string text = "--comm=tcp: all data passes through rank 0";
  Launch mpi;
  mpi.launcher = "mpirun";
  return hasMpi ? text + "; " + startWords(mpi, ranks) + " dpc-run is faster"
                : text;
}

std::string errorOfProcess(const Launch &launch, const std::string &host,
                           const std::string &error) {
  if (launch.launcher.empty())
    return error;
  std::string rank = "rank " + std::to_string(launch.rank);
  bool names = error.rfind(rank + " ", 0) == 0;
  return rank + " on " + host +
         (names ? error.substr(rank.size()) : ": " + error);
}

/// Returns the communicator of processes on CPUs, or "" if nothing connects
/// them.
static std::string usualComm(const CommQuestion &q) {
  if (q.launch.size == 1)
    return "local";
  if (q.launch.launcher == "torchrun")
    return "tcp";
  if (q.hasMpi && q.launch.hasPmi)
    return "mpi";
  return q.hasAddress ? "tcp" : "";
}

/// Names the ways to connect the processes of a launcher for which usualComm()
/// has none.
static std::string waysToConnect(const CommQuestion &q) {
  std::string tcp = "--comm=tcp connects them if MASTER_ADDR (the host of rank "
                    "0), MASTER_PORT and DPC_JOB_TOKEN are set";
  if (q.hasMpi && q.launch.launcher == "srun")
    return "srun --mpi=pmix connects them by MPI, and " + tcp;
  return tcp + ", and dpc-run without " + q.launch.launcher +
         " runs all ranks in one process";
}

static std::string whyNotLocal(const CommQuestion &q) {
  if (q.launch.size == 1)
    return "";
  std::string other = q.onGpu ? "nccl" : usualComm(q);
  return "--comm=local under " + q.launch.launcher +
         " would run the whole job " + std::to_string(q.launch.size) +
         " times; start dpc-run without " + q.launch.launcher +
         (other.empty() ? "; " + waysToConnect(q) : ", or use --comm=" + other);
}

static std::string whyNotMpi(const CommQuestion &q) {
  const std::string &launcher = q.launch.launcher;
  if (q.onGpu)
    return "--comm=mpi does not reach the memory of GPUs; --comm=nccl does";
  if (launcher == "torchrun")
    return "--comm=mpi under torchrun: MPI needs mpirun or srun; --comm=" +
           usualComm(q) + " works here";
  if (q.hasMpi)
    return "";
  std::string usual = usualComm(q);
  return std::string("--comm=mpi: ") + kNoMpi + "; " +
         (usual.empty() ? waysToConnect(q) : "--comm=" + usual + " works here");
}

static std::string whyNotTcp(const CommQuestion &q) {
  if (q.onGpu)
    return "--comm=tcp does not reach the memory of GPUs; --comm=nccl does";
  if (q.launch.launcher.empty())
    return "--comm=tcp connects the processes of torchrun, srun or mpirun, and "
           "this one is alone; --comm=local runs all ranks in it";
  return "";
}

static std::string whyNotNccl(const CommQuestion &q) {
  if (q.onGpu)
    return "";
  std::string usual = usualComm(q);
  return "--comm=nccl is for GPUs: add --device=cuda, or " +
         (usual.empty() ? "leave it out; " + waysToConnect(q)
                        : "use --comm=" + usual);
}

CommChoice chooseComm(const CommQuestion &q) {
  if (q.asked == "local")
    return {q.asked, whyNotLocal(q)};
  if (q.asked == "mpi")
    return {q.asked, whyNotMpi(q)};
  if (q.asked == "tcp")
    return {q.asked, whyNotTcp(q)};
  if (q.asked == "nccl")
    return {q.asked, whyNotNccl(q)};
  if (q.onGpu)
    return {q.launch.size == 1 ? "local" : "nccl", ""};
  std::string usual = usualComm(q);
  if (!usual.empty())
    return {usual, ""};
  std::string why =
      q.hasMpi ? "its processes have no PMI, by which MPI finds the others"
               : kNoMpi;
  return {"", q.launch.launcher + " started " + std::to_string(q.launch.size) +
                  " processes: " + why + "; " + waysToConnect(q)};
}

std::string wrongCount(const std::string &comm, const Launch &launch,
                       int connected, int ranks) {
  std::string plan = "the plan is for " + std::to_string(ranks) + " ranks, ";
  if (connected != launch.size && !launch.launcher.empty())
    return plan + "and MPI connects " + std::to_string(connected) + " of the " +
           std::to_string(launch.size) + " processes of " + launch.launcher +
           (launch.launcher == "srun"
                ? "; use srun --mpi=pmix"
                : "; use an "
                  "mpirun of the MPI that dpc-run --version names") +
           (comm == "nccl" ? ", or set MASTER_ADDR, MASTER_PORT and "
                             "DPC_JOB_TOKEN"
                           : ", or --comm=tcp with MASTER_ADDR, MASTER_PORT "
                             "and DPC_JOB_TOKEN");
  if (connected == ranks)
    return "";
  return plan + std::to_string(connected) + " processes were started; use " +
         startWords(launch, ranks) +
         (launch.launcher.empty() ? ", or --comm=local" : "");
}

} // namespace dpc::rt
