//===- GemmChoices.h - measured choice of GEMM routines ---------*- C++ -*-===//
//
// cuBLASLt has many routines for a GEMM, and its heuristic guesses which is
// fast. Before the first step, each of the heuristic's first candidates
// computes every distinct GEMM of a plan, with the operands at their addresses
// in the step, and the fastest routine is kept.
//
// Routines sum in different orders. Replicas of a parameter stay equal to the
// last bit only if all ranks use the same routine. Therefore the lowest rank
// that computes a GEMM measures it and sends its choice to the other ranks.
//
// Choices are stored in files, one per GEMM, so later runs start at once and
// give the same bits as the first run. cuBLASLt checks the contents of a file,
// and the routine is tried before use: an untrusted file can make a run slow,
// not wrong.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_CUDA_GEMMCHOICES_H
#define DPC_RUNTIME_CUDA_GEMMCHOICES_H

#include "runtime/cuda/DeviceBlas.h"
#include "runtime/cuda/DeviceComm.h"

#include <functional>
#include <optional>

namespace dpc::rt {

/// Settings of the choice.
struct GemmTuning {
  bool measures = false; ///< false: use the heuristic's first routine
  std::string folder;    ///< for stored choices; "": none are stored
  std::string device;    ///< name and other properties that routines depend on
  /// GEMMs that are not measured within this time use the heuristic's first
  /// routine.
  double mostSeconds = 60;
  /// Called for a file that is ignored or cannot be written.
  std::function<void(const std::string &)> remark;
};

/// Stored choices. Several processes may use a cache at the same time.
class GemmCache {
public:
  /// `rank` distinguishes the temporary files of the ranks.
  GemmCache(const GemmTuning &tuning, int rank) : tuning(tuning), rank(rank) {}

  std::optional<cublasLtMatmulAlgo_t> read(const std::string &key) const;
  void write(const std::string &key, const cublasLtMatmulAlgo_t &how) const;
  /// The file of a key.
  std::string pathOf(const std::string &key) const;

private:
  /// The beginning of the file of a key.
  std::string head(const std::string &key) const;
  void remark(const std::string &what) const;

  const GemmTuning &tuning;
  int rank;
};

/// For each key, the lowest rank that computes a GEMM with this key.
std::map<std::string, int> ownersOfGemms(const Plan &plan);

/// The choices of one rank.
class GemmChoices {
public:
  /// Measurements overwrite `room`, the `bytes` bytes that hold the operands.
  GemmChoices(const GemmTuning &tuning, const CudaApi &cuda, DeviceBlas &blas,
              DeviceComm &comm, cudaStream_t stream, char *room, int64_t bytes)
      : tuning(tuning), cuda(cuda), blas(blas), comm(comm), stream(stream),
        room(room), bytes(bytes) {}
  ~GemmChoices();

  /// Called by all ranks. `gemms` are all GEMMs in this rank's step; `control`
  /// is the host communicator.
  Status choose(const Plan &plan, const std::vector<DeviceGemm> &gemms,
                Communicator &control);
  /// Whether `room` has been overwritten.
  bool hasWritten() const { return isFilled; }

private:
  using Algo = cublasLtMatmulAlgo_t;

  Expected<std::optional<Algo>> find(const DeviceGemm &gemm,
                                     const std::string &key);
  Expected<std::optional<Algo>> measure(const DeviceGemm &gemm);
  Expected<std::optional<double>> millisecondsOf(const DeviceGemm &gemm,
                                                 const Algo &how, double best);
  Status share(const std::map<std::string, int> &owners,
               std::map<std::string, Algo> &chosen, Communicator &control);
  Status prepare();

  const GemmTuning &tuning;
  const CudaApi &cuda;
  DeviceBlas &blas;
  DeviceComm &comm;
  cudaStream_t stream;
  char *room;
  int64_t bytes;
  bool isFilled = false;
  cudaEvent_t begin = nullptr, end = nullptr;
};

} // namespace dpc::rt

#endif // DPC_RUNTIME_CUDA_GEMMCHOICES_H
