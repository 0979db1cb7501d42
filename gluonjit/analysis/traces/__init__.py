"""Traces: captured graphs as files, from which a flush is planned again without a framework."""

from gluonjit.analysis.traces.document import NO_SAMPLE, BatchTrace, TracedTable, TraceKind, TraceLeaf, TraceNodes
from gluonjit.analysis.traces.files import read_trace, write_trace
from gluonjit.analysis.traces.restoring import Restored, graph_of, merged, restored, variant
from gluonjit.analysis.traces.samples import resampled, sample_numbers
from gluonjit.analysis.traces.saving import save_graph, trace_of

__all__ = [
    "NO_SAMPLE",
    "Restored",
    "TracedTable",
    "BatchTrace",
    "TraceKind",
    "TraceLeaf",
    "TraceNodes",
    "graph_of",
    "merged",
    "read_trace",
    "resampled",
    "restored",
    "sample_numbers",
    "save_graph",
    "trace_of",
    "variant",
    "write_trace",
]
