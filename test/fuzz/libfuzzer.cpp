//===- libfuzzer.cpp - A reader under libFuzzer ---------------------------===//
//
// There is one executable per reader; DPC_FUZZ_READER is the name of the
// reader. libFuzzer and the sanitizers detect crashes, hangs and memory errors.
// This file checks that rejections have a one-line message. In a file with a
// checksum, only the covered part is mutated (Reader::extract).
//
//===----------------------------------------------------------------------===//
#include "test/fuzz/Mutate.h"
#include "test/fuzz/Readers.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

using namespace dpc::fuzz;

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

/// Creates a temporary folder for a Reader that reads a folder. It is removed
/// at exit.
static std::string scratchFolder() {
  static char folder[] = "/tmp/dpc-libfuzzer-XXXXXX";
  if (!mkdtemp(folder))
    std::abort();
  std::atexit([] {
    std::error_code code;
    std::filesystem::remove_all(folder, code);
  });
  return folder;
}

static const Reader &reader() {
  static const std::vector<Reader> readers = allReaders(scratchFolder());
  for (const Reader &each : readers)
    if (each.name == DPC_FUZZ_READER)
      return each;
  std::abort();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string wrong =
      reader().read(std::string(reinterpret_cast<const char *>(data), size));
  if (wrong.empty())
    return 0;
  std::fprintf(stderr, DPC_FUZZ_READER ": %s\n", wrong.c_str());
  std::abort();
}

/// Mutates `part` with libFuzzer or with the mutator of dpc-fuzz, which also
/// changes numbers and words.
static std::string changed(std::string part, size_t maxSize, unsigned seed) {
  Mutator ours(seed);
  if (!part.empty() && ours.below(2) == 0)
    return ours.next({part}, reader().isText);
  std::vector<uint8_t> bytes(part.begin(), part.end());
  bytes.resize(std::max(maxSize, part.size()));
  bytes.resize(LLVMFuzzerMutate(bytes.data(), part.size(), bytes.size()));
  return std::string(bytes.begin(), bytes.end());
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t maxSize, unsigned seed) {
  std::string file(reinterpret_cast<const char *>(data), size);
  std::string part = reader().extract ? reader().extract(file) : file;
  std::string next = changed(part, maxSize, seed);
  if (reader().embed)
    next = reader().embed(file, next);
  if (next.size() > maxSize)
    return size;
  std::memcpy(data, next.data(), next.size());
  return next.size();
}
