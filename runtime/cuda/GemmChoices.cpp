#include "runtime/cuda/GemmChoices.h"

#include "runtime/cuda/CudaProbe.h"

#include "runtime/base/ReadFile.h"
#include "runtime/base/Wait.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <mutex>
#include <set>
#include <unistd.h>

namespace dpc::rt {

static constexpr int kMostCandidates = 16;
static constexpr int kWords = sizeof(cublasLtMatmulAlgo_t) / sizeof(uint64_t);
static_assert(sizeof(cublasLtMatmulAlgo_t) % sizeof(uint64_t) == 0);

/// FNV-1a hash. It names files and detects damage, but not manipulation.
static uint64_t hashOf(const std::string &text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char c : text)
    hash = (hash ^ c) * 0x100000001b3;
  return hash;
}

static std::string hexOf(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx",
                static_cast<unsigned long long>(value));
  return text;
}

std::string GemmCache::head(const std::string &key) const {
  return "dpc: the fastest routine of cuBLASLt, version 1\ndevice " +
         tuning.device + "\nproduct " + key + "\nroutine";
}

std::string GemmCache::pathOf(const std::string &key) const {
  return tuning.folder + "/gemm-" + hexOf(hashOf(head(key)));
}

void GemmCache::remark(const std::string &what) const {
  if (tuning.remark)
    tuning.remark(what);
}

std::optional<cublasLtMatmulAlgo_t>
GemmCache::read(const std::string &key) const {
  constexpr int64_t mostBytes = 4096;
  if (tuning.folder.empty())
    return {};
  Expected<std::string> text = readFile(pathOf(key), mostBytes);
  if (!text && text.status().code() == StatusCode::NotFound)
    return {};
  cublasLtMatmulAlgo_t how = {};
  std::string begin = head(key);
  bool good = text.ok() && text->compare(0, begin.size(), begin) == 0;
  if (good) {
    const char *at = text->c_str() + begin.size();
    for (int i = 0; i < kWords; ++i) {
      char *behind = nullptr;
      how.data[i] = std::strtoull(at, &behind, 16);
      at = behind;
    }
    std::string again = begin;
    for (uint64_t word : how.data)
      again += " " + hexOf(word);
    good = *text == again + "\ncheck " + hexOf(hashOf(again)) + "\n";
  }
  if (good)
    return how;
  remark(pathOf(key) +
         " is damaged or belongs to another GEMM; the GEMM is measured again");
  return {};
}

void GemmCache::write(const std::string &key,
                      const cublasLtMatmulAlgo_t &how) const {
  if (tuning.folder.empty())
    return;
  std::string text = head(key);
  for (uint64_t word : how.data)
    text += " " + hexOf(word);
  text += "\ncheck " + hexOf(hashOf(text)) + "\n";
  std::error_code code;
  std::filesystem::create_directories(tuning.folder, code);
  std::string path = pathOf(key), aside = path + ".new-" +
                                          std::to_string(getpid()) + "-" +
                                          std::to_string(rank);
  std::ofstream out(aside, std::ios::binary);
  out << text;
  out.close();
  if (out && std::rename(aside.c_str(), path.c_str()) == 0)
    return;
  std::filesystem::remove(aside, code);
  remark(path + " cannot be written; the next run measures again");
}

std::map<std::string, int> ownersOfGemms(const Plan &plan) {
  std::map<std::string, std::set<std::string>> ofPhase;
  for (const auto &[phase, instructions] : plan.phases)
    for (const Instruction &instruction : instructions)
      if (auto *op = std::get_if<MatmulOp>(&instruction.op);
          op && !isEmpty(*op))
        ofPhase[phase].insert(gemmKey(gemmIn(plan, *op)));
  std::map<std::string, int> owners;
  for (int rank = 0; rank < static_cast<int>(plan.ranks()); ++rank) {
    std::set<std::string> phases;
    for (const ScheduleEntry &entry : plan.schedule[rank])
      phases.insert(entry.phase);
    for (const std::string &phase : phases)
      if (auto it = ofPhase.find(phase); it != ofPhase.end()) {
        for (const std::string &key : it->second)
          owners.emplace(key, rank);
        ofPhase.erase(it); // every GEMM of the phase has an owner
      }
  }
  return owners;
}

GemmChoices::~GemmChoices() {
  for (cudaEvent_t event : {begin, end})
    if (event)
      cuda.cudaEventDestroy(event);
}

/// Only one rank of the process measures at a time, because they share a GPU.
Status GemmChoices::choose(const Plan &plan,
                           const std::vector<DeviceGemm> &gemms,
                           Communicator &control) {
  std::map<std::string, int> owners = ownersOfGemms(plan);
  if (!tuning.measures || owners.empty())
    return Status::success();
  DPC_TRY(control.barrier(kWorldGroup)); // no rank allocates later
  std::map<std::string, Algo> chosen;
  double deadline = nowSeconds() + tuning.mostSeconds;
  {
    static std::mutex measuring;
    std::lock_guard lock(measuring);
    std::set<std::string> seen;
    for (const DeviceGemm &gemm : gemms) {
      std::string key = gemmKey(gemm);
      if (owners.at(key) != control.rank() || !seen.insert(key).second ||
          nowSeconds() >= deadline)
        continue;
      std::optional<Algo> found;
      DPC_TRY(assign(found, find(gemm, key)));
      if (found)
        chosen[key] = *found;
    }
  }
  DPC_TRY(share(owners, chosen, control));
  for (const DeviceGemm &gemm : gemms) {
    auto it = chosen.find(gemmKey(gemm));
    bool isAccepted = it != chosen.end() && blas.accepts(gemm, it->second);
    DPC_TRY(isAccepted ? blas.choose(gemm, it->second)
                       : blas.chooseFirst(gemm));
  }
  return Status::success();
}

/// Distributes the choices with an all_reduce. Each key is a row of a table;
/// all ranks except the owner of the key fill the row with zeros.
Status GemmChoices::share(const std::map<std::string, int> &owners,
                          std::map<std::string, Algo> &chosen,
                          Communicator &control) {
  constexpr int row = kWords + 1;
  std::vector<int64_t> table(owners.size() * row, 0);
  size_t at = 0;
  for (const auto &[key, owner] : owners) {
    if (auto it = chosen.find(key); it != chosen.end()) {
      table[at] = 1;
      std::memcpy(&table[at + 1], it->second.data, sizeof(Algo));
    }
    at += row;
  }
  DPC_TRY(control.allReduce(kWorldGroup, table.data(),
                            static_cast<int64_t>(table.size()), DType::I64,
                            ReduceKind::Sum));
  at = 0;
  for (const auto &[key, owner] : owners) {
    if (table[at] == 1)
      std::memcpy(chosen[key].data, &table[at + 1], sizeof(Algo));
    at += row;
  }
  return Status::success();
}

/// Returns the stored routine or, if there is none, measures and stores the
/// fastest. Returns nullopt if cuBLASLt proposes fewer than two routines or
/// refuses all.
Expected<std::optional<cublasLtMatmulAlgo_t>>
GemmChoices::find(const DeviceGemm &gemm, const std::string &key) {
  GemmCache cache(tuning, comm.rank());
  if (std::optional<Algo> kept = cache.read(key)) {
    if (blas.accepts(gemm, *kept)) {
      std::optional<double> tried;
      DPC_TRY(assign(tried, millisecondsOf(gemm, *kept, 0)));
      if (tried)
        return kept;
    }
    if (tuning.remark)
      tuning.remark(cache.pathOf(key) +
                    " names a routine that this device "
                    "does not support; the GEMM is measured again");
  }
  Expected<std::optional<Algo>> found = measure(gemm);
  if (found && *found)
    cache.write(key, **found);
  return found;
}

Expected<std::optional<cublasLtMatmulAlgo_t>>
GemmChoices::measure(const DeviceGemm &gemm) {
  std::vector<Algo> candidates;
  DPC_TRY(assign(candidates, blas.candidates(gemm, kMostCandidates)));
  std::optional<Algo> fastest;
  double best = std::numeric_limits<double>::infinity();
  if (candidates.size() < 2)
    return fastest;
  for (const Algo &how : candidates) {
    if (!blas.accepts(gemm, how))
      continue;
    std::optional<double> taken;
    DPC_TRY(assign(taken, millisecondsOf(gemm, how, best)));
    if (taken && *taken < best) {
      best = *taken;
      fastest = how;
    }
  }
  return fastest;
}

/// Returns the shortest time of several rounds, or the time of the warm-up if
/// it is at least twice `best`; nullopt if cuBLASLt refuses the routine.
Expected<std::optional<double>>
GemmChoices::millisecondsOf(const DeviceGemm &gemm, const Algo &how,
                            double best) {
  constexpr int rounds = 3, runsOfRound = 5;
  DPC_TRY(prepare());
  DPC_TRY(blas.choose(gemm, how));
  if (gemm.op->fp8) // all routines use the same codes
    DPC_TRY(blas.codeFactors(gemm, stream));
  std::optional<double> least;
  for (int round = 0; round <= rounds; ++round) {
    int runs = round == 0 ? 1 : runsOfRound;
    DPC_TRY(cuda.record(begin, stream));
    for (int i = 0; i < runs; ++i)
      if (!blas.run(gemm, stream, /*codes=*/false).ok())
        return std::optional<double>();
    DPC_TRY(cuda.record(end, stream));
    DPC_TRY(comm.wait(stream));
    double all = 0;
    DPC_TRY(assign(all, cuda.millisecondsBetween(begin, end)));
    double each = all / runs;
    if (round == 0 && each >= 2 * best)
      return std::optional(each);
    if (round > 0)
      least = std::min(least.value_or(each), each);
  }
  return least;
}

Status GemmChoices::prepare() {
  for (cudaEvent_t *event : {&begin, &end})
    if (!*event)
      DPC_TRY(assign(*event, cuda.newEvent(cudaEventDefault)));
  if (std::exchange(isFilled, true))
    return Status::success();
  return fillWithNumbers(cuda, room, bytes, stream);
}

} // namespace dpc::rt
