//===- GemmChoices.h - measured choice of GEMM routines ---------*- C++ -*-===//
//
// cuBLASLt has many routines for a GEMM, and its heuristic only guesses which
// one is the fastest. Before the first step, every distinct GEMM of a plan is
// therefore timed with each of the first routines that the heuristic proposes.
//
// Routines add in different orders. Replicas of a parameter stay equal to the
// last bit only if all ranks use the same routine, so the lowest rank that
// computes a GEMM measures it and sends its choice to the other ranks.
//
// The choice for each GEMM is stored in a file, so that later runs need no
// measurements and compute the same bits. A routine from a file is used only if
// cuBLASLt accepts it and a trial run succeeds. An untrusted file can therefore
// make a run slow, but not wrong.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/cuda/DeviceBlas.h"
#include "runtime/cuda/DeviceComm.h"

#include <functional>
#include <optional>

namespace dpc::rt {

struct GemmTuning {
  bool measures = false; ///< otherwise, the heuristic decides
  std::string folder;    ///< for files with choices; "" to store none
  /// The properties of the device and of cuBLASLt on which choices depend.
  std::string device;
  /// The time limit for all measurements of a rank. Later GEMMs use the
  /// heuristic's first routine.
  double mostSeconds = 60;
  /// Called with a warning about a file.
  std::function<void(const std::string &)> remark;
};

/// Several processes may use one folder at the same time.
class GemmCache {
public:
  /// `rank` is part of the names of temporary files.
  GemmCache(const GemmTuning &tuning, int rank) : tuning(tuning), rank(rank) {}

  std::optional<cublasLtMatmulAlgo_t> read(const std::string &key) const;
  void write(const std::string &key, const cublasLtMatmulAlgo_t &how) const;
  std::string pathOf(const std::string &key) const;

private:
  /// Returns the text with which the file of a key begins.
  std::string head(const std::string &key) const;
  void remark(const std::string &what) const;

  const GemmTuning &tuning;
  int rank;
};

/// Returns, for the key of each GEMM, the lowest rank that computes the GEMM.
std::map<std::string, int> ownersOfGemms(const Plan &plan);

class GemmChoices {
public:
  /// `room` contains all operands in `bytes` bytes. Measurements overwrite it.
  GemmChoices(const GemmTuning &tuning, const CudaApi &cuda, DeviceBlas &blas,
              DeviceComm &comm, cudaStream_t stream, char *room, int64_t bytes)
      : tuning(tuning), cuda(cuda), blas(blas), comm(comm), stream(stream),
        room(room), bytes(bytes) {}
  ~GemmChoices();

  /// Chooses a routine for each of this rank's GEMMs. Called on all ranks.
  Status choose(const Plan &plan, const std::vector<DeviceGemm> &gemms,
                Communicator &control);
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
