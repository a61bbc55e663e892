//===- RuntimeFiles.h - Readers of files that a run takes -------*- C++ -*-===//
#pragma once

#include "test/fuzz/Readers.h"

namespace dpc::fuzz {

/// Returns the readers manifest and shard (of a checkpoint), safetensors,
/// weight-index, npy and plan-command. They also check what the callers of
/// these readers rely on.
std::vector<Reader> runtimeReaders(const std::string &scratch);

/// Returns "" if `message` is one line.
std::string checkLine(const std::string &message);

} // namespace dpc::fuzz
