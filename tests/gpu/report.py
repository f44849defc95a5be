# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/gpu-results.md out of the JSON lines that the experiments wrote. Figures are never typed by hand.

report.py --summary FILE...            the targets and whether they were met, as text
report.py FILE...                      all tables, as Markdown
report.py --update DOCUMENT FILE...    the tables between the marks <!-- tables --> and <!-- end --> of the document

Of an experiment that was run several times every run of the newest sources counts: nobody chooses among them. Times and speeds are judged
by their median, with the lowest and the highest beside it; a changed limit by every single order; what has to hold always (contents, results,
deaths, coverage) by every run. An order that was refused or failed is a miss, not a figure that is left out."""
import json
import sys
from statistics import median


def read(paths):
    """The lines of each experiment's runs, of the sources of its last one, and the machine they are of."""
    lines = []
    for path in paths:
        with open(path) as f:
            for number, text in enumerate(f, 1):
                try:
                    line = json.loads(text)
                    lines.append((line.get("run", ""), line))
                except (ValueError, AttributeError):
                    sys.exit(f"{path}:{number}: expected a JSON object")
    last, sources = {}, {}
    for run, line in lines:
        key = line.get("experiment", "")
        last[key] = max(last.get(key, ""), run)
        if line.get("name") == "machine":
            sources[run] = line.get("sources") or run
    return [line for run, line in lines if sources.get(run, run) == sources.get(last[line.get("experiment", "")], last[line.get("experiment", "")])]


class Results:
    def __init__(self, lines):
        self.lines = lines

    def all(self, name, **match):
        return [x for x in self.lines if x["name"] == name and all(x.get(k) == v for k, v in match.items())]

    def values(self, name, key, **match):
        return [x[key] for x in self.all(name, **match) if x.get(key) is not None]

    def one(self, name, **match):
        return next(iter(reversed(self.all(name, **match))), {})

    def failed(self, name, **match):
        """An order of the experiment was refused or failed, in any of its runs."""
        return any(x.get("rc") for x in self.all(name, **match)) or bool(self.all(name + "-error"))


def spread(values, form):
    """Median, and lowest to highest of several."""
    if not values:
        return "not measured"
    text = form.format(median(values))
    return text if len(values) == 1 else f"{text} ({form.format(min(values))} to {form.format(max(values))}, {len(values)} times)"


def verdict(values, limit, more=False):
    if not values:
        return "not measured"
    return "met" if (median(values) >= limit if more else median(values) <= limit) else "missed"


def pair_best(r):
    """The setting of the pair that the table is about: the default one where it was run."""
    return "default" if r.all("pair", setting="default", gap_ms="8") else None


PERCENT, SECONDS = "{:+.1f} %", "{:.2f} s"
COVERED = ("eager", "cudnn", "cufft", "graph", "step", "triton", "compile")  # the cases of coverage.py

CAPTURES = 7  # the cases of capture.py


def total(lines, key):
    return f"{sum(float(x.get(key) or 0) for x in lines):g}"


def targets(r):
    """Rows: what, target, reached, verdict."""
    rows = []

    def add(what, target, values, form, limit, more=False, failed=False):
        rows.append((what, target, spread(values, form) + (", an order failed" if failed else ""), "missed" if failed else verdict(values, limit, more)))

    def truth(what, good, detail):
        rows.append((what, "all", detail if good is not None else "not measured",
                     "not measured" if good is None else "met" if good else "missed"))

    setting, pair = pair_best(r), {"experiment": "pair", "gap_ms": "8"}
    add("guaranteed job (8 ms host gap) beside a dense one: p50", "+2 %", r.values("pair", "p50_percent", setting=setting, **pair), PERCENT, 2)
    own = [float(v) for x in r.all("pair-back") if x.get("setting") == setting and x.get("gap_ms") == "8" for v in x.get("percents", "").split(",") if v]
    add("the same, against its own speed before and after", "+2 %", own, PERCENT, 2)
    add("the same, p99", "+5 %", r.values("pair", "p99_percent", setting=setting, **pair), PERCENT, 5)
    add("the same, opportunistic speed, of alone", "65 %", r.values("pair", "ot_percent", setting=setting, **pair), "{:.1f} %", 65, True)
    same = [float(v) for x in r.all("pair-own") if x.get("setting") == setting and x.get("gap_ms") == "8" for v in x.get("percents", "").split(",") if v]
    add("the same, of the same process alone right afterwards", "65 %", same, "{:.1f} %", 65, True)
    add("guaranteed job without gaps: p50", "+2 %", r.values("pair", "p50_percent", setting="default", gap_ms="0"), PERCENT, 2)
    step = r.one("step", mode="active")
    inert = [ns * step["calls"] / (step["inert_ms"] * 1e4) for ns in r.values("launch", "added_ns", mode="inert")] if step else []
    add("overhead of the library on an eager step, inert", "0.5 %", inert, "{:+.3f} %", 0.5)
    for mode, what in (("active", "the same, active"), ("guaranteed", "the same, guaranteed role"), ("movable", "the same, movable memory")):
        add(what, "0.8 %", r.values("step", "percent", mode=mode), "{:+.2f} %", 0.8)
    release = {"verb": "release", "experiment": "hold"}
    add("release of 40 GiB, all memory given back", "2 s", r.values("hold", "save_s", **release), SECONDS, 2, failed=r.failed("hold", **release))
    add("and back", "1.5 s", r.values("hold", "restore_s", **release), SECONDS, 1.5, failed=r.failed("hold", **release))
    content = r.all("hold-content")
    truth("its content, by checksum", all(x.get("bad") == 0 for x in content) if content else None,
          f"{total(content, 'checks')} times compared, {total(content, 'bad')} wrong")
    evict = {"verb": "evict", "experiment": "small"}
    add("evict of a small PyTorch job, context kept", "0.15 s", r.values("small", "save_s", **evict), "{:.3f} s", 0.15, failed=r.failed("small", **evict))
    add("and back", "0.15 s", r.values("small", "restore_s", **evict), "{:.3f} s", 0.15, failed=r.failed("small", **evict))
    for key, what in (("save_s", "release of it, against the driver alone"), ("restore_s", "and back")):
        ours, driver = r.values("small", key, verb="release"), r.values("small", key, verb="driver")
        failed = r.failed("small", verb="release")
        rows.append((what, SECONDS.format(median(driver)) if driver else "driver alone", spread(ours, SECONDS) + (", an order failed" if failed else ""),
                     "missed" if failed else verdict(ours, median(driver)) if driver else "not measured"))
    curve = r.all("small-curve")
    equal = all(x.get("equal") for x in curve)
    truth("its loss curve", equal if curve else None, "equal bit for bit" if equal else "differs")
    wrong = r.failed("alternate") or any(x.get("bad") or not x.get("checked") for x in r.all("alternate-content"))
    add("two jobs of 40 GiB in turns, the slowest switch", "3 s", r.values("alternate", "switch_s_max"), SECONDS, 3, failed=wrong)
    add("the same at a quantum of 60 s, of half speed (computed from it)", "94 %", r.values("alternate", "of_half_percent"), "{:.0f} %", 94, True, failed=wrong)
    for name, what in (("memory-cold", "limit lowered by 4 GiB and raised, memory not in use"), ("memory-hot", "the same, working set cut into"),
                       ("memory-expandable", "the same, expandable segments")):
        values, ends = r.values(name, "seconds"), r.all(name + "-curve")
        good = bool(ends) and all(x.get("equal") and not x.get("error") for x in ends) and not r.failed(name)
        late = sum(v >= 0.2 for v in values)  # each of them, not their median
        said = ", results equal" if good else "" if not values else ", results not equal" if ends else ", cut off before its results were compared"
        rows.append((what, "0.2 s each", spread(values, SECONDS) + (f", {late} of them late" if late else "") + said,
                     "not measured" if not values else "missed" if late or (ends and not good) else "met" if good else "open"))
    cases = r.all("coverage")
    good = [c for c in cases if (c.get("graph_launches", 0) == c.get("cupti_graph_launches", -1) > 0 and not c.get("captured") if "cupti_graph_launches" in c
                                 else c.get("launches", 0) == c.get("cupti", -1) > 0)]
    missing = [name for name in COVERED if name not in {c["case"] for c in cases}]
    truth("coverage against CUPTI", len(good) == len(cases) and not missing if cases else None,
          "; ".join([f"{c['case']} {c.get('graph_launches', c.get('launches', c.get('error')))}/{c.get('cupti_graph_launches', c.get('cupti'))}" for c in cases] +
                    [f"{name} not reached" for name in missing]))
    graphs = r.all("capture")
    wrong = [x["case"] for x in graphs if not x.get("equal") or x.get("error") or not x.get("graphs")]
    truth("graphs of whole steps under gate and limits: results equal", len(graphs) >= CAPTURES and not wrong if graphs else None,
          f"{total(graphs, 'graphs')} graphs in {len(graphs)} jobs" + (f", not equal: {', '.join(wrong)}" if wrong else "") +
          ("" if len(graphs) >= CAPTURES else ", cut off"))
    ranks = r.all("ranks")
    equal = all(x.get("equal") for x in ranks)
    truth("two ranks paused after the same step", all(x["together"] == x["of"] for x in ranks) and equal if ranks else None,
          f"{total(ranks, 'together')} of {total(ranks, 'of')}, loss {'equal' if equal else 'not equal'}")
    # Until the third step: a second more than the bound. Until the gate is open: the bound itself.
    killed = [x for x in r.all("death") if x.get("resumed_s") is None or x["resumed_s"] > x.get("bound_s", 0) + 1 or
              ("open_s" in x and (x["open_s"] is None or x["open_s"] > x["bound_s"]))]
    spoiled = r.all("death-error") + [x for x in r.all("death-content") + r.all("gone-content") if x.get("bad") != 0]
    truth("node side, guardian, guaranteed job killed: going on in time", not killed and not spoiled if r.all("death") else None,
          f"{len(r.all('death'))} deaths, {len(killed)} too late" + (f", {len(spoiled)} with an error or wrong contents" if spoiled else ""))
    soak = r.all("soak")
    truth("random orders to two training jobs", all(all(x["equal"]) and not x["failed"] for x in soak) if soak else None,
          f"{total(soak, 'orders')} orders in {total(soak, 'seconds')} s, {total(soak, 'failed')} refused")
    # The newest run is told; all are judged.
    caps, home, surge, trial = r.one("caps"), r.one("caps-home"), r.one("surge"), r.one("trial")
    good = all(x.get("held_s") is not None and x["both_gib"] <= x["card_gib"] for x in r.all("caps")) and bool(home) and \
        all(x.get("home_s") is not None and x.get("bad") == 0 for x in r.all("caps-home")) and not r.failed("caps")
    truth("limits between jobs of one card: kept, home again, contents", good if caps or r.failed("caps") else None,
          f"kept after {number(caps.get('held_s'))} s, home after {number(home.get('home_s'))} s, {home.get('bad')} wrong")
    truth("a guaranteed job wants 8 GiB more of a full card", all(
        x.get("oom") == 0 and x.get("good") and x.get("home_s") is not None and x.get("neighbour_bad") == 0 for x in r.all("surge")) and not r.failed("surge")
          if surge or r.failed("surge") else None,
          f"served in {number(surge.get('served_s'))} s, home after {number(surge.get('home_s'))} s, {surge.get('oom')} times out of memory")
    truth("two neighbours that want 0.6 of the card each: none is refused, contents",
          all(x.get("bad") == 0 for x in r.all("trial")) and not r.failed("trial") if trial or r.failed("trial") else None,
          f"{trial.get('bad')} wrong, limits at last {trial['caps_gib'].split(';')[-1]} GiB" + (", one was refused" if r.failed("trial") else "")
          if trial else "one was refused")
    foreign, nvml, abi = r.one("foreign"), r.one("nvml"), r.one("abi")
    truth("a program without the library is shown", all(x.get("shown_s") is not None for x in r.all("foreign")) if foreign else None,
          f"after {number(foreign.get('shown_s'))} s, with {number(foreign.get('used_gib'))} GiB")
    truth("NVML tells the limit", all(str(x.get("total_mib")) == str(x.get("want_mib")) for x in r.all("nvml")) if nvml else None,
          f"{nvml.get('total_mib')} MiB of {nvml.get('want_mib')}")
    truth("signatures and look-ups against the toolkit", all(x.get("rc") == 0 for x in r.all("abi")) if abi else None,
          f"{abi.get('hooks')} functions, {abi.get('wrong')} differ; {abi.get('versions')} look-ups, {abi.get('versions_wrong')} differ; "
          f"{abi.get('exported')} exported, {abi.get('unreviewed')} unreviewed")
    return rows


def table(head, rows):
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head)] + ["| " + " | ".join(map(str, row)) + " |" for row in rows]) + "\n"


def number(value, form="{:.2f}"):
    return form.format(value) if isinstance(value, (int, float)) else "-"


def settings_table(r):
    """The pair with each setting it was tried with; the best of those that keep both limits."""
    rows, best = [], None
    for setting in dict.fromkeys(x["setting"] for x in r.all("pair", gap_ms="8")):
        p50, p99, ot = ([v for v in r.values("pair", key, setting=setting, gap_ms="8")] for key in ("p50_percent", "p99_percent", "ot_percent"))
        kept = median(p50) <= 2 and median(p99) <= 5 and setting != "driver"
        if kept and (best is None or median(ot) > best[1]):
            best = (setting, median(ot))
        rows.append((setting, spread(p50, PERCENT), spread(p99, PERCENT), spread(ot, "{:.1f} %"), "yes" if kept and median(ot) >= 65 else "no"))
    return rows, best


def release_table(r):
    rows, best = [], None
    for pinned in dict.fromkeys(x.get("pinned") for x in r.all("hold", verb="release")):
        save, back = (r.values("hold", key, verb="release", pinned=pinned) for key in ("save_s", "restore_s"))
        if not save or not back:
            continue
        kept = median(save) <= 2 and median(back) <= 1.5
        if best is None or median(save) + median(back) < best[1]:
            best = (pinned, median(save) + median(back))
        rows.append((pinned, spread(save, SECONDS), spread(back, SECONDS), "yes" if kept else "no"))
    return rows, best


def sections(r):
    """Every table there are lines for: title, Markdown."""
    yield "Against the targets", table(("experiment", "target", "reached", ""), targets(r))
    rows, best = settings_table(r)
    if rows:
        yield "A guaranteed job beside a dense one", table(("setting", "p50", "p99", "opportunistic, of alone", "both targets met"), rows) + (
            f"\nBest of those within +2 % and +5 %: {best[0]}, {best[1]:.1f} %.\n" if best else "\nNone is within +2 % and +5 %.\n")
    rows, best = release_table(r)
    if rows:
        yield "Release of 40 GiB by how much stays registered", table(("registered", "save", "back", "both targets met"), rows) + (
            f"\nQuickest there and back: {best[0]}.\n" if best else "")
    suspend = [(x["name"], x.get("verb"), number(x.get("gib"), "{:.1f}"), number(x.get("save_s"), "{:.3f}"), number(x.get("restore_s"), "{:.3f}"),
                x.get("left_mib")) for x in r.lines if x["name"] in ("hold", "small")]
    if suspend:
        yield "Every suspend", table(("job", "order", "GiB", "save s", "back s", "left on the GPU, MiB"), suspend)
    overhead = [(f"launch, {x['mode']}", number(x.get("added_ns"), "{:+.0f} ns"), number(x.get("low"), "{:+.0f}"), number(x.get("high"), "{:+.0f}"))
                for x in r.all("launch")]
    overhead += [(f"step, {x['mode']}", number(x.get("percent"), "{:+.2f} %"), number(x.get("low"), "{:+.2f}"), number(x.get("high"), "{:+.2f}"))
                 for x in r.all("step")]
    if overhead:
        yield "Overhead", table(("", "added", "95 %, from", "to"), overhead)
    hostile = [(x["kind"], number(x.get("p50_percent"), PERCENT), number(x.get("p99_percent"), PERCENT), x.get("steps")) for x in r.all("hostile")]
    if hostile:
        yield "Hostile neighbours", table(("neighbour", "p50", "p99", "steps"), hostile)
    deaths = [(x["who"], x["state"], number(x["open_s"]) if "open_s" in x else "", number(x.get("resumed_s")), x.get("bound_s")) for x in r.all("death")]
    if deaths:
        yield "Deaths", table(("killed", "state of the job", "gate open after, s", "third step after, s", "bound, s"), deaths)
    phases = [(x["phase"], number(x.get("settled_s")), x.get("cuts"), number(x.get("late_p50_percent"), PERCENT)) for x in r.all("phases")]
    if phases:
        yield "Changes of phase", table(("phase", "within 2 % after, s", "cuts", "late p50"), phases)
    tiers = [(x["tier"], x["model"], number(x.get("recall"), "{:.3f}"), number(x.get("period_error"), "{:.3f}")) for x in r.all("tiers")]
    if tiers:
        yield "Mini-batches", table(("tier", "model", "found", "period's error"), tiers)
    rest = [(x["name"], "; ".join(f"{k} {v}" for k, v in x.items() if k not in ("name", "run", "experiment"))) for x in r.lines
            if x["name"] in ("burst", "burst-home", "burst-content", "slices", "ranks", "soak", "alternate", "alternate-content", "caps", "caps-home",
                             "surge", "trial", "foreign", "foreign-gone", "split", "nvml", "abi", "pair-again")
            or x["name"].endswith("-error")]
    if rest:
        yield "The rest", table(("", ""), rest)
    cut = [(x["experiment"], x["rc"], x["seconds"]) for x in r.all("piece")]
    if cut:
        yield "Experiments", table(("experiment", "exit (0 done, 124 out of time, 75 not begun)", "seconds"), cut)


def markdown(r):
    machine = r.one("machine")
    head = f"{machine.get('gpu')}, driver {machine.get('driver')}, PyTorch {machine.get('torch')}, {machine.get('cores')} cores, {machine.get('date')}, " \
           f"sources {machine.get('sources')}, settings {machine.get('settings')}.\n"
    return head + "".join(f"\n### {title}\n\n{text}" for title, text in sections(r))


def summary(r):
    rows = targets(r)
    width = [max(len(row[i]) for row in rows) for i in range(3)]
    lines = [f"{row[3]:12}  {row[0]:{width[0]}}  {row[1]:>{width[1]}}  {row[2]}" for row in rows]
    for title, (rows, best) in (("gate", settings_table(r)), ("release", release_table(r))):
        lines += ["", f"{title}: best setting {best[0]}" if best else f"{title}: no setting keeps the limits"] if rows else []
        lines += ["  " + "  ".join(map(str, row)) for row in rows]
    lines += [f"{x['experiment']}: exit {x['rc']} after {x['seconds']} s" for x in r.all("piece") if x["rc"]]
    return "\n".join(lines) + "\n"


def update(document, text):
    with open(document) as f:
        old = f.read()
    begin, end = old.find("<!-- tables -->"), old.find("<!-- end -->")
    if begin < 0 or end < begin:
        sys.exit(f"{document}: the marks <!-- tables --> and <!-- end --> are missing")
    with open(document, "w") as f:
        f.write(old[:begin] + "<!-- tables -->\n" + text + old[end:])


def main(args):
    if args[:1] == ["--summary"] and args[1:]:
        print(summary(Results(read(args[1:]))), end="")
    elif args[:1] == ["--update"] and args[2:]:
        update(args[1], markdown(Results(read(args[2:]))))
    elif args and not args[0].startswith("-"):
        print(markdown(Results(read(args))), end="")
    else:
        sys.exit(__doc__)


main(sys.argv[1:])
