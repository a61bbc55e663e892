//===- GemmChoices.h - cuBLASLt's routines, by measuring --------*- C++ -*-===//
//
// cuBLASLt has many routines for a product, and its heuristic guesses which is
// fast. Before the first step every distinct product of a plan is done by each
// of the heuristic's first candidates, with the operands where the step has
// them, and the fastest is kept.
//
// Routines sum in different orders, so copies of a parameter stay equal, to the
// last bit, only if all ranks take the same: the lowest rank that computes a
// product measures it, and tells the others.
//
// Choices are kept as files, one a product, so that later runs start at once
// and have the bits of the first. What a file says is checked by cuBLASLt and
// tried before it is used: one of a stranger can make a run slow, not wrong.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_CUDA_GEMMCHOICES_H
#define DPC_RUNTIME_CUDA_GEMMCHOICES_H

#include "runtime/cuda/DeviceBlas.h"
#include "runtime/cuda/DeviceComm.h"

#include <functional>
#include <optional>

namespace dpc::rt {

/// How routines are chosen.
struct GemmTuning {
  bool measures = false; ///< else the heuristic's first
  std::string folder;    ///< for what is kept; "": nothing is
  std::string device;    ///< its name and all that routines depend on
  /// Products that are not measured by then have the heuristic's first.
  double mostSeconds = 60;
  /// Told of a file that is passed over, or cannot be written.
  std::function<void(const std::string &)> remark;
};

/// Choices in files. Every function may be called by many processes at once.
class GemmCache {
public:
  /// `rank` keeps the files that are being written apart.
  GemmCache(const GemmTuning &tuning, int rank) : tuning(tuning), rank(rank) {}

  std::optional<cublasLtMatmulAlgo_t> read(const std::string &key) const;
  void write(const std::string &key, const cublasLtMatmulAlgo_t &how) const;
  /// The file of a key.
  std::string pathOf(const std::string &key) const;

private:
  /// What the file of a key begins with.
  std::string head(const std::string &key) const;
  void remark(const std::string &what) const;

  const GemmTuning &tuning;
  int rank;
};

/// By key: the lowest rank that computes such a product.
std::map<std::string, int> ownersOfProducts(const Plan &plan);

/// Chooses for one rank.
class GemmChoices {
public:
  /// Measuring writes all over `room`, of `bytes`, where the products lie.
  GemmChoices(const GemmTuning &tuning, const CudaApi &cuda, DeviceBlas &blas,
              DeviceComm &comm, cudaStream_t stream, char *room, int64_t bytes)
      : tuning(tuning), cuda(cuda), blas(blas), comm(comm), stream(stream),
        room(room), bytes(bytes) {}
  ~GemmChoices();

  /// Called by all ranks, each with all products of its step; `control` is the
  /// host's communicator.
  Status choose(const Plan &plan, const std::vector<DeviceProduct> &products,
                Communicator &control);
  /// Whether `room` is no longer as it was.
  bool hasWritten() const { return isFilled; }

private:
  using Algo = cublasLtMatmulAlgo_t;

  Expected<std::optional<Algo>> find(const DeviceProduct &product,
                                     const std::string &key);
  Expected<std::optional<Algo>> measure(const DeviceProduct &product);
  Expected<std::optional<double>> millisecondsOf(const DeviceProduct &product,
                                                 const Algo &how, double best);
  Status share(const std::map<std::string, int> &owners,
               std::map<std::string, Algo> &chosen, Communicator &control);
  Status prepare();
  Status fillRoom();

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
