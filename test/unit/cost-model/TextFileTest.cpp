//===- TextFileTest.cpp - Text files --------------------------------------===//
#include "runtime/base/ReadFile.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace dpc::cost {
namespace {

namespace fs = std::filesystem;

TEST(TextFile, OnlyRegularFilesOfReasonableSizeAreRead) {
  fs::path dir =
      fs::temp_directory_path() / ("dpc-text-file-" + std::to_string(getpid()));
  fs::create_directories(dir);
  auto error = [&](const fs::path &path) {
    Expected<std::string> text = readTextFile(path, "a cluster.json");
    return text ? "" : text.message();
  };
  std::string file = dir / "a.json", pipe = dir / "pipe";
  std::ofstream(file) << "{}\n";
  EXPECT_EQ(*readTextFile(file, "a cluster.json"), "{}\n");
  fs::resize_file(file, uintmax_t(30) << 30); // a sparse file
  EXPECT_EQ(error(file), file + ": has 32212254720 bytes; expected a "
                                "cluster.json of at most 64 MiB");
  // Opening the pipe would block, because no process writes to it.
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string &path :
       {pipe, dir.string(), dir.string() + "/none", std::string("/dev/zero")})
    EXPECT_EQ(error(path), path + ": cannot be read; expected a cluster.json");
  fs::remove_all(dir);
}

} // namespace
} // namespace dpc::cost
