"""Figures for Prometheus: counters folded from the items that this node appends, gauges read at each scrape."""

from orchestrator.runtime.metrics.counters import FIGURES, PREFIX, Figure, Metrics, Snapshot, watch_lag

__all__ = ["FIGURES", "PREFIX", "Figure", "Metrics", "Snapshot", "watch_lag"]
