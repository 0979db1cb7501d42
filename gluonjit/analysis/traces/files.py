"""Traces as files: one JSON document each, compressed if the name ends in .gz."""

from __future__ import annotations

import gzip
import json
import zlib
from io import BytesIO
from pathlib import Path
from typing import Any

from gluonjit.analysis.traces.checking import Damaged, Fields, check
from gluonjit.analysis.traces.document import BatchTrace, TracedTable, TraceKind, TraceLeaf, TraceNodes
from gluonjit.errors import TraceError
from gluonjit.graph.kinds import Output, Work
from gluonjit.graph.values import MODES, Spec, intern_spec
from gluonjit.writing import read_regular, write_whole

FORMAT = "gluonjit-trace"
VERSION = 2
_MOST_WORK = 2**53  # of operations or bytes of one node
MOST_BYTES = 256 << 20
"""Of a trace once it is unpacked: some millions of nodes. More is not read."""
_SMALLER = "Next: write a trace of fewer samples."
_AGAIN = "Next: write it again with batch.save_trace(path) inside of `with gluonjit.batching() as batch:`."


def write_trace(trace: BatchTrace, path: str | Path) -> None:
    """Writes a trace atomically. Raises TraceError if the folder does not exist."""
    path = Path(path)
    if not path.parent.is_dir():
        raise TraceError(f"{path}: the folder {path.parent} does not exist. Next: create it.")
    data = json.dumps(_encoded(trace), separators=(",", ":"), allow_nan=False).encode() + b"\n"
    write_whole(path, gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def read_trace(path: str | Path) -> BatchTrace:
    """Reads and checks a trace. Raises TraceError that names the file, the fault, and the next step."""
    path = Path(path)
    try:
        data = read_regular(path, MOST_BYTES)
    except OSError as error:
        raise TraceError(f"{path}: cannot be read ({error.strerror}). Next: check the path.") from error
    except ValueError as error:
        raise TraceError(f"{path}: {error}. {_SMALLER}") from error
    try:
        if data.startswith(b"\x1f\x8b"):
            with gzip.open(BytesIO(data)) as stream:
                data = stream.read(MOST_BYTES + 1)
            if len(data) > MOST_BYTES:
                raise TraceError(f"{path}: larger than {MOST_BYTES} bytes when unpacked. {_SMALLER}")
        value = json.loads(data, object_pairs_hook=_unique)
    except (OSError, EOFError, zlib.error) as error:
        raise TraceError(f"{path}: truncated or damaged ({error}). {_AGAIN}") from error
    except (ValueError, RecursionError) as error:
        raise TraceError(f"{path}: not a trace, as it is not JSON ({error}). {_AGAIN}") from error
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        found = f'"format": {value.get("format")!r}' if isinstance(value, dict) else f"a {type(value).__name__}"
        raise TraceError(f'{path}: not a trace: it holds {found}, not "format": {FORMAT!r}. {_AGAIN}')
    version = value.get("version")
    if version != VERSION:
        raise TraceError(
            f"{path}: a trace of version {version!r}, but this gluonjit reads version {VERSION}. Next: read it "
            "with the gluonjit that wrote it, or write it again with this one."
        )
    try:
        trace = _decoded(Fields(value, ""))
        check(trace)
    except Damaged as error:
        raise TraceError(f"{path}: a damaged trace: {error}. {_AGAIN}") from error
    return trace


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice")
    return found


def _encoded(trace: BatchTrace) -> dict[str, Any]:
    specs: dict[Spec, int] = {}

    def number(spec: Spec) -> int:
        return specs.setdefault(spec, len(specs))

    leaves = {
        "bases": [leaf.base for leaf in trace.leaves],
        "specs": [number(leaf.spec) for leaf in trace.leaves],
    }
    tables = [{"spec": number(table.spec), "rows": table.rows.tolist()} for table in trace.tables]
    kinds = [_encoded_kind(kind, nodes, number) for kind, nodes in zip(trace.kinds, trace.nodes)]
    return {
        "format": FORMAT,
        "version": VERSION,
        "granularity": trace.granularity,
        "sharing": trace.sharing,
        "rows": trace.rows,
        "specs": [
            {"shape": spec.shape, "dtype": spec.dtype, "device": spec.device, "mode": spec.mode} for spec in specs
        ],
        "leaves": leaves,
        "tables": tables,
        "kinds": kinds,
    }


def _encoded_kind(kind: TraceKind, nodes: TraceNodes, number: Any) -> dict[str, Any]:
    return {
        "name": kind.name,
        "mode": kind.mode,
        "operands": [number(spec) for spec in kind.operands],
        "outputs": [{"spec": number(output.spec), "offset": output.offset} for output in kind.outputs],
        "rows": kind.rows,
        "pure": kind.pure,
        "alone": kind.alone,
        "operator": kind.operator,
        "poly": kind.poly,
        "sum_of": kind.sum_of,
        "family": kind.family,
        "calls": kind.calls,
        "work": [int(amount) for amount in kind.work],
        "children": [list(role) for role in kind.children],
        "nodes": {
            "bases": nodes.bases.tolist(),
            "depths": nodes.depths.tolist(),
            "samples": nodes.samples.tolist(),
            "live": nodes.live.astype(int).tolist(),
            "operands": nodes.operands.ravel().tolist(),
        },
    }


def _decoded(document: Fields) -> BatchTrace:
    specs = [_spec(fields) for fields in document.objects("specs")]
    leaves = document.object("leaves")
    bases = leaves.numbers("bases")
    kinds, nodes = [], []
    for fields in document.objects("kinds"):
        kinds.append(_kind(fields, specs))
        width = sum(spec.rows for spec in kinds[-1].operands)
        nodes.append(_nodes(fields.object("nodes"), width))
    return BatchTrace(
        granularity=document.text("granularity"),
        sharing=document.flag("sharing"),
        rows=document.number("rows"),
        leaves=tuple(
            TraceLeaf(base, leaves.chosen(specs, number, "specs"))
            for base, number in zip(bases.tolist(), leaves.numbers("specs", len(bases)).tolist())
        ),
        tables=tuple(
            TracedTable(fields.chosen(specs, fields.number("spec"), "spec"), fields.numbers("rows"))
            for fields in document.objects("tables")
        ),
        kinds=tuple(kinds),
        nodes=tuple(nodes),
    )


def _spec(fields: Fields) -> Spec:
    shape = tuple(fields.numbers("shape").tolist())
    mode = fields.text("mode", *MODES)
    if any(extent < 1 for extent in shape) or MODES.index(mode) > len(shape):
        raise Damaged(f"{fields.where} has shape {shape} in mode {mode}")
    return intern_spec(shape, fields.text("dtype"), fields.text("device"), mode)


def _kind(fields: Fields, specs: list[Spec]) -> TraceKind:
    return TraceKind(
        name=fields.text("name"),
        mode=fields.number("mode"),
        operands=tuple(fields.chosen(specs, number, "operands") for number in fields.numbers("operands").tolist()),
        outputs=tuple(
            Output(output.chosen(specs, output.number("spec"), "spec"), output.number("offset"))
            for output in fields.objects("outputs")
        ),
        rows=fields.number("rows"),
        pure=fields.flag("pure"),
        alone=fields.text_or_none("alone"),
        operator=fields.flag("operator"),
        poly=fields.flag("poly"),
        sum_of=fields.number("sum_of"),
        family=fields.number("family"),
        calls=fields.number("calls"),
        work=_work(fields.numbers("work", len(Work._fields), most=_MOST_WORK).tolist()),
        children=fields.number_lists("children"),
    )


def _work(amounts: list[int]) -> Work:
    operators, flops, moved, weights = amounts
    return Work(operators, float(flops), moved, weights)


def _nodes(fields: Fields, width: int) -> TraceNodes:
    bases = fields.numbers("bases")
    count = len(bases)
    return TraceNodes(
        bases=bases,
        depths=fields.numbers("depths", count),
        samples=fields.numbers("samples", count, least=-1),
        live=fields.numbers("live", count, most=1).astype(bool),
        operands=fields.numbers("operands", count * width).reshape(count, width),
    )
