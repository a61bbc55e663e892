//===- Options.cpp - Import options that the user sets --------------------===//
#include "frontends/emit/Options.h"

#include "llvm/ADT/STLExtras.h"

namespace dpc::frontend {

llvm::Error makeError(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

std::string describe(llvm::ArrayRef<int64_t> shape) {
  std::string text = "[";
  for (auto [i, d] : llvm::enumerate(shape))
    text += (i ? ", " : "") + std::to_string(d);
  return text + "]";
}

std::string describe(mlir::RankedTensorType type) {
  std::string text = describe(type.getShape()) + " ";
  llvm::raw_string_ostream(text) << type.getElementType();
  return text;
}

static std::string listed(llvm::ArrayRef<std::string> examples) {
  std::string text;
  for (const std::string &name : examples.take_front(4))
    text += (text.empty() ? "; names are like '" : "', '") + name;
  return text.empty() ? text : text + "'";
}

static bool matchesAny(llvm::StringRef pattern, const llvm::GlobPattern &glob,
                       llvm::ArrayRef<std::string> names) {
  return llvm::any_of(names, [&](llvm::StringRef name) {
    return pattern == name || glob.match(name);
  });
}

llvm::Expected<NameFilter> NameFilter::create(
    llvm::StringRef option, const std::vector<std::string> &patterns,
    llvm::StringRef file, llvm::StringRef what,
    llvm::ArrayRef<std::string> names, llvm::ArrayRef<std::string> examples) {
  NameFilter filter;
  for (const std::string &pattern : patterns) {
    auto glob = llvm::GlobPattern::create(pattern);
    if (!glob) {
      llvm::consumeError(glob.takeError());
      return makeError("{0}={1}: not a valid glob", option, pattern);
    }
    if (!matchesAny(pattern, *glob, names))
      return makeError("{0}={1}: no {2} of {3} has such a name{4}", option,
                       pattern, what, file, listed(examples));
    filter.names.push_back(pattern);
    filter.globs.push_back(std::move(*glob));
  }
  return filter;
}

bool NameFilter::matches(llvm::StringRef name) const {
  return llvm::is_contained(names, name) ||
         llvm::any_of(globs, [&](const llvm::GlobPattern &glob) {
           return glob.match(name);
         });
}

std::vector<std::string>
NameFilter::matchingNone(llvm::ArrayRef<std::string> some) const {
  std::vector<std::string> patterns;
  for (const auto &[pattern, glob] : llvm::zip(names, globs))
    if (!matchesAny(pattern, glob, some))
      patterns.push_back(pattern);
  return patterns;
}

} // namespace dpc::frontend
