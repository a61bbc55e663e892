//===- PythonSettings.cpp - The settings in a Python file -----------------===//
#include "codegen/export/FileSettings.h"

#include <cctype>

namespace dpc::exports {

using nlohmann::json;

namespace {

enum class Kind { Name, Number, String, Mark, LineEnd };

struct Token {
  Kind kind;
  std::string text;
  int64_t line;
};

class Lexer {
public:
  explicit Lexer(const std::string &text) : text(text) {}
  std::vector<Token> run();

private:
  const std::string &text;
  std::vector<Token> tokens;
  size_t at = 0;
  int64_t line = 1;
  int depth = 0; ///< Of brackets, in which lines do not end statements.

  template <typename Accepts> std::string take(Accepts accepts) {
    size_t begin = at;
    while (at < text.size() && accepts(text[at]))
      ++at;
    return text.substr(begin, at - begin);
  }
  void takeString();
};

} // namespace

static bool isOfName(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' ||
         c == '.';
}

void Lexer::takeString() {
  std::string quote(1, text[at]);
  if (text.compare(at, 3, std::string(3, text[at])) == 0)
    quote = std::string(3, text[at]);
  int64_t begin = line;
  std::string value;
  for (at += quote.size();
       at < text.size() && text.compare(at, quote.size(), quote) != 0; ++at) {
    if (text[at] == '\\')
      ++at;
    if (at < text.size()) {
      value += text[at];
      line += text[at] == '\n';
    }
  }
  at = std::min(text.size(), at + quote.size());
  tokens.push_back({Kind::String, value, begin});
}

std::vector<Token> Lexer::run() {
  while (at < text.size()) {
    char c = text[at];
    if (c == '#') {
      take([](char each) { return each != '\n'; });
    } else if (c == '\n') {
      if (depth == 0)
        tokens.push_back({Kind::LineEnd, "\n", line});
      ++line;
      ++at;
    } else if (c == '"' || c == '\'') {
      takeString();
    } else if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
      std::string number = take([](char each) { return isOfName(each); });
      if (number.back() == 'e' && at < text.size()) // 1e-8
        number += text[at++] + take(isOfName);
      std::erase(number, '_');
      tokens.push_back({Kind::Number, number, line});
    } else if (isOfName(c)) {
      std::string name = take(isOfName);
      bool isPrefix = name.size() < 3 && at < text.size() &&
                      (text[at] == '"' || text[at] == '\'');
      if (!isPrefix) // of a string, such as r"..."
        tokens.push_back({Kind::Name, name, line});
    } else {
      depth += std::string("([{").find(c) != std::string::npos;
      depth -= depth > 0 && std::string(")]}").find(c) != std::string::npos;
      if (std::isspace(static_cast<unsigned char>(c)) == 0)
        tokens.push_back({Kind::Mark, std::string(1, c), line});
      ++at;
    }
  }
  tokens.push_back({Kind::LineEnd, "\n", line});
  return std::move(tokens);
}

namespace {

/// Collects settings in one pass over the tokens.
class Scanner {
public:
  explicit Scanner(const std::string &text) : tokens(Lexer(text).run()) {}
  std::vector<FileSetting> run();

private:
  std::vector<Token> tokens;
  /// For each open bracket, the beginning of the keys inside.
  std::vector<std::string> prefixes;
  std::vector<FileSetting> settings;

  bool isMark(size_t i, const char *marks) const {
    return i < tokens.size() && tokens[i].kind == Kind::Mark &&
           std::string(marks).find(tokens[i].text) != std::string::npos;
  }
  /// Whether a value ends before token `i`.
  bool ends(size_t i) const {
    return i >= tokens.size() || isMark(i, ",)]}") ||
           tokens[i].kind == Kind::LineEnd;
  }
  bool isKey(size_t i) const;
  size_t readValue(const std::string &key, int64_t line, size_t i);
  json literal(size_t i) const;
  size_t readList(json &values, size_t i) const;
};

} // namespace

bool Scanner::isKey(size_t i) const {
  if (tokens[i].kind == Kind::Name)
    return isMark(i + 1, "=") && !isMark(i + 2, "=");
  return tokens[i].kind == Kind::String && !prefixes.empty() &&
         isMark(i + 1, ":");
}

/// Returns null for a token that is no literal.
json Scanner::literal(size_t i) const {
  const Token &token = tokens[i];
  return token.kind == Kind::String ? json(token.text) : scalarOf(token.text);
}

/// Reads a list of literals that begins at token `i`. Returns the token after
/// it, or `i` if the list has other elements.
size_t Scanner::readList(json &values, size_t i) const {
  values = json::array();
  for (size_t at = i + 1; at < tokens.size(); ++at) {
    if (isMark(at, "])"))
      return ends(at + 1) ? at + 1 : i;
    if (isMark(at, ","))
      continue;
    if (isMark(at, "[")) {
      json inner;
      size_t end = readList(inner, at);
      if (end == at)
        return i;
      values.push_back(std::move(inner));
      at = end - 1;
      continue;
    }
    if (tokens[at].kind == Kind::Mark)
      return i;
    values.push_back(literal(at));
  }
  return i;
}

/// Reads the value of `key` from token `i` on. Returns the token from which the
/// scan continues: the tokens inside a call or a dictionary follow.
size_t Scanner::readValue(const std::string &key, int64_t line, size_t i) {
  auto add = [&](json value) {
    settings.push_back({key, std::move(value), line});
  };
  bool isNegative = isMark(i, "-") && tokens[i + 1].kind == Kind::Number;
  size_t value = isNegative ? i + 1 : i;
  if (value < tokens.size() && tokens[value].kind != Kind::Mark &&
      ends(value + 1)) {
    add(isNegative ? scalarOf("-" + tokens[value].text) : literal(value));
    return value + 1;
  }
  bool isCall = tokens[i].kind == Kind::Name && isMark(i + 1, "(");
  if (isCall || isMark(i, "{")) {
    if (isCall)
      add(tokens[i].text);
    prefixes.push_back(key + ".");
    return i + (isCall ? 2 : 1);
  }
  if (json values; isMark(i, "[(")) {
    if (size_t end = readList(values, i); end != i) {
      add(std::move(values));
      return end;
    }
  }
  std::string expression;
  for (size_t at = i; !ends(at); ++at)
    expression += (expression.empty() ? "" : " ") + tokens[at].text;
  add(expression);
  return i;
}

std::vector<FileSetting> Scanner::run() {
  for (size_t i = 0; i < tokens.size();) {
    if (isKey(i)) {
      std::string prefix = prefixes.empty() ? "" : prefixes.back();
      i = readValue(prefix + tokens[i].text, tokens[i].line, i + 2);
      continue;
    }
    if (isMark(i, "([{"))
      prefixes.push_back(prefixes.empty() ? "" : prefixes.back());
    else if (isMark(i, ")]}") && !prefixes.empty())
      prefixes.pop_back();
    ++i;
  }
  return std::move(settings);
}

std::vector<FileSetting> pythonSettings(const std::string &text) {
  return Scanner(text).run();
}

} // namespace dpc::exports
