//===- Import.cpp - Reads strategies of other programs --------------------===//
#include "codegen/export/StrategyReader.h"

#include <algorithm>

namespace dpc::exports {

/// The first reader that recognizes a file reads it.
static const ReaderOf *const kReaders[] = {
    &colossalAiReader, &galvatronReader, &calculonReader,
    &accelerateReader, &deepSpeedReader, &maxTextReader,
    &torchtitanReader, &openSoraReader,  &megatronReader};

int64_t chunksPerStage(const ChunkLayers &chunks, int64_t layers, int64_t pp) {
  int64_t each = chunks.each * pp;
  return std::max<int64_t>(1, (layers + chunks.fewer + each - 1) / each);
}

static std::string keysOf(const FileSettings &file) {
  constexpr size_t kShown = 3;
  std::string keys;
  size_t count = std::min(kShown, file.settings.size());
  for (size_t i = 0; i < count; ++i)
    keys += (i == 0 ? "" : ", ") + file.settings[i].key;
  return keys.empty() ? "no settings" : "settings such as " + keys;
}

Expected<Imported> readStrategy(const std::string &text,
                                const std::string &path,
                                const AskedStrategy &asked) {
  DPC_ASSIGN(FileSettings file, readSettings(text, path));
  std::string known;
  for (const ReaderOf *reader : kReaders) {
    known += (known.empty() ? "" : ", ") + std::string(reader->name);
    if (!reader->recognizes(file))
      continue;
    Expected<Imported> imported = reader->read(file, asked);
    if (!imported)
      return Error{imported.message()};
    imported->kind = reader->name;
    return imported;
  }
  return Error{"unknown kind of file, with " + keysOf(file) + "; expected " +
               known};
}

} // namespace dpc::exports
