//===- Attrs.cpp - Syntax and verifiers of mesh and sharding --------------===//
#include "ir/Dialect.h"
#include "ir/Sharding.h"

#include "mlir/IR/DialectImplementation.h"

using namespace mlir;
using namespace dpc;

Attribute MeshAttr::parse(AsmParser &parser, Type) {
  SmallVector<StringAttr> names;
  SmallVector<int64_t> sizes;
  auto parseAxis = [&]() -> ParseResult {
    StringRef name;
    int64_t size = 0;
    if (parser.parseKeyword(&name) || parser.parseEqual() ||
        parser.parseInteger(size))
      return failure();
    names.push_back(StringAttr::get(parser.getContext(), name));
    sizes.push_back(size);
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater,
                                     parseAxis))
    return {};
  return parser.getChecked<MeshAttr>(parser.getContext(),
                                     ArrayRef<StringAttr>(names),
                                     ArrayRef<int64_t>(sizes));
}

void MeshAttr::print(AsmPrinter &printer) const {
  printer << "<";
  llvm::interleaveComma(
      llvm::zip(getNames(), getSizes()), printer, [&](auto axis) {
        printer << std::get<0>(axis).getValue() << "=" << std::get<1>(axis);
      });
  printer << ">";
}

LogicalResult MeshAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               ArrayRef<StringAttr> names,
                               ArrayRef<int64_t> sizes) {
  llvm::SmallDenseSet<StringAttr> seen;
  for (auto [name, size] : llvm::zip(names, sizes)) {
    if (size < 1)
      return emitError() << "(C1) mesh axis '" << name.getValue()
                         << "' has size " << size << ", must be at least 1";
    if (!seen.insert(name).second)
      return emitError() << "(C2) mesh axis '" << name.getValue()
                         << "' occurs twice";
  }
  return success();
}

std::optional<int64_t> MeshAttr::findAxis(StringRef name) const {
  for (auto [i, axis] : llvm::enumerate(getNames()))
    if (axis.getValue() == name)
      return i;
  return std::nullopt;
}

int64_t MeshAttr::axisSize(StringRef name) const {
  std::optional<int64_t> axis = findAxis(name);
  return axis ? getSizes()[*axis] : 1;
}

int64_t MeshAttr::numRanks() const {
  int64_t ranks = 1;
  for (auto [name, size] : llvm::zip(getNames(), getSizes()))
    if (name.getValue() != kMicroBatchAxis)
      ranks *= size;
  return ranks;
}

namespace {

/// The parsed parameters of a DimShardingAttr.
struct ParsedDim {
  SmallVector<int64_t> sizes, counts, axes;
};

ParseResult parseAxisName(AsmParser &parser, MeshAttr mesh, int64_t &axis) {
  StringRef name;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&name))
    return failure();
  std::optional<int64_t> found = mesh.findAxis(name);
  if (!found)
    return parser.emitError(loc)
           << "(C1) axis '" << name << "' is not in " << mesh;
  axis = *found;
  return success();
}

/// Parses the axes of `4`, `4:tp` or `4:(dp, tp)` after the size.
ParseResult parseFactorAxes(AsmParser &parser, MeshAttr mesh, int64_t size,
                            ParsedDim &dim) {
  dim.sizes.push_back(size);
  size_t before = dim.axes.size();
  auto parseOne = [&]() {
    return parseAxisName(parser, mesh, dim.axes.emplace_back());
  };
  if (succeeded(parser.parseOptionalColon())) {
    if (succeeded(parser.parseOptionalLParen())) {
      if (parser.parseCommaSeparatedList(parseOne) || parser.parseRParen())
        return failure();
    } else if (parseOne()) {
      return failure();
    }
  }
  dim.counts.push_back(dim.axes.size() - before);
  return success();
}

ParseResult parseFactors(AsmParser &parser, MeshAttr mesh, ParsedDim &dim) {
  int64_t size = 0;
  OptionalParseResult number = parser.parseOptionalInteger(size);
  if (number.has_value()) {
    if (*number || parseFactorAxes(parser, mesh, size, dim))
      return failure();
    while (succeeded(parser.parseOptionalComma()))
      if (parser.parseInteger(size) || parseFactorAxes(parser, mesh, size, dim))
        return failure();
    return success();
  }
  if (parser.parseCommaSeparatedList([&]() {
        return parseAxisName(parser, mesh, dim.axes.emplace_back());
      }))
    return failure();
  dim.sizes.push_back(0);
  dim.counts.push_back(dim.axes.size());
  return success();
}

ParseResult parseDim(AsmParser &parser, MeshAttr mesh,
                     SmallVectorImpl<DimShardingAttr> &dims) {
  ParsedDim dim;
  if (parser.parseLBrace())
    return failure();
  if (succeeded(parser.parseOptionalRBrace())) {
    dim.sizes.push_back(0);
    dim.counts.push_back(0);
  } else if (parseFactors(parser, mesh, dim) || parser.parseRBrace()) {
    return failure();
  }
  dims.push_back(DimShardingAttr::get(parser.getContext(), dim.sizes,
                                      dim.counts, dim.axes));
  return success();
}

ParseResult parsePartial(AsmParser &parser, MeshAttr mesh,
                         SmallVectorImpl<int64_t> &axes,
                         SmallVectorImpl<int64_t> &kinds) {
  if (parser.parseKeyword("partial") || parser.parseEqual())
    return failure();
  return parser.parseCommaSeparatedList(
      AsmParser::Delimiter::Braces, [&]() -> ParseResult {
        StringRef name;
        if (parseAxisName(parser, mesh, axes.emplace_back()) ||
            parser.parseColon())
          return failure();
        SMLoc loc = parser.getCurrentLocation();
        if (parser.parseKeyword(&name))
          return failure();
        std::optional<ReduceKind> kind = symbolizeReduceKind(name);
        if (!kind)
          return parser.emitError(loc) << "unknown reduction '" << name
                                       << "', expected sum, max, min or prod";
        kinds.push_back(static_cast<int64_t>(*kind));
        return success();
      });
}

} // namespace

Attribute ShardingAttr::parse(AsmParser &parser, Type) {
  MeshAttr mesh;
  SmallVector<DimShardingAttr> dims;
  SmallVector<int64_t> axes, kinds;
  if (parser.parseLess() || parser.parseAttribute(mesh) ||
      parser.parseComma() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&]() {
        return parseDim(parser, mesh, dims);
      }))
    return {};
  if (succeeded(parser.parseOptionalComma()) &&
      parsePartial(parser, mesh, axes, kinds))
    return {};
  if (parser.parseGreater())
    return {};
  return parser.getChecked<ShardingAttr>(
      parser.getContext(), mesh, ArrayRef<DimShardingAttr>(dims),
      ArrayRef<int64_t>(axes), ArrayRef<int64_t>(kinds));
}

static void printDim(AsmPrinter &printer, MeshAttr mesh, DimShardingAttr dim) {
  auto name = [&](int64_t axis) { return mesh.getNames()[axis].getValue(); };
  printer << "{";
  ArrayRef<int64_t> axes = dim.getAxes();
  if (dim.getSizes().size() == 1 && dim.getSizes()[0] == 0) {
    llvm::interleaveComma(axes, printer,
                          [&](int64_t axis) { printer << name(axis); });
  } else {
    llvm::interleaveComma(llvm::zip(dim.getSizes(), dim.getAxisCounts()),
                          printer, [&](auto factor) {
                            auto [size, count] = factor;
                            printer << size;
                            if (count == 1)
                              printer << ":" << name(axes[0]);
                            if (count > 1) {
                              printer << ":(";
                              llvm::interleaveComma(
                                  axes.take_front(count), printer,
                                  [&](int64_t axis) { printer << name(axis); });
                              printer << ")";
                            }
                            axes = axes.drop_front(count);
                          });
  }
  printer << "}";
}

void ShardingAttr::print(AsmPrinter &printer) const {
  printer << "<" << getMesh() << ", [";
  llvm::interleaveComma(getDims(), printer, [&](DimShardingAttr dim) {
    printDim(printer, getMesh(), dim);
  });
  printer << "]";
  if (!getPartialAxes().empty()) {
    printer << ", partial = {";
    llvm::interleaveComma(
        llvm::zip(getPartialAxes(), getPartialKinds()), printer, [&](auto p) {
          printer << getMesh().getNames()[std::get<0>(p)].getValue() << " : "
                  << stringifyReduceKind(
                         static_cast<ReduceKind>(std::get<1>(p)));
        });
    printer << "}";
  }
  printer << ">";
}

LogicalResult ShardingAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   MeshAttr mesh,
                                   ArrayRef<DimShardingAttr> dims,
                                   ArrayRef<int64_t> partialAxes,
                                   ArrayRef<int64_t> partialKinds) {
  llvm::SmallDenseSet<int64_t> used;
  auto use = [&](int64_t axis) -> LogicalResult {
    if (axis < 0 || axis >= static_cast<int64_t>(mesh.getNames().size()))
      return emitError() << "(C1) axis number " << axis << " is not in "
                         << mesh;
    if (!used.insert(axis).second)
      return emitError() << "(C2) axis '" << mesh.getNames()[axis].getValue()
                         << "' is used twice";
    return success();
  };
  for (DimShardingAttr dim : dims)
    for (int64_t axis : dim.getAxes())
      if (failed(use(axis)))
        return failure();
  for (int64_t axis : partialAxes)
    if (failed(use(axis)))
      return failure();
  return success();
}

LogicalResult ShardingAttr::verifyEncoding(
    ArrayRef<int64_t> shape, Type,
    function_ref<InFlightDiagnostic()> emitError) const {
  if (shape.size() != getDims().size())
    return emitError() << "(C3) sharding has " << getDims().size()
                       << " dimensions, the tensor " << shape.size();
  for (auto [i, dim] : llvm::enumerate(getDims())) {
    ArrayRef<int64_t> sizes = dim.getSizes();
    if (sizes.size() == 1 && sizes[0] == 0)
      continue;
    int64_t product = 1;
    for (int64_t size : sizes) {
      if (size < 1)
        return emitError() << "(C4) dimension " << i << " has a factor of size "
                           << size << ", must be at least 1";
      if (llvm::MulOverflow(product, size, product))
        return emitError() << "(C4) factors of dimension " << i
                           << " multiply to more than 2^63 - 1, its size is "
                           << shape[i];
    }
    if (product != shape[i])
      return emitError() << "(C4) factors of dimension " << i << " multiply to "
                         << product << ", its size is " << shape[i];
  }
  ShardingAttr canonical = ShardingSpec::get(*this, shape).toAttr();
  if (canonical != *this)
    return emitError() << "(C5) sharding is not canonical, write " << canonical;
  return success();
}
