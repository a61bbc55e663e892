#!/usr/bin/env python3
"""report.html in a browser: it renders without an error, in light and dark mode, its tables sort, its charts have
tooltips.

Needs Chromium (Debian's package chromium, which tools/test installs) and is skipped without it. The test opens a copy
of the page with two more scripts: one collects errors, and one uses the page and writes its observations into it.
"""
import html
import json
import os
import re
import shutil
import subprocess
import sys
import unittest
import zipfile

import e2e

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

WATCH = """<script>
const problems = [];
addEventListener('error', (event) => problems.push(String(event.message)));
for (const kind of ['error', 'warn'])
  console[kind] = (...words) => problems.push(words.join(' '));
const report = (seen) =>
  document.body.append(Object.assign(document.createElement('pre'), {id: 'outcome', textContent: JSON.stringify(seen)}));
</script>"""

# Sorts every column of every table, shows one tooltip per chart, and prints the page.
USE = """
const outcome = {problems, columns: {}, tips: {}, charts: [], marks: {}};
for (const table of document.querySelectorAll('table'))
  for (const button of table.querySelectorAll('th button')) {
    button.click();
    const at = [...table.querySelectorAll('th')].indexOf(button.parentElement);
    const cells = () => [...table.tBodies[0].rows].map((row) => row.cells[at].textContent);
    const rising = cells();
    button.click();
    (outcome.columns[table.caption.textContent] ||= {})[button.textContent] = [rising, cells()];
  }
for (const box of document.querySelectorAll('.chart')) {
  const chart = echarts.getInstanceByDom(box);
  const drawn = box.querySelector('svg, canvas').getBoundingClientRect();
  outcome.charts.push({label: box.ariaLabel, width: drawn.width, height: drawn.height});
  const series = chart.getOption().series;
  const marks = (series[0].markLine ? series[0].markLine.data : []).filter((mark) => mark.xAxis !== undefined && mark.label && mark.label.show);
  if (marks.length) outcome.marks[box.ariaLabel] = marks.map((mark) => [chart.convertToPixel({xAxisIndex: 0}, mark.xAxis), mark.name]);
  const seriesIndex = series.length - 1;
  chart.dispatchAction({type: 'showTip', seriesIndex, dataIndex: 0});
  outcome.tips[box.ariaLabel] = [...box.children].filter((child) => child.tagName === 'DIV' && child.style.position === 'absolute')
    .map((child) => child.textContent).join(' ');
}
const folds = () => [...document.querySelectorAll('details:not(.long)')].map((fold) => fold.open);
outcome.folds = {before: folds()};
dispatchEvent(new Event('beforeprint'));
outcome.folds.printing = folds();
outcome.long = [...document.querySelectorAll('details.long')].map((fold) => fold.open);
dispatchEvent(new Event('afterprint'));
outcome.folds.after = folds();
outcome.width = document.documentElement.scrollWidth;
outcome.window = innerWidth;
outcome.sections = [...document.querySelectorAll('section')].map((section) => section.id);
outcome.ground = getComputedStyle(document.body).backgroundColor;
outcome.ready = document.documentElement.dataset.ready;
outcome.text = document.body.innerText;
report(outcome);
"""

SECTIONS = {"why", "mesh", "timeline", "phases", "memory", "traffic", "operators", "candidates", "baselines", "verification", "notes"}


UNITS = {"": 1, "%": 0.01, "s": 1, "ms": 1e-3, "µs": 1e-6, "min": 60, "h": 3600, "days": 86400, "kWh": 3.6e6, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def number_of(text):
    """Converts '1.23 ms' to seconds; keeps '1,234'; takes differences by their size; returns None for a dash; keeps words."""
    match = re.fullmatch(r"[+−]?([\d.,]+) ?(\S*)", text)
    if match and match[2] in UNITS:
        return float(match[1].replace(",", "")) * UNITS[match[2]]
    return None if text in ("", "–") else text.lower()


class ReportPage(unittest.TestCase):
    def visit(self, folder, *flags):
        with open(os.path.join(folder, "plan", "report.html"), encoding="utf-8") as file:
            page = file.read()
        self.assertLess(len(page.encode()), 2_000_000)
        copy = os.path.join(folder, "copy.html")
        with open(copy, "w", encoding="utf-8") as file:
            head, body = page.split("<title>", 1)
            body, end = body.rsplit("</body>", 1)  # the texts of the library may contain </body>
            file.write(head + WATCH + "<title>" + body + "<script>try {" + USE + "} catch (error) { report(String(error.stack)); }</script></body>" + end)
        done = subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1280,1000", f"--user-data-dir={folder}/profile",
                               *flags, "--dump-dom", f"file://{copy}"], capture_output=True, text=True, timeout=e2e.TIMEOUT_SECONDS)
        found = re.search(r'<pre id="outcome">(.*?)</pre>', done.stdout, re.S)
        self.assertTrue(found, done.stderr[-2000:])
        seen = json.loads(html.unescape(found[1]))
        self.assertIsInstance(seen, dict, seen)  # otherwise `seen` is the error
        return seen

    def check(self, seen, sections):
        self.assertEqual(seen["problems"], [])
        self.assertEqual(seen["ready"], "true")
        self.assertEqual(set(seen["sections"]), sections)
        self.assertLessEqual(seen["width"], seen["window"])
        for chart in seen["charts"]:
            self.assertGreater(min(chart["width"], chart["height"]), 50, chart)
        self.assertEqual(len(seen["charts"]), 5)
        for label, tip in seen["tips"].items():
            self.assertRegex(tip, r"\d", label)
        self.assertEqual(len(seen["tips"]), 5)
        self.assertLess({"#", "Strategy", "Step", "MFU", "Memory"}, set(self.candidates(seen)))
        for caption, columns in seen["columns"].items():
            for title, both in columns.items():
                if title not in ("Strategy", "Why not"):  # words are sorted in the order of the language
                    self.check_order(f"{caption}: {title}", both)
        self.assertEqual(len(seen["marks"]), 2)
        for label, marks in seen["marks"].items():  # names of phases are 11 pixels high and must not overlap
            ends = [at + 5.5 * len(name) for at, name in marks]
            self.assertEqual([name for end, (at, name) in zip(ends, marks[1:]) if at < end], [], label)
        folds = seen["folds"]
        self.assertEqual(folds["printing"], [True] * len(folds["before"]))
        self.assertEqual(folds["after"], folds["before"])

    def check_order(self, title, both):
        rising, falling = ([number_of(text) for text in cells] for cells in both)
        known = [value for value in rising if value is not None]
        self.assertEqual(known, sorted(known), title)
        self.assertEqual([value for value in falling if value is not None], sorted(known, reverse=True), title)
        for values in (rising, falling):  # unknown values are adjacent, and missing values are adjacent
            self.assertIn([value is None for value in values], [sorted((value is None for value in values), reverse=way) for way in (False, True)], title)

    def candidates(self, seen):
        return next(columns for caption, columns in seen["columns"].items() if caption.startswith("The best strategies"))

    def test_small_model_light_and_dark(self):
        with e2e.scratch() as folder:
            e2e.must([e2e.tool("dpc-opt"), e2e.model("gpt2-tiny"), "--cluster=local:4", "--global-batch=8", "--emit=report",
                      "-o", f"{folder}/plan"])
            report = e2e.read_json(f"{folder}/plan/report.json")
            light, dark = self.visit(folder), self.visit(folder, "--blink-settings=preferredColorScheme=0")
        for seen in (light, dark):
            self.check(seen, SECTIONS if report["chosen"]["devices"] > 1 else SECTIONS - {"mesh"})
        self.assertNotEqual(light["ground"], dark["ground"])
        self.assertGreater(len(self.candidates(light)["Step"][0]), 3)
        self.assertIn("Verified", light["text"])
        self.assertNotIn("Beyond the Pareto front", light["text"])

    def test_what_would_be_better(self):
        with e2e.scratch() as folder:
            with open(f"{folder}/slow.sh", "w") as file:
                file.write("x --tensor-model-parallel-size 4 --micro-batch-size 1 --global-batch-size 8")
            e2e.must([e2e.tool("dpc-opt"), e2e.model("gpt2-tiny"), "--cluster=local:4", f"--strategy=@{folder}/slow.sh", "--emit=report", "--verify=off",
                      "-o", f"{folder}/plan"])
            seen = self.visit(folder)
        self.check(seen, SECTIONS | {"better"})
        self.assertRegex(seen["text"], "A search over all strategies finds dp=")
        # Baselines that do not match tp=4 are better than the Pareto front.
        self.assertRegex(seen["text"], r"Beyond the Pareto front: \d+ baselines?, evaluated to compare with")

    def test_whole_job(self):
        clusters = [os.path.join(e2e.SOURCE, "examples", "clusters", f"{name}.json") for name in ("dgx-h100-16", "p3-16xlarge-8")]
        with e2e.scratch() as folder:
            e2e.must([e2e.tool("dpc-opt"), e2e.model("gpt2-tiny"), f"--cluster={','.join(clusters)}", "--global-batch=64", "--precision=bf16", "--tokens=100B",
                      "--price=2.5,1", "--deadline=300d", "--strategy=tp=1", "--emit=report", "--verify=off", "-o", f"{folder}/plan"])
            report = e2e.read_json(f"{folder}/plan/report.json")
            seen = self.visit(folder)
        self.check(seen, SECTIONS | {"job", "deadline", "clusters"})
        self.assertIn("90 % interval", seen["text"])
        self.assertIn(f"The smallest cluster has {report['deadline']['nodes']} nodes", seen["text"])
        columns = next(columns for caption, columns in seen["columns"].items() if caption.startswith("What would be chosen on each"))
        self.assertEqual(columns["Price"][0], sorted((f"{round(row['job']['price']):,}" for row in report["clusters"]), key=number_of))

    def test_what_a_run_measured(self):
        with e2e.scratch() as folder:
            e2e.must([e2e.tool("dpc-opt"), e2e.model("gpt2-tiny"), "--cluster=local:2", "--global-batch=8", "--strategy=dp=2", "--emit=plan,report,trace",
                      "--verify=off", "--init=random:1", "-o", f"{folder}/plan"])
            e2e.must([e2e.tool("dpc-run"), f"{folder}/plan", "--steps=2", "--profile"])
            seen = self.visit(folder)
        self.check(seen, SECTIONS | {"measured"})
        self.assertIn("all of the comm queue", seen["text"])

    def test_large_model(self):
        with e2e.scratch() as folder:
            e2e.must([e2e.tool("dpc-model"), "llama", "--layers=126", "--hidden=16384", "--ffn=53248", "--heads=128", "--kv-heads=8",
                      "--vocab=128256", "--seq=8192", "-o", f"{folder}/llama.onnx"])
            cluster = e2e.read_json(os.path.join(e2e.SOURCE, "examples", "clusters", "dgx-h100-128.json"))
            cluster["groups"][0]["nodes"] = 2048
            e2e.write_json(f"{folder}/cluster.json", cluster)
            e2e.must([e2e.tool("dpc-opt"), f"{folder}/llama.onnx", "--precision=bf16", "--global-batch=2048", "--emit=report", "--verify=off",
                      "--what-if", f"--cluster={folder}/cluster.json", "-o", f"{folder}/plan"])
            seen = self.visit(folder)
        self.check(seen, SECTIONS | {"what-if"})
        self.assertIn("column parallel (tp)", seen["text"])
        self.assertIn(False, seen["folds"]["before"])
        self.assertEqual(seen["long"], [False])  # the names of parameters, including folded ones when the page prints


# axe-core reports problems for screen readers and for people with weak eyesight. First, all folded parts are unfolded.
AXE = """
for (const fold of document.querySelectorAll('details')) fold.open = true;
setTimeout(() => axe.run(document, {resultTypes: ['violations']}).then((found) =>
  document.body.append(Object.assign(document.createElement('pre'), {id: 'outcome', textContent: JSON.stringify(
    found.violations.map((one) => [one.impact, one.id, one.nodes.map((node) => node.target.join(' '))]))}))), 500);
"""


@unittest.skipUnless(os.environ.get("DPC_TEST_LONG"), "long: fetches axe-core")
class Accessibility(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with e2e.scratch() as folder:
            e2e.must([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--dest", folder,
                      "axe-playwright-python==0.1.8"])
            wheel, = (os.path.join(folder, name) for name in os.listdir(folder))
            with zipfile.ZipFile(wheel) as file:
                cls.axe = file.read("axe_playwright_python/axe.min.js").decode()

    def violations(self, folder, *flags, more=""):
        with open(os.path.join(folder, "plan", "report.html"), encoding="utf-8") as file:
            body, end = file.read().rsplit("</body>", 1)
        body = re.sub('<meta http-equiv="Content-Security-Policy"[^>]*>', "", body)
        copy = os.path.join(folder, "copy.html")
        with open(copy, "w", encoding="utf-8") as file:
            file.write(f"{body}{more}<script>{self.axe}</script><script>{AXE}</script></body>{end}")
        done = subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1280,1000", f"--user-data-dir={folder}/profile",
                               "--virtual-time-budget=30000", *flags, "--dump-dom", f"file://{copy}"],
                              capture_output=True, text=True, timeout=e2e.TIMEOUT_SECONDS)
        found = re.search(r'<pre id="outcome">(.*?)</pre>', done.stdout, re.S)
        self.assertTrue(found, done.stderr[-2000:])
        return json.loads(html.unescape(found[1]))

    def test_axe_finds_nothing(self):
        with e2e.scratch() as folder:
            e2e.must([e2e.tool("dpc-opt"), e2e.model("gpt2-tiny"), "--cluster=local:4", "--global-batch=8", "--strategy=dp=2,pp=2,micro_batch=1",
                      "--what-if", "--emit=plan,report,trace", "--verify=off", "--init=random:1", "-o", f"{folder}/plan"])
            e2e.must([e2e.tool("dpc-run"), f"{folder}/plan", "--steps=2", "--profile"])
            for flags in ([], ["--blink-settings=preferredColorScheme=0"]):
                self.assertEqual(self.violations(folder, *flags), [])
            # Checks that pictures have texts and that texts have enough contrast.
            wrong = self.violations(folder, more='<img src="data:,"><p style="color: #ccc; background: #fff">pale</p>')
            self.assertLessEqual({"image-alt", "color-contrast"}, {rule for _, rule, _ in wrong})


if __name__ == "__main__":
    if not BROWSER:
        print("skipped: Chromium is not installed (apt-get install chromium)")
        sys.exit(e2e.SKIPPED)
    unittest.main(verbosity=2)
