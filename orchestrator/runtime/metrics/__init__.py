"""Figures for Prometheus: counters folded from the items that this node appends, gauges read at each scrape."""

from orchestrator.runtime.metrics.counters import Metrics, Snapshot
from orchestrator.runtime.metrics.figures import FIGURES, PREFIX, Figure
from orchestrator.runtime.metrics.lag import watch_lag

__all__ = ["FIGURES", "PREFIX", "Figure", "Metrics", "Snapshot", "watch_lag"]
