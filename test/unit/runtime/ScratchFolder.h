//===- ScratchFolder.h - temporary files of a test --------------*- C++ -*-===//
#pragma once

#include "test/unit/runtime/Expect.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>

namespace dpc::rt::test {

class ScratchFolder : public testing::Test {
protected:
  void SetUp() override {
    dir = std::filesystem::temp_directory_path() /
          ("dpc-runtime-tests-" + std::to_string(getpid()));
    std::filesystem::create_directories(dir);
  }
  void TearDown() override { std::filesystem::remove_all(dir); }

  std::string at(const std::string &name) const {
    return (dir / name).string();
  }
  void write(const std::string &name, const std::string &bytes) const {
    std::ofstream(dir / name, std::ios::binary) << bytes;
  }

  std::filesystem::path dir;
};

} // namespace dpc::rt::test
