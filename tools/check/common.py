"""Shared by the checks: the list of source files, and the end of a check."""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def source_files(*suffixes):
    """Returns tracked and new files, except ignored ones, with one of the suffixes."""
    output = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "--cached", "--others",
         "--exclude-standard"],
        cwd=ROOT, check=False, capture_output=True, text=True)
    if output.returncode == 0:
        names = set(output.stdout.splitlines())
    else:  # an exported tree without git
        names = {str(path.relative_to(ROOT)) for path in ROOT.rglob("*")
                 if not path.relative_to(ROOT).parts[0].startswith("build")}
    return sorted(ROOT / name for name in names
                  if name.endswith(suffixes) and (ROOT / name).is_file())


def finish(name, problems, what):
    """Prints one problem per line, or `what` if there is none, and exits."""
    sys.stdout.write("".join(problem + "\n" for problem in problems))
    if not problems:
        print(f"{name}: {what}")
    sys.exit(1 if problems else 0)
