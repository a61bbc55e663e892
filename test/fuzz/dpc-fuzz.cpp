//===- dpc-fuzz.cpp - Reads randomly damaged files ------------------------===//
//
//   dpc-fuzz READER --runs=N --seed=S [--keep=FILE] FILE..   damage FILEs
//   dpc-fuzz READER --runs=0 FILE..                          read them
//
// A reader must accept a file or reject it with a one-line message, within
// seconds and a few GiB. Otherwise dpc-fuzz writes the damaged file to --keep
// and exits with a nonzero status.
//
//===----------------------------------------------------------------------===//
#include "test/fuzz/Mutate.h"
#include "test/fuzz/Readers.h"

#include <CLI/CLI.hpp>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/resource.h>
#include <unistd.h>

using namespace dpc::fuzz;

namespace {

constexpr unsigned kSeconds = 20;
constexpr rlim_t kBytes = rlim_t(4) << 30;

// Read by the signal handler.
const std::string *current = nullptr;
const char *keep = nullptr;

void keepCurrent() {
  int file = open(keep, O_CREAT | O_TRUNC | O_WRONLY, 0644);
  if (file < 0 || !current)
    return;
  if (write(file, current->data(), current->size()) < 0)
    _exit(2);
  close(file);
}

void onSignal(int signal) {
  keepCurrent();
  std::signal(signal, SIG_DFL);
  raise(signal);
}

std::string readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

/// Limits memory and reports fatal signals. AddressSanitizer needs terabytes of
/// address space and reports crashes itself.
void limitAndWatch() {
#if !__has_feature(address_sanitizer)
  rlimit limit{kBytes, kBytes};
  setrlimit(RLIMIT_AS, &limit);
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL})
    std::signal(signal, onSignal);
#endif
  for (int signal : {SIGABRT, SIGALRM})
    std::signal(signal, onSignal);
}

bool accepts(const Reader &reader, const std::string &file, uint64_t run) {
  current = &file;
  alarm(kSeconds);
  std::string wrong = reader.read(file);
  alarm(0);
  if (wrong.empty())
    return true;
  keepCurrent();
  std::printf("run %llu: %s\n", static_cast<unsigned long long>(run),
              wrong.c_str());
  return false;
}

bool fuzz(const Reader &reader, const std::vector<std::string> &files,
          uint64_t runs, uint64_t seed) {
  bool allFine = true;
  for (const std::string &file : files)
    allFine &= accepts(reader, file, 0);
  std::vector<std::string> parts;
  parts.reserve(files.size());
  for (const std::string &file : files)
    parts.push_back(reader.extract ? reader.extract(file) : file);
  Mutator mutator(seed);
  for (uint64_t run = 1; run <= runs && allFine; ++run) {
    std::string damaged = mutator.next(parts, reader.isText);
    if (reader.embed)
      damaged = reader.embed(files[mutator.below(files.size())], damaged);
    allFine = accepts(reader, damaged, run);
  }
  return allFine;
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app("Damages files and has them read.");
  std::string name, kept = "dpc-fuzz.bin";
  std::vector<std::string> paths, files;
  uint64_t runs = 1000, seed = 1;
  app.add_option("reader", name,
                 "onnx, pt2, pt2-program, stablehlo, cluster, plan, npy, "
                 "safetensors, weight-index, plan-command, "
                 "shard or manifest")
      ->required();
  app.add_option("files", paths, "Good files")->required();
  app.add_option("--runs", runs, "Damaged files to read")
      ->capture_default_str();
  app.add_option("--seed", seed, "Of the damage")->capture_default_str();
  app.add_option("--keep", kept, "Where a finding is left")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  files.reserve(paths.size());
  for (const std::string &path : paths)
    files.push_back(readFile(path));
  char folder[] = "/tmp/dpc-fuzz-XXXXXX";
  if (!mkdtemp(folder))
    return 2;
  keep = kept.c_str();
  limitAndWatch();
  bool isKnown = false, allFine = true;
  for (const Reader &reader : allReaders(folder))
    if (reader.name == name) {
      isKnown = true;
      allFine = fuzz(reader, files, runs, seed);
    }
  std::error_code code;
  std::filesystem::remove_all(folder, code);
  if (!isKnown)
    std::fprintf(stderr, "dpc-fuzz: error: no reader is called '%s'\n",
                 name.c_str());
  return isKnown && allFine ? 0 : 1;
}
