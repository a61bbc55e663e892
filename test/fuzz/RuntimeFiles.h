//===- RuntimeFiles.h - Readers of what a run is given ----------*- C++ -*-===//
#ifndef DPC_TEST_FUZZ_RUNTIMEFILES_H
#define DPC_TEST_FUZZ_RUNTIMEFILES_H

#include "test/fuzz/Readers.h"

namespace dpc::fuzz {

/// manifest and shard (of a checkpoint), safetensors, weight-index, npy and
/// plan-command. Beside
/// reading, they check what the callers of a reader rely on.
std::vector<Reader> runtimeReaders(const std::string &scratch);

/// "" when `message` is one line.
std::string checkLine(const std::string &message);

} // namespace dpc::fuzz

#endif // DPC_TEST_FUZZ_RUNTIMEFILES_H
