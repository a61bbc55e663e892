#include "tools/cli/CommandLine.h"

#include <algorithm>

namespace dpc {

namespace {

struct Word {
  std::string name;
  std::string description; ///< of one line
  std::string values;      ///< "plan report"; "" for any value
  bool takesValue = false;
  bool isList = false; ///< accepts several values, joined by commas
};

} // namespace

static std::string replaced(std::string text, char what, const char *by) {
  std::string result;
  for (char c : text)
    result += c == what ? std::string(by) : std::string(1, c);
  return result;
}

/// CLI11 lists the values in the type name: "TEXT:{plan,report}".
static std::string valuesOf(const CLI::Option &option) {
  std::string type = option.get_type_name();
  size_t begin = type.find('{'), end = type.find('}');
  if (begin == std::string::npos || end == std::string::npos)
    return "";
  return replaced(type.substr(begin + 1, end - begin - 1), ',', " ");
}

static std::vector<Word> wordsOf(const CLI::App &app) {
  std::vector<Word> words;
  for (const CLI::Option *option : app.get_options())
    for (const std::string &name : option->get_lnames())
      words.push_back({"--" + name,
                       replaced(option->get_description(), '\n', " "),
                       valuesOf(*option), option->get_items_expected_max() > 0,
                       option->get_delimiter() != '\0'});
  return words;
}

static std::vector<const CLI::App *> commandsOf(const CLI::App &app) {
  return app.get_subcommands(
      [](const CLI::App *command) { return !command->get_name().empty(); });
}

/// "dpc-opt" -> "_dpc_opt"
static std::string functionOf(const std::string &program) {
  return "_" + replaced(program, '-', "_");
}

/// bash treats "=" as a separate word.
static const char *const kBashBody = R"(
  local word=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD-1]}
  [[ $word == = ]] && word=
  [[ $option == = ]] && option=${COMP_WORDS[COMP_CWORD-2]}
  local done= values= list=
  COMPREPLY=()
  case $option in
@VALUES@  esac
  if [[ $values ]]; then
    [[ $list && $word == *,* ]] && done=${word%,*}, word=${word##*,}
    COMPREPLY=($(compgen -P "$done" -W "$values" -- "$word"))
  elif [[ $word == -* ]]; then
    COMPREPLY=($(compgen -W "@OPTIONS@" -- "$word"))
    [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
  fi
)";

static std::string bashFunction(const std::vector<Word> &words,
                                const std::string &name) {
  std::string values, options;
  for (const Word &word : words) {
    options +=
        (options.empty() ? "" : " ") + word.name + (word.takesValue ? "=" : "");
    if (!word.values.empty())
      values += "    " + word.name + ") values=\"" + word.values + "\"" +
                (word.isList ? " list=1" : "") + " ;;\n";
  }
  std::string body = kBashBody;
  for (const auto &[mark, text] :
       {std::pair("@VALUES@", values), std::pair("@OPTIONS@", options)})
    body.replace(body.find(mark), std::string(mark).size(), text);
  return name + "() {" + body + "}\n";
}

/// The first word selects a subcommand, which determines the options.
static std::string bashScript(const CLI::App &app, const std::string &program) {
  std::string function = functionOf(program), functions, cases, names;
  for (const CLI::App *command : commandsOf(app)) {
    std::string own = function + "_" + replaced(command->get_name(), '-', "_");
    functions += bashFunction(wordsOf(*command), own);
    cases += "    " + command->get_name() + ") " + own + "; return ;;\n";
    names += (names.empty() ? "" : " ") + command->get_name();
  }
  std::string text = "# Completion of " + program + " for bash.\n" + functions;
  if (names.empty())
    text += bashFunction(wordsOf(app), function);
  else
    text += bashFunction(wordsOf(app), function + "_") + function +
            "() {\n  [[ $COMP_CWORD -gt 1 ]] && case ${COMP_WORDS[1]} in\n" +
            cases + "  esac\n  " + function +
            "_\n  [[ $COMP_CWORD -eq 1 && ${COMP_WORDS[1]} != -* ]] &&\n"
            "    COMPREPLY=($(compgen -W \"" +
            names + "\" -- \"${COMP_WORDS[1]}\"))\n}\n";
  return text + "complete -o default -F " + function + " " + program + "\n";
}

static std::string zshText(const std::string &text) {
  std::string result;
  for (char c : text)
    result += c == '\'' ? "'\\''"
              : std::string("[]:\\").find(c) != std::string::npos
                  ? std::string("\\") + c
                  : std::string(1, c);
  return result;
}

static std::string zshArguments(const std::vector<Word> &words,
                                const std::string &rest) {
  std::string text = "_arguments -S";
  for (const Word &word : words) {
    text += " \\\n  '" + word.name + (word.takesValue ? "=" : "") + "[" +
            zshText(word.description) + "]";
    if (word.takesValue)
      text += word.values.empty() ? ":value:_files"
              : word.isList       ? ":value:_values -s , value " + word.values
                                  : ":value:(" + word.values + ")";
    text += "'";
  }
  return text + " \\\n  '" + rest + "'\n";
}

static std::string zshScript(const CLI::App &app, const std::string &program) {
  std::string text =
      "#compdef " + program + "\n# Completion of " + program + " for zsh.\n";
  std::vector<const CLI::App *> commands = commandsOf(app);
  if (commands.empty())
    return text + zshArguments(wordsOf(app), "*:file:_files");
  std::string cases, names;
  for (const CLI::App *command : commands) {
    cases += command->get_name() + ")\nshift words; (( CURRENT-- ))\n" +
             zshArguments(wordsOf(*command), "*:file:_files") + "return ;;\n";
    names += (names.empty() ? "" : " ") + command->get_name();
  }
  return text + "(( CURRENT > 2 )) && case $words[2] in\n" + cases + "esac\n" +
         zshArguments(wordsOf(app), "1:command:(" + names + ")");
}

std::string completionScript(const CLI::App &app, const std::string &program,
                             const std::string &shell) {
  return shell == "zsh" ? zshScript(app, program) : bashScript(app, program);
}

} // namespace dpc
