//===- WireScanner.h - Positions of protobuf fields -------------*- C++ -*-===//
//
// Plans refer to weights by file offset. Protobuf copies byte fields and loses
// their positions, so this scanner walks the wire format to find the positions.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>

namespace dpc::frontend {

/// One field of a message. `payload` points into the scanned bytes; it is empty
/// for varint fields.
struct WireField {
  uint32_t number = 0;
  uint32_t wireType = 0; ///< 2: length-delimited
  llvm::StringRef payload;
};

/// Calls `visit` for every field of the message in `bytes`. Returns false if
/// the message is malformed.
inline bool scanFields(llvm::StringRef bytes,
                       llvm::function_ref<void(const WireField &)> visit) {
  size_t at = 0;
  auto varint = [&](uint64_t &value) {
    value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at >= bytes.size())
        return false;
      auto byte = static_cast<uint8_t>(bytes[at++]);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (!(byte & 0x80))
        return true;
    }
    return false;
  };
  while (at < bytes.size()) {
    uint64_t tag, length = 0;
    if (!varint(tag))
      return false;
    WireField field;
    field.number = static_cast<uint32_t>(tag >> 3);
    field.wireType = static_cast<uint32_t>(tag & 7);
    switch (field.wireType) {
    case 0:
      if (!varint(length))
        return false;
      length = 0;
      break;
    case 1:
      length = 8;
      break;
    case 2:
      if (!varint(length))
        return false;
      break;
    case 5:
      length = 4;
      break;
    default:
      return false;
    }
    if (length > bytes.size() - at)
      return false;
    field.payload = bytes.substr(at, length);
    at += length;
    visit(field);
  }
  return true;
}

} // namespace dpc::frontend
