"""The report: what ran together, what alone and why, what was shared, and what made the batch run."""

from __future__ import annotations

import gc
import json
import sys
from typing import Any

import numpy as np
import pytest
from mxnet import autograd, gluon, nd

import gluonjit


class Net(gluon.Block):
    """A chain as long as the sample, and one operator that runs alone in training."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = gluon.nn.Dense(3, in_units=3, flatten=False)
        self.cell = gluon.rnn.GRUCell(3, input_size=3)
        self.norm = gluon.nn.BatchNorm(in_channels=3)

    def forward(self, x: Any) -> Any:
        state = [nd.zeros((1, 3))]
        for row in range(len(x)):
            _, state = self.cell(self.dense(x[row : row + 1]), state)  # the line of the chain
        return self.norm(state[0]).sum()


@pytest.fixture(scope="module")
def report() -> gluonjit.Report:
    net = Net()
    net.initialize()
    net.hybridize(dynamic_batch=True)
    random = np.random.RandomState(0)
    samples = [nd.array(random.uniform(size=(length, 3))) for length in (4, 2, 3)]
    with autograd.record():
        total = gluonjit.add_n([net(sample) for sample in [*samples, samples[0]]])
    total.backward()
    return gluonjit.explain()


def test_counts(report: gluonjit.Report) -> None:
    cell = next(row for name, row in report.kinds.items() if "gru" in name)
    dense = next(row for name, row in report.kinds.items() if "dense" in name)
    assert cell == (13, 9, 4) and dense == (13, 9, 1), "the fourth sample is the first again"
    assert report.kinds["BatchNorm"] == (4, 4, 4), "it runs for each sample, and is never shared"
    assert report.calls == sum(row.calls for row in report.kinds.values())
    assert report.nodes == sum(row.nodes for row in report.kinds.values()) == sum(row.nodes for row in report.steps)
    assert report.launches == sum(row.launches for row in report.steps) >= report.lower_bound
    assert report.gathered == sum(row.gathered for row in report.steps) > 0


def test_steps_say_where_they_were_captured(report: gluonjit.Report) -> None:
    with open(__file__, encoding="utf-8") as source:
        number = next(n for n, line in enumerate(source, 1) if "# the line of the chain" in line)
    lines = [row.line for row in report.steps if "gru" in row.name]
    assert lines and all(f"test_report.py:{number} in " in line for line in lines)


def test_what_runs_alone_is_explained(report: gluonjit.Report) -> None:
    assert list(report.alone) == ["BatchNorm"]
    text = str(report)
    assert "runs alone: BatchNorm: in training its statistics are those of the batch" in text
    assert "flushed 1 x: backward, " in text and "test_report.py" in text.splitlines()[-1]


def test_json(report: gluonjit.Report) -> None:
    known = json.loads(report.to_json())
    assert known["launches"] == report.launches and known["lower_bound"] == report.lower_bound
    assert known["kinds"]["BatchNorm"] == {"calls": 4, "nodes": 4, "launches": 4}
    assert [row["name"] for row in known["steps"]] == [row.name for row in report.steps]
    assert set(known["ms"]) == {"capture", "analysis", "gather", "compute", "backward"}


def test_chrome_trace(report: gluonjit.Report, tmp_path: Any) -> None:
    report.to_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {event["cat"] for event in events} == {"capture", "analysis", "gather", "compute", "backward"}
    assert sum(event["cat"] == "compute" for event in events) == len(report.steps)
    assert all(event["ph"] == "X" and event["dur"] >= 0 for event in events)


def test_capture_is_counted_once_from_the_first_call_to_the_flush(report: gluonjit.Report) -> None:
    events = [event for event in report.timeline if event.part == "capture"]
    (whole,) = [event for event in events if event.name == "capture"]
    samples = [event for event in events if event.name.startswith("sample ")]
    (release,) = [event for event in events if event.name == "release"]
    assert report.ms["capture"] == pytest.approx((whole.end - whole.begin + release.end - release.begin) * 1e3)
    assert [event.name for event in samples] == ["sample 0", "sample 1", "sample 2", "sample 3"]
    assert whole.begin <= samples[0].end and samples[-1].end <= whole.end


def test_time_in_a_flush_is_not_counted_as_capture_of_the_batch_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    for name in ("batch", "flush"):
        monkeypatch.setattr(f"gluonjit.hybrid.run.{name}.perf_counter", lambda: now[0])
    net = Net()
    net.initialize()
    net.hybridize(dynamic_batch=True)
    run = gluonjit.Batch._run

    def slow(*given: Any) -> None:
        now[0] += 100.0
        run(*given)

    monkeypatch.setattr(gluonjit.Batch, "_run", slow)
    with gluonjit.batching() as outer:
        net(nd.ones((2, 3)))
        now[0] += 1.0
        with gluonjit.batching() as inner:
            net(nd.ones((3, 3)))
            now[0] += 2.0
    assert inner.report.ms["capture"] == pytest.approx(2e3)
    assert outer.report.ms["capture"] == pytest.approx(3e3)


def test_dot(report: gluonjit.Report, tmp_path: Any) -> None:
    report.to_dot(tmp_path / "steps.dot")
    text = (tmp_path / "steps.dot").read_text()
    assert text.startswith("digraph steps {") and text.endswith("}\n")
    assert text.count("[label=") - text.count("->") == len(report.steps)
    assert "inputs -> step0" in text


def test_page_for_notebooks(report: gluonjit.Report) -> None:
    page = report._repr_html_()
    assert page.startswith("<div>") and "<td>BatchNorm</td>" in page
    assert page.count("<table>") == 2 == page.count("</table>")


def test_a_report_of_nothing() -> None:
    empty = gluonjit.Report()
    assert "0 calls" in str(empty) and empty.steps == [] and json.loads(empty.to_json())["launches"] == 0
    assert "<div>" in empty._repr_html_()


def test_a_report_keeps_no_inputs() -> None:
    net = Net()
    net.initialize()
    net.hybridize(dynamic_batch=True)
    sample = nd.ones((2, 3))
    before = sys.getrefcount(sample)
    net(sample).asnumpy()
    kept = gluonjit.explain()
    gc.collect()
    assert sys.getrefcount(sample) == before and kept.steps
