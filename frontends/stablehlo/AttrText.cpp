//===- AttrText.cpp - Parsers for attributes of unregistered dialects -----===//
#include "frontends/stablehlo/AttrText.h"

using namespace mlir;

namespace dpc::frontend::hlo {

llvm::StringRef opaqueText(Attribute attribute) {
  auto opaque = dyn_cast_if_present<OpaqueAttr>(attribute);
  return opaque ? opaque.getAttrData() : llvm::StringRef();
}

namespace {
class Reader {
public:
  explicit Reader(llvm::StringRef text) : rest(text) {}

  bool eat(llvm::StringRef token) {
    rest = rest.ltrim();
    return rest.consume_front(token);
  }
  llvm::StringRef word() {
    rest = rest.ltrim();
    llvm::StringRef found =
        rest.take_while([](char c) { return llvm::isAlnum(c) || c == '_'; });
    rest = rest.drop_front(found.size());
    return found;
  }
  std::optional<int64_t> number() {
    rest = rest.ltrim();
    int64_t value;
    if (rest.consumeInteger(10, value))
      return std::nullopt;
    return value;
  }
  bool atEnd() const { return rest.trim().empty(); }

private:
  llvm::StringRef rest;
};
} // namespace

static bool parseList(Reader &reader, Shape &values) {
  if (!reader.eat("[")) {
    auto value = reader.number();
    if (value)
      values.push_back(*value);
    return value.has_value();
  }
  if (reader.eat("]"))
    return true;
  do {
    auto value = reader.number();
    if (!value)
      return false;
    values.push_back(*value);
  } while (reader.eat(","));
  return reader.eat("]");
}

std::optional<llvm::StringMap<Shape>> parseFields(llvm::StringRef text) {
  Reader reader(text);
  llvm::StringMap<Shape> fields;
  if (reader.word().empty() || !reader.eat("<"))
    return std::nullopt;
  if (reader.eat(">"))
    return fields;
  do {
    llvm::StringRef key = reader.word();
    if (key.empty() || !reader.eat("=") || !parseList(reader, fields[key]))
      return std::nullopt;
  } while (reader.eat(","));
  if (!reader.eat(">") || !reader.atEnd())
    return std::nullopt;
  return fields;
}

llvm::StringRef parseEnum(llvm::StringRef text) {
  return text.rsplit(' ').second;
}

static bool parseSide(Reader &reader, llvm::StringRef first,
                      llvm::StringRef second, ConvSide &side) {
  if (!reader.eat("["))
    return false;
  std::map<int64_t, int64_t> spatial;
  int64_t position = 0;
  do {
    if (auto number = reader.number()) {
      spatial[*number] = position++;
      continue;
    }
    llvm::StringRef name = reader.word();
    if (name != first && name != second)
      return false;
    (name == first ? side.first : side.second) = position++;
  } while (reader.eat(","));
  for (const auto &[index, place] : spatial) {
    if (index != static_cast<int64_t>(side.spatial.size()))
      return false;
    side.spatial.push_back(place);
  }
  return reader.eat("]") && side.first >= 0 && side.second >= 0 &&
         position == static_cast<int64_t>(side.spatial.size()) + 2;
}

std::optional<ConvDims> parseConv(llvm::StringRef text) {
  Reader reader(text);
  ConvDims dims;
  if (reader.word() != "conv" || !reader.eat("<") ||
      !parseSide(reader, "b", "f", dims.input) || !reader.eat("x") ||
      !parseSide(reader, "o", "i", dims.filter) || !reader.eat("->") ||
      !parseSide(reader, "b", "f", dims.output) || !reader.eat(">") ||
      !reader.atEnd() ||
      dims.input.spatial.size() != dims.filter.spatial.size() ||
      dims.input.spatial.size() != dims.output.spatial.size())
    return std::nullopt;
  return dims;
}

} // namespace dpc::frontend::hlo
