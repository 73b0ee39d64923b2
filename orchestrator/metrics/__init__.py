"""Figures for Prometheus: counters folded from the items that this node appends, gauges read at each scrape."""

from orchestrator.metrics.counting import Metrics, Snapshot
from orchestrator.metrics.figures import FIGURES, PREFIX, Figure
from orchestrator.metrics.lag import watch_lag

__all__ = ["FIGURES", "PREFIX", "Figure", "Metrics", "Snapshot", "watch_lag"]
